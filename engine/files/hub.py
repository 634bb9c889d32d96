"""Searches the Hugging Face Hub: finds models, checks whether they can be used here, and lists their files.

Only descriptions are downloaded here; `engine.files.download` downloads models. No MLX. Functions that ask the Hub block, so the
window calls them on a thread of their own.
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.files.cached_models import repository_folder, snapshots
from engine.files.foreign import table
from engine.files.gguf_architectures import ARCHITECTURES
from engine.files.library import bits_of_type, download_destination, expanded_need, problem_of_architecture
from engine.files.model_folder import ADAPTER_CONFIG, CONFIG, is_described, is_whole
from engine.machine.mlx_import import device_kind
from engine.values.drafter_kinds import DRAFTERS
from engine.values.errors import DraftlightError

FILES = (
    "*.json",
    "*.jinja",
    "model*.safetensors",
    "adapter*.safetensors",
    "mtp.safetensors",  # an MTP head beside the weights
    "tokenizer.model",
    "*.tiktoken",
    "tiktoken.model",
)
"""Patterns of the files that mlx-lm and Draftlight read from a repository. Code and pickled weights are not among them."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""Matches the name of a model on the Hub, "owner/model". A relative path may look the same."""
MAX_RESULTS = 50
_TIMEOUT = 10.0
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_WANTED = ("downloads", "gated", "safetensors", "gguf", "tags", "config")


class Offline(DraftlightError):
    """The Hub cannot be reached now. Models on this machine still work, and downloads can be resumed later."""


class Gated(DraftlightError):
    """The publisher's conditions must be accepted first, at the address `page`. Downloading then needs a token."""

    def __init__(self, message: str, page: str) -> None:
        super().__init__(message)
        self.page = page


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository that a search found. Empty texts and None mean that the Hub does not state the value.

    Attributes:
        name: "owner/model". form: "GGUF" or "safetensors".
        parameters: number of weights. context: tokens. downloads: in the last 30 days.
        gated: whether its publisher's conditions must be accepted first.
        problem: reason why it cannot be used here; empty if none is known.
    """

    name: str
    form: str = ""
    architecture: str = ""
    parameters: int | None = None
    context: int | None = None
    downloads: int = 0
    gated: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository.

    Attributes:
        path: in the repository. size: bytes.
        digest: SHA-256 of the content, 64 digits; for a small file, which is in git itself, git's SHA-1, 40 digits.
    """

    path: str
    size: int
    digest: str

    @property
    def name(self) -> str:
        """The name without folders, which the downloaded file gets, too."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that can be downloaded: a whole repository for mlx-lm, or one of its GGUF files.

    Attributes:
        file: path of the GGUF file; empty for the whole repository.
        commit: commit of the repository that has these files.
        quantisation: empty if unknown. need: bytes of memory, roughly; None if unknown.
        problem: reason why it cannot be used; empty if none is known.
    """

    repository: str
    file: str
    commit: str
    files: tuple[HubFile, ...]
    quantisation: str = ""
    need: int | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The name to request it by: "owner/model" or "owner/model:FILE.gguf"."""
        return f"{self.repository}:{self.file}" if self.file else self.repository

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)


def search(words: str, limit: int = MAX_RESULTS) -> list[HubModel]:
    """Returns repositories with names that contain the words, most downloaded first; without words, all that generate text.

    Raises:
        DraftlightError: the Hub cannot be reached (Offline), or refuses.
    """
    from huggingface_hub import ModelInfo, constants, get_session, hf_raise_for_status

    query: dict[str, Any] = {"sort": "downloads", "limit": limit, "expand": list(_WANTED)}
    query |= {"search": words.strip()} if words.strip() else {"pipeline_tag": "text-generation"}
    try:  # not with list_models, which retries for 23 s without a network
        entries_ = get_session().get(f"{constants.ENDPOINT}/api/models", params=query, headers=authorisation(), timeout=_TIMEOUT)
        hf_raise_for_status(entries_)
        return [_described(ModelInfo(**entry)) for entry in entries_.json()]
    except Exception as error:  # network, authorisation and repository errors of several libraries
        raise explained(error, "") from error


def offers(name: str) -> list[Offer]:
    """Returns the models that can be downloaded from a repository: itself if mlx-lm can read it, then its GGUF files by size.

    Raises:
        DraftlightError: no repository has this name, or the Hub cannot be reached (Offline).
    """
    from huggingface_hub import HfApi

    if not HUB_ID.fullmatch(name):
        raise DraftlightError(f"{name} is not the name of a model on the Hugging Face Hub, which is OWNER/MODEL.")
    try:
        return _offers(name, HfApi().model_info(name, files_metadata=True, timeout=_TIMEOUT))
    except Exception as error:  # as in `search`, and errors of Python for an answer of another shape
        raise explained(error, name) from error


def _offers(name: str, info: Any) -> list[Offer]:
    described, commit = _described(info), info.sha or "main"
    files = [_file(sibling) for sibling in info.siblings or ()]
    repository_offer = [
        file for file in files if "/" not in file.path and any(fnmatch.fnmatch(file.path, part) for part in FILES)
    ]
    offers_ = []
    if any(file.path in (CONFIG, ADAPTER_CONFIG) for file in repository_offer) and _weights(repository_offer):
        problem = described.problem if described.form == "safetensors" else ""
        offers_.append(Offer(name, "", commit, tuple(repository_offer), _quantisation(info), _need(info), problem))
    for file in sorted(files, key=lambda file: file.size):
        if file.name.endswith(".gguf") and not file.name.startswith("mmproj"):
            kind, bits = bits_of_type(file.name)
            problem = "It is split into several files." if _PART.search(file.name) else ""
            if described.form == "GGUF":
                problem = problem or described.problem
            offers_.append(Offer(name, file.path, commit, (file,), kind, expanded_need(file.size, kind, bits), problem))
    return offers_


def offer(name: str) -> Offer:
    """Returns the model with this name, "owner/model" or "owner/model:FILE.gguf".

    Raises:
        DraftlightError: it does not exist, is ambiguous, or cannot be used; the message lists the choices or the reason.
    """
    repository, _, file = name.partition(":")
    offers_ = offers(repository)
    for_target = [each for each in offers_ if each.file == file or (file and each.file.rpartition("/")[2] == file)]
    usable = [each for each in offers_ if not each.problem]
    if not for_target and not file and len(usable) == 1:
        for_target = usable
    if not for_target:
        listed = "".join(f"\n  {each.name}" for each in offers_ if each.file)
        if file or not listed:
            raise DraftlightError(
                f"{repository} has no {file}." if file else f"{repository} has neither safetensors for mlx-lm nor GGUF files."
            )
        raise DraftlightError(f"{repository} has several GGUF files. Choose one of them:{listed}")
    if for_target[0].problem:
        raise DraftlightError(f"{name} cannot be used: {for_target[0].problem}")
    return for_target[0]


def page_of(name: str) -> str:
    """Returns the address of a repository's web page."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{name.partition(':')[0]}"


