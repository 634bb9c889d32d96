"""The Hugging Face Hub as a place to search: what there is, what of it can be used here, which files make it up.

Nothing is downloaded here but descriptions; `engine.files.download` fetches. No MLX. Everything here waits for the network, so
the window asks on a thread of its own.
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
from engine.files.library import bits_of_type, expanded_need, own_place, problem_of_architecture
from engine.files.model_folder import ADAPTER_CONFIG, CONFIG, is_described, is_whole
from engine.machine.mlx_import import device_kind
from engine.values.drafter_kinds import DRAFTERS
from engine.values.errors import DraftlightError

FILES = (
    "*.json",
    "*.jinja",
    "model*.safetensors",
    "adapter*.safetensors",
    "tokenizer.model",
    "*.tiktoken",
    "tiktoken.model",
)
"""What mlx-lm reads of a repository. Code and pickled weights are not among them."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""How a model of the Hub is called; a path may look the same."""
MOST_FOUND = 50
_TIMEOUT = 10.0
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_WANTED = ("downloads", "gated", "safetensors", "gguf", "tags", "config")


class Offline(DraftlightError):
    """The Hub cannot be reached now. What is on this machine works as before, and what was begun can go on later."""


class Gated(DraftlightError):
    """The publisher asks for something first: `page` is where. Then a token is needed."""

    def __init__(self, message: str, page: str) -> None:
        super().__init__(message)
        self.page = page


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository that a search found. Empty texts and None stand for what the Hub does not tell.

    Attributes:
        name: "owner/model". form: "GGUF" or "safetensors".
        parameters: how many. downloads: in the last 30 days. gated: whether its publisher asks for something first.
        problem: why it cannot be used here.
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
        digest: of its content: SHA-256, or for a small file, which is in git itself, git's SHA-1; their lengths tell which.
    """

    path: str
    size: int
    digest: str

    @property
    def name(self) -> str:
        """Its name without folders; that of the file it becomes here."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Offer:
    """One model that can be downloaded: a whole repository for mlx-lm, or one GGUF file of it.

    Attributes:
        file: the GGUF file's path; empty for the repository.
        commit: the state of the repository in which the files were looked up.
        quantisation: as far as it is told. need: bytes of memory, roughly; None where nothing tells.
        problem: why it cannot be used.
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
        """By which it is asked for: "owner/model" or "owner/model:FILE.gguf"."""
        return f"{self.repository}:{self.file}" if self.file else self.repository

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def search(words: str, limit: int = MOST_FOUND) -> list[HubModel]:
    """Repositories whose names contain the words, the most downloaded first; without words, of those that write text.

    Raises:
        DraftlightError: the Hub does not answer (Offline), or refuses.
    """
    from huggingface_hub import ModelInfo, constants, get_session, hf_raise_for_status

    asked: dict[str, Any] = {"sort": "downloads", "limit": limit, "expand": list(_WANTED)}
    asked |= {"search": words.strip()} if words.strip() else {"pipeline_tag": "text-generation"}
    try:  # not by list_models, which without a network tries again and again for 23 s
        answer = get_session().get(f"{constants.ENDPOINT}/api/models", params=asked, headers=authorisation(), timeout=_TIMEOUT)
        hf_raise_for_status(answer)
        return [_described(ModelInfo(**entry)) for entry in answer.json()]
    except Exception as error:  # network, authorisation and repository errors of several libraries
        raise explained(error, "") from error


def offers(name: str) -> list[Offer]:
    """What can be downloaded of a repository: itself if mlx-lm can read it, and each of its GGUF files, smallest first.

    Raises:
        DraftlightError: there is none of this name, or the Hub does not answer (Offline).
    """
    from huggingface_hub import HfApi

    if not HUB_ID.fullmatch(name):
        raise DraftlightError(f"{name} is not the name of a model on the Hugging Face Hub, which is OWNER/MODEL.")
    try:
        return _offers(name, HfApi().model_info(name, files_metadata=True, timeout=_TIMEOUT))
    except Exception as error:  # as in `search`, and whatever Python raises for an answer of another shape
        raise explained(error, name) from error


def _offers(name: str, info: Any) -> list[Offer]:
    described, commit = _described(info), info.sha or "main"
    files = [_file(sibling) for sibling in info.siblings or ()]
    whole = [file for file in files if "/" not in file.path and any(fnmatch.fnmatch(file.path, one) for one in FILES)]
    found = []
    if any(file.path in (CONFIG, ADAPTER_CONFIG) for file in whole) and _weights(whole):
        problem = described.problem if described.form == "safetensors" else ""
        found.append(Offer(name, "", commit, tuple(whole), _quantisation(info), _need(info), problem))
    for file in sorted(files, key=lambda file: file.size):
        if file.name.endswith(".gguf") and not file.name.startswith("mmproj"):
            kind, bits = bits_of_type(file.name)
            problem = "It is split into several files." if _PART.search(file.name) else ""
            if described.form == "GGUF":
                problem = problem or described.problem
            found.append(Offer(name, file.path, commit, (file,), kind, expanded_need(file.size, kind, bits), problem))
    return found


def offer(name: str) -> Offer:
    """The one model of this name, "owner/model" or "owner/model:FILE.gguf".

    Raises:
        DraftlightError: there is none, several could be meant, or it cannot be used: which, and why.
    """
    repository, _, file = name.partition(":")
    found = offers(repository)
    fitting = [one for one in found if one.file == file or (file and one.file.rpartition("/")[2] == file)]
    usable = [one for one in found if not one.problem]
    if not fitting and not file and len(usable) == 1:
        fitting = usable
    if not fitting:
        listed = "".join(f"\n  {one.name}" for one in found if one.file)
        if file or not listed:
            raise DraftlightError(
                f"{repository} has no {file}." if file else f"{repository} has neither safetensors for mlx-lm nor GGUF files."
            )
        raise DraftlightError(f"{repository} has several GGUF files. Choose one of them:{listed}")
    if fitting[0].problem:
        raise DraftlightError(f"{name} cannot be used: {fitting[0].problem}")
    return fitting[0]


def page_of(name: str) -> str:
    """The address of a repository, to be read by people."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{name.partition(':')[0]}"


def authorisation() -> dict[str, str]:
    """The header that huggingface_hub's token stands in; empty without one."""
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def signed_in() -> bool:
    """Whether huggingface_hub has a token, in its file or in the environment."""
    return bool(authorisation())


def sign_in(token: str) -> None:
    """Keeps a token in huggingface_hub's own file, where every program that uses the Hub finds it, once the Hub has accepted it.

    Raises:
        DraftlightError: it is refused, or the Hub does not answer (Offline).
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
    """What an exception of huggingface_hub or its network means for the user.

    Args:
        name: of the model that was asked for; empty where none was.
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
    """Whether there was no connection, or it broke. Libraries below huggingface_hub change, their names of errors do not."""
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
    """How many weights there are; several of a quantised model lie in one 32-bit number."""
    if info.safetensors is None:
        return None
    packed = 32 // (_bits(info) or 32)
    return sum(many * (packed if kind in ("U32", "I32") else 1) for kind, many in info.safetensors.parameters.items())


def _need(info: Any) -> int | None:
    """Bytes of memory that safetensors take once they are loaded, without the cache."""
    parameters = _parameters(info)
    if parameters is None:
        return None
    if device_kind() == "cpu":
        return 4 * parameters
    return round(_weights(map(_file, info.siblings or ())))


def require_drafter(name: str) -> None:
    """Raises DraftlightError where the name alone tells that it is no drafter's: neither one that is known, nor a path to what is
    on this machine, nor how the Hub calls models."""
    if name in DRAFTERS or HUB_ID.fullmatch(name):
        return
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # too long, of nobody's home, with a null in it
        if name and Path(name).expanduser().exists():
            return
    near = difflib.get_close_matches(name.lower(), DRAFTERS, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise DraftlightError(
        f"There is no drafter {name or 'without a name'}.{meant} Choose from {', '.join(DRAFTERS)}; or give a drafter's folder "
        "or .gguf file, or a Hugging Face id (owner/model)."
    )


def is_here(name: str) -> bool:
    """Whether a target or a drafter of this name is on this machine, as far as its folder or file tells. What comes with
    Draftlight counts as here, though the built-in target is downloaded when it is first used."""
    if name == "builtin" or name in DRAFTERS or Path(name).expanduser().exists():
        return True
    if not HUB_ID.fullmatch(name):
        return False
    return any(map(is_described, (own_place(name), *(repository_folder(name) / "snapshots").glob("*"))))


def folder_of(name: str) -> Path | None:
    """Returns the folder of a model of the Hub that is on this machine with all of its weights; None if there is none.

    What Draftlight has downloaded goes before the cache of the Hub's own programs. The Hub is not asked for anything newer.
    """
    if not HUB_ID.fullmatch(name):
        return None
    if is_described(own_place(name)):  # which a download is only once it is complete
        return own_place(name)
    return next(filter(is_whole, snapshots(repository_folder(name))), None)