def authorisation() -> dict[str, str]:
    """Returns the HTTP header with huggingface_hub's token; empty without a token."""
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def signed_in() -> bool:
    """Returns whether huggingface_hub has a token, in its file or in the environment."""
    return bool(authorisation())


def sign_in(token: str) -> None:
    """Stores a token in huggingface_hub's own file once the Hub has accepted it. Other programs for the Hub use that file, too.

    Raises:
        DraftlightError: the token is refused, or the Hub cannot be reached (Offline).
    """
    from huggingface_hub import login

    try:
        login(token.strip(), skip_if_logged_in=False)
    except Exception as error:
        if isinstance(error, ValueError) or getattr(getattr(error, "response", None), "status_code", None) == 401:
            refused = "The Hub did not accept the token. Make one at https://huggingface.co/settings/tokens and copy all of it."
            raise DraftlightError(refused) from None
        raise explained(error, "") from None


def explained(error: Exception, name: str) -> DraftlightError:
    """Converts an exception of huggingface_hub or of its network library to an error with a message for the user.

    Args:
        name: name of the requested model; empty if the request was not about one.
    """
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, DraftlightError):
        return error
    if isinstance(error, errors.OfflineModeIsEnabled):
        return Offline("The Hugging Face Hub is switched off by HF_HUB_OFFLINE. Models on this machine can be used.")
    if is_of_the_network(error):
        return Offline(
            "The Hugging Face Hub cannot be reached. Models on this machine can be used; try again once you are online."
        )
    if isinstance(error, errors.GatedRepoError) or (status in (401, 403) and name and not signed_in()):
        page = page_of(name)
        if signed_in():
            what = (
                f"Accept its conditions at {page} with the account that your token belongs to, and wait until access is granted."
            )
        else:
            what = f"Accept its conditions at {page}, then sign in with a token, in the window or by hf auth login."
        return Gated(f"{name} is gated: its publisher wants to be asked first. {what}", page)
    if isinstance(error, errors.RepositoryNotFoundError):
        return DraftlightError(f"There is no {name} on the Hugging Face Hub, or it is private. Check the name.")
    if status == 401:
        return DraftlightError(
            "The Hugging Face Hub did not accept the stored token. Sign in again, or remove it (hf auth logout)."
        )
    if status == 429:
        return Offline("The Hugging Face Hub takes no more requests from here for now. Try again in a few minutes.")
    if isinstance(status, int) and status >= 500:
        return Offline(f"The Hugging Face Hub is out of order (status {status}). Try again later.")
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DraftlightError(f"The Hugging Face Hub could not be asked{f' for {name}' if name else ''}: {reason}")


def is_of_the_network(error: BaseException) -> bool:
    """Returns whether an error means that the connection failed or broke. Compares the names of exception classes, because they
    stay the same when huggingface_hub changes its HTTP library."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    return any(kind.__name__ in ("TransportError", "ProtocolError") for kind in type(error).__mro__)


def _described(info: Any) -> HubModel:
    tags, config, gguf = set(info.tags or ()), table(info.config), table(info.gguf)
    plain = "safetensors" in tags or "mlx" in tags or info.safetensors is not None
    form = "safetensors" if plain and "gguf" not in tags else "GGUF" if "gguf" in tags or gguf else "safetensors" if plain else ""
    architecture = str((gguf.get("architecture") if form == "GGUF" else config.get("model_type")) or "")
    problem = ""
    if not form:
        problem = "It has neither safetensors nor GGUF files."
    elif form == "GGUF" and architecture and architecture not in ARCHITECTURES:
        problem = f"The architecture {architecture} is not supported in GGUF files."
    elif form == "safetensors" and architecture:
        problem = problem_of_architecture(architecture)
    context, total = gguf.get("context_length"), gguf.get("total") or _parameters(info)
    return HubModel(
        str(info.id),
        form,
        architecture,
        total if isinstance(total, int) else None,
        context if isinstance(context, int) else None,
        info.downloads or 0,
        bool(info.gated),
        problem,
    )


def _file(sibling: Any) -> HubFile:
    digest = sibling.lfs.sha256 if sibling.lfs is not None else sibling.blob_id
    return HubFile(str(sibling.rfilename), int(sibling.size or 0), str(digest or ""))


def _weights(files: Iterable[HubFile]) -> int:
    return sum(file.size for file in files if file.name.endswith(".safetensors"))


def _bits(info: Any) -> int | None:
    config = table(info.config)
    bits = table(config.get("quantization") or config.get("quantization_config")).get("bits")
    return bits if isinstance(bits, int) and 1 < bits < 16 else None


def _quantisation(info: Any) -> str:
    bits, table = _bits(info), info.safetensors.parameters if info.safetensors is not None else {}
    return f"{bits}-bit" if bits else max(table, key=lambda kind: table[kind], default="")


def _parameters(info: Any) -> int | None:
    """Returns the number of weights; None without safetensors. A quantised model has several in one 32-bit number."""
    if info.safetensors is None:
        return None
    packed = 32 // (_bits(info) or 32)
    return sum(per_word * (packed if kind in ("U32", "I32") else 1) for kind, per_word in info.safetensors.parameters.items())


def _need(info: Any) -> int | None:
    """Returns the bytes of memory that loaded safetensors take, without the KV cache; None if unknown."""
    parameters = _parameters(info)
    if parameters is None:
        return None
    if device_kind() == "cpu":
        return 4 * parameters
    return _weights(map(_file, info.siblings or ()))


def require_drafter(name: str) -> None:
    """Raises DraftlightError unless the name can be a drafter's: a known drafter, an existing path, or a name as on the Hub."""
    if name in DRAFTERS or HUB_ID.fullmatch(name):
        return
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # too long, home of an unknown user, contains a null
        if name and Path(name).expanduser().exists():
            return
    similar = difflib.get_close_matches(name.lower(), DRAFTERS, 1)
    hint = f" Did you mean {similar[0]}?" if similar else ""
    raise DraftlightError(
        f"There is no drafter {name or 'without a name'}.{hint} Choose from {', '.join(DRAFTERS)}; or give a drafter's folder "
        "or .gguf file, or a Hugging Face id (owner/model)."
    )


def is_here(name: str) -> bool:
    """Returns whether a target or drafter with this name is on this machine. Checks only that its file or description exists.
    Draftlight's own ones always count, although the built-in target is downloaded when it is first used."""
    if name == "builtin" or name in DRAFTERS or Path(name).expanduser().exists():
        return True
    if not HUB_ID.fullmatch(name):
        return False
    return any(map(is_described, (download_destination(name), *(repository_folder(name) / "snapshots").glob("*"))))


def folder_of(name: str) -> Path | None:
    """Returns the folder of a Hub model that is on this machine with all of its weights, else None.

    Draftlight's own downloads take precedence over the Hugging Face cache. The Hub is not asked for a newer version.
    """
    if not HUB_ID.fullmatch(name):
        return None
    if is_described(download_destination(name)):  # true only once a download is complete
        return download_destination(name)
    return next(filter(is_whole, snapshots(repository_folder(name))), None)
