"""Loads a target or a draft model from a name, file, folder or the Hub. `engine.models.pair_check` says whether two fit
together.

Known names are "builtin" (the built-in target) and "builtin-draft" (the small draft model trained for it). Everything else is a
GGUF file, an mlx-lm folder, a folder of the format in `engine.models.trimmed_draft`, or an "organisation/model" id of the
Hugging Face Hub. Local files take precedence over the Hub, and a name that can only be a path never starts a download. Code
that comes with a model is never run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.utils
from huggingface_hub import get_safetensors_metadata, hf_hub_download
from mlx.utils import tree_map, tree_map_with_path
from mlx_lm.models import ministral3

from engine.files import builtin, ollama, recommended_sampling
from engine.files.download import Download
from engine.files.foreign import object_in, table
from engine.files.gguf_header import is_gguf, read_header
from engine.files.hub import HUB_ID, folder_of, offers
from engine.files.memory import MakeRoom, MemoryNeed, need_of_folder, need_of_gguf
from engine.files.model_folder import (
    CONFIG,
    DRAFTER_TYPES,
    WEIGHTS,
    adapter_files,
    base_candidates,
    base_of,
    missing_base_message,
    read_json,
    require_usable,
    weights_of,
)
from engine.files.mtp_files import layer_count, names_of_heads
from engine.files.ollama import OllamaModel
from engine.files.safetensors_header import Table, listed
from engine.machine import device
from engine.machine.host import computes_on_host
from engine.models import adapters, gguf_model, trimmed_draft
from engine.models.configuration import explained, read_configuration, require_rotation
from engine.models.context_length import context_length
from engine.models.gguf_tokenizer import from_gguf
from engine.models.loaded import LoadedModel
from engine.models.pair_check import PairReport, cache_reason, check_pair, target_reason
from engine.models.tokenizer_files import from_folder
from engine.target.layer_taps import embedding_of
from engine.values.drafter_kinds import BY_PATH, CUT_DRAFT, SMALL_DRAFT, type_stated
from engine.values.errors import DraftlightError, NotEnoughMemory, is_whole, reason_of
from engine.values.events import LOADING, ReportStep

__all__ = [
    "BUILTIN_DRAFT",
    "LoadedModel",
    "PairReport",
    "cache_reason",
    "check_pair",
    "keep_resident",
    "load",
    "target_reason",
]

Split = Callable[[nn.Module, str], None]
"""Called with a model and its name: removes the parts that other processes hold, before the weights are read into memory."""

_EIGHT_BIT_ADVICE = (
    "Its weights are in 8-bit floating point, which mlx-lm does not expand in this architecture. Choose a version in 16-bit "
    "numbers, or one that was quantised for mlx-lm."
)

BUILTIN_DRAFT = Path(__file__).resolve().parents[2] / "assets" / "drafters" / "smollm2-135m-draft"


def load(
    name_or_path: str,
    progress: ReportStep | None = None,
    *,
    target: LoadedModel | None = None,
    make_room: MakeRoom | None = None,
    split: Split | None = None,
) -> LoadedModel:
    """Loads a model for the calling thread. Models loaded before stay usable if this fails.

    On the CPU every weight is dequantised to float32 after loading: MLX's Linux backend multiplies quantised and half-precision
    matrices in scalar loops, one pass per row. In float32 they go through BLAS, which verifies eight rows in 1.6 times the time
    of one. On a GPU the weights stay as stored.

    Args:
        name_or_path: see the module's docstring.
        progress: called with the step as text and the fraction done (None if unknown).
        target: a loaded target; a draft model cut from it shares its embedding instead of loading it again.
        make_room: called with the model's memory need before any weight is read; it raises to prevent loading.
        split: called once the weights have the form they run in. By then a GGUF file has been read completely, a folder has
            not.

    Raises:
        DraftlightError: says what is wrong with the model or the name, and what to do.
    """
    report_step = progress or (lambda step, fraction, is_download=False, /: None)
    check_room = make_room or (lambda need: None)
    if name_or_path == "builtin":
        path = builtin.fetch_builtin(report_step)
        report_step(LOADING, None)
        return _load_gguf(path, builtin.NAME, check_room, split)
    if name_or_path == SMALL_DRAFT:
        if not BUILTIN_DRAFT.is_dir():
            raise DraftlightError(
                "The built-in draft model is missing from this installation. Reinstall Draftlight, or choose ngram."
            )
        return _load_folder(BUILTIN_DRAFT, "SmolLM2-135M draft", report_step, target, check_room)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _load_folder(path, path.resolve().name, report_step, target, check_room, split)
    if path.is_file():
        of_ollama = ollama.model_of(path)
        if of_ollama is not None and of_ollama.problem:
            raise DraftlightError(f"{of_ollama.name} {of_ollama.problem}")
        if of_ollama is None and path.suffix.lower() != ".gguf" and not is_gguf(path):
            weights = " It holds weights: choose the folder in which it lies." if path.suffix == ".safetensors" else ""
            raise DraftlightError(f"{path} is neither a .gguf file nor a model folder.{weights}")
        report_step(LOADING, None)
        return _load_gguf(path, path.stem if of_ollama is None else of_ollama.name, check_room, split, of_ollama)
    if not HUB_ID.fullmatch(name_or_path) or path.suffix == ".gguf":
        raise DraftlightError(
            f"There is no model at {name_or_path}. Give a folder, a .gguf file, builtin, or a Hugging Face id (owner/model)."
        )
    return _load_folder(
        fetch(name_or_path, report_step, check_room, computes_on_host()), name_or_path, report_step, target, check_room, split
    )


def _load_gguf(
    path: Path, name: str, make_room: MakeRoom, split: Split | None, of_ollama: OllamaModel | None = None
) -> LoadedModel:
    source, path = path, path if of_ollama is None else of_ollama.weights
    header = read_header(path)
    make_room(need_of_gguf(name, header, gguf_model.read_config(path, header), computes_on_host()))
    tokenizer = from_gguf(header.metadata, header.tensors["token_embd.weight"].shape[0])
    model, config, form = gguf_model.load_gguf(path, header, computes_on_host())
    if split is not None:
        split(model, name)
        tree_map(mx.eval, model.parameters())
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        eos_ids=tokenizer.eos_ids,
        vocabulary=tokenizer.vocabulary,
        context_length=config["max_position_embeddings"],
        name=name,
        path=str(source),
        weight_files=(path,),
        form=form,
        sampling=recommended_sampling.BUILTIN
        if name == builtin.NAME
        else recommended_sampling.of_metadata(header.metadata, of_ollama),
    )


def _load_folder(
    folder: Path, name: str, report: ReportStep, target: LoadedModel | None, make_room: MakeRoom, split: Split | None = None
) -> LoadedModel:
    report(LOADING, None)
    adapter = None
    if (base := base_of(folder)) is not None:
        adapter, folder = folder, _base_folder(folder, base, report, make_room)
    config = read_json(folder / CONFIG, required=False)
    if config.get("model_type") == CUT_DRAFT:
        return _load_trimmed_draft(folder, name, config, target)
    if (kind := type_stated(config)) in DRAFTER_TYPES:
        raise DraftlightError(
            f"{folder} contains only a drafter ({BY_PATH[kind].title}), and no model that could answer. Choose it as the "
            "drafter of the model that it was made for."
        )
    weights = weights_of(folder)
    require_usable(folder, config, weights)
    files, tables = tuple(weights), list(weights.values())
    rows = {shape[0] for table in tables for tensor, (_, shape) in table.items() if "embed_tokens" in tensor and shape}
    config = read_configuration(folder, rows)
    make_room(need_of_folder(name, tables, config, computes_on_host()))
    with explained(folder, _EIGHT_BIT_ADVICE if _is_narrow(tables) else ""), _with_only(folder, files) as readable_folder:
        heads = names_of_heads((name for own in tables for name in own), layer_count(config))
        model, config = mlx_lm.utils.load_model(
            readable_folder, lazy=True, model_config=config, get_model_classes=_without(frozenset(heads))
        )
        require_rotation(model, config, folder)
        _require_expanded(model, tables, folder)
        width = model(mx.array([[0]])).shape[-1]
    if adapter is not None:
        adapters.attach(model, adapter)
        files += adapter_files(adapter)
    tokenizer = from_folder(folder, width, adapter)
    _prepare(model, name, split)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        eos_ids=_eos_ids(folder, width) | tokenizer.eos_ids,
        vocabulary=tokenizer.vocabulary,
        context_length=context_length(config, getattr(model, "args", None)),
        name=name,
        path=str(adapter or folder),
        weight_files=files,
        sampling=(recommended_sampling.of_folder(adapter) if adapter else ()) or recommended_sampling.of_folder(folder),
    )


@contextlib.contextmanager
def _with_only(folder: Path, files: Collection[Path]) -> Iterator[Path]:
    """Yields the folder, or one with links to its `files` if mlx-lm would read other weights too or cannot read its
    config.json. The caller passes the configuration to mlx-lm itself."""
    if set(folder.glob(WEIGHTS)) == set(files) and _reads_config(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as links:
        for path in files:
            (Path(links) / path.name).symlink_to(path.resolve())
        (Path(links) / CONFIG).write_text("{}")
        yield Path(links)


def _without(names: frozenset[str]) -> Callable[..., tuple[type[nn.Module], type]]:
    """Returns mlx-lm's choice of a class for a configuration, with a class that ignores some tensors of the files.

    mlx-lm drops MTP heads only where it expects them. Elsewhere they would make the weights look as if there were too many, or as
    if they were not converted yet.
    """
    if not names:
        return mlx_lm.utils._get_classes

    def classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
        """Returns the class of the model and that of its settings."""
        kind, arguments = mlx_lm.utils._get_classes(config)

        def sanitize(model: Any, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            """Converts the weights as the class does, without those of heads; the model is then of its own class again."""
            model.__class__ = kind
            own = {name: array for name, array in weights.items() if name not in names}
            return cast(dict[str, mx.array], model.sanitize(own)) if hasattr(model, "sanitize") else own

        return type(kind.__name__, (kind,), {"sanitize": sanitize}), arguments

    return classes


def _reads_config(folder: Path) -> bool:
    """Returns whether mlx-lm can read the folder's JSON files itself. It cannot read one with a byte order mark, for
    example."""
    try:
        mlx_lm.utils.load_config(folder)
    except Exception:  # such files can raise any exception
        return False
    return True


def _is_narrow(tables: Iterable[Table]) -> bool:
    return any(dtype.startswith("F8_E") for table in tables for dtype, _ in table.values())


def _require_expanded(model: nn.Module, tables: Sequence[Table], folder: Path) -> None:
    """Raises DraftlightError if mlx-lm would use the raw bytes of 8-bit floating-point weights as numbers."""
    if not _is_narrow(tables):
        return
    unscaled = [
        f"{path}.{name}"
        for path, layer in model.named_modules()
        for name, array in layer.items()
        if isinstance(array, mx.array) and array.dtype == mx.uint8 and "scales" not in layer
    ]
    multiplies_bytes = isinstance(getattr(model, "language_model", model), ministral3.Model)  # as raw bytes, times the scales
    if unscaled or multiplies_bytes:
        names = f" ({listed(unscaled)})" if unscaled else ""
        raise DraftlightError(f"{folder} cannot be used{names}. {_EIGHT_BIT_ADVICE}")


def _base_folder(adapter: Path, base: str, report: ReportStep, make_room: MakeRoom) -> Path:
    """Returns the folder of an adapter's base model: next to it, elsewhere on this machine, or from the Hub."""
    for path in base_candidates(adapter, base):
        if path.is_dir():
            return path
    try:
        if HUB_ID.fullmatch(base):
            return fetch(base, report, make_room, computes_on_host())
    except NotEnoughMemory:
        raise
    except DraftlightError as error:
        raise DraftlightError(f"{missing_base_message(adapter, base)} {error}") from error
    raise DraftlightError(missing_base_message(adapter, base))


def _load_trimmed_draft(folder: Path, name: str, config: dict[str, Any], target: LoadedModel | None) -> LoadedModel:
    """Loads a draft model that uses the embedding and tokenizer of the target it was cut from."""
    if config.get("target_sha256") != builtin.SHA256:
        raise DraftlightError(f"{folder} was made for a target other than the built-in one, so its embedding is not available.")
    if target is None or target.sha256 != builtin.SHA256:
        path = builtin.fetch_builtin()
        header = read_header(path)
        tokenizer = from_gguf(header.metadata, config["vocab_size"])
        eos_ids = tokenizer.eos_ids
        embedding = gguf_model.load_embedding(path, header, mx.float32 if computes_on_host() else mx.float16)
    else:
        tokenizer, eos_ids, embedding = target.tokenizer, target.eos_ids, embedding_of(target.model)
    model, target_ids = trimmed_draft.load_trimmed(folder, config, embedding)
    _prepare(model)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        eos_ids=eos_ids,
        vocabulary=tokenizer.vocabulary,
        context_length=context_length(config),
        name=name,
        path=str(folder),
        target_ids=target_ids,
        weight_files=(folder / "model.safetensors",),
    )


def _prepare(model: nn.Module, name: str = "", split: Split | None = None) -> None:
    """Converts the weights to the form they run in (see `load`), removes the parts that others hold, and reads the rest into
    memory.

    Weights are evaluated one by one: together, their intermediate results would take up to a third of the model's size on top
    of it.
    """
    try:
        if computes_on_host():
            to_float32(model)
            adapters.merge(model)
        else:
            to_one_float_type(model)
        if split is not None:
            split(model, name)
        tree_map(mx.eval, model.parameters())
    except (ValueError, RuntimeError) as error:
        raise DraftlightError(f"The weights cannot be read: {reason_of(error)} Download the model again.") from error


def keep_resident() -> None:
    """Makes macOS (15 or newer) keep the loaded weights in memory, up to Metal's recommended limit. Waits for queued work
    first.

    By default macOS may page out models that nearly fill the memory, and each pass then waits for them. Later allocations, such
    as keys and values, are not included: wiring them too would take memory from other programs.
    """
    kind, _, limit = device.device()
    if kind == "metal" and limit is not None:
        mx.synchronize()
        mx.clear_cache()  # freed buffers would otherwise count towards the limit
        mx.set_wired_limit(min(limit, mx.get_active_memory()))


def to_float32(model: nn.Module) -> None:
    """Dequantises and widens the weights in place. Scales are widened first, so that no product is rounded to half
    precision."""
    model.set_dtype(mx.float32)
    mlx_lm.utils.dequantize_model(model)
    model.set_dtype(mx.float32)


def to_one_float_type(model: nn.Module) -> None:
    """Casts norms to the type of the quantised layers' scales, so that activations are not widened.

    Parameters that the model's class excludes from casting (`cast_predicate`: decays, biases of routers) keep their type.
    """
    scales = {module.scales.dtype for module in model.modules() if hasattr(module, "scales")} & {mx.float16, mx.bfloat16}
    if len(scales) != 1:
        return
    (narrow,) = scales
    may_cast = getattr(model, "cast_predicate", lambda name: True)

    def cast(name: str, array: mx.array) -> mx.array:
        """Returns the parameter in the scales' type if it is a float that may be cast; else unchanged."""
        return array.astype(narrow) if may_cast(name) and mx.issubdtype(array.dtype, mx.floating) else array

    model.update(tree_map_with_path(cast, model.parameters()))


def _eos_ids(folder: Path, width: int) -> frozenset[int]:
    """Returns the EOS tokens stated in config.json, in its part for the text model, and in generation_config.json."""
    config = object_in(folder / CONFIG)
    tokens: set[int] = set()
    for part in (config, table(config.get("text_config")), object_in(folder / "generation_config.json")):
        stated = part.get("eos_token_id")
        ids = stated if isinstance(stated, list) else [stated]
        tokens.update(token for token in ids if is_whole(token) and 0 <= token < width)
    return frozenset(tokens)


def fetch(name: str, report: ReportStep, make_room: MakeRoom, widened: bool) -> Path:
    """Returns the folder of a model: in Draftlight's own folder or in the Hub's cache, where the model is downloaded if it is in
    neither.

    Args:
        name: "owner/model".
        report: called with the steps of the download.
        make_room: called before a download with the memory that the model needs. Frees memory, or raises NotEnoughMemory, and
            then nothing is downloaded.
        widened: whether the weights will be expanded to float32.

    Raises:
        DraftlightError: the model is not available; says why.
    """
    if (local := folder_of(name)) is not None:
        return local
    step = f"downloading {name} from the Hugging Face Hub"
    report(step, None, True)
    try:
        usable = [offer for offer in offers(name) if not offer.file]
        if usable and not usable[0].problem:
            # Only after the Hub has answered: without a network this call would retry for 23 s.
            if (need := need_before_download(name, widened)) is not None:
                make_room(need)
            return Download(usable[0], lambda progress: report(step, progress.done / max(1, progress.total), True)).run()
    except NotEnoughMemory:
        raise
    except DraftlightError as error:
        organisation, model = name.split("/")
        note = f" The folder {organisation} here has no {model} in it." if Path(organisation).is_dir() else ""
        reason = f"{error}{note}"
        raise DraftlightError(
            f"{name} is not a local folder and could not be downloaded from the Hugging Face Hub: {reason}"
        ) from error
    if usable:
        raise DraftlightError(f"{name} on the Hugging Face Hub cannot be used: {usable[0].problem}")
    raise DraftlightError(
        f"{name} on the Hugging Face Hub is not a model for mlx-lm: it has no config.json with safetensors. "
        "If it has GGUF files, download one and choose it."
    )


def need_before_download(name: str, widened: bool) -> MemoryNeed | None:
    """Returns a model's memory need, from the headers of its files on the Hub (about 100 kB each); None if they do not state
    it.

    Errors of the model or the network are left to the download, which reports them.
    """
    with contextlib.suppress(Exception):
        config = read_json(Path(hf_hub_download(name, CONFIG)))
        files = get_safetensors_metadata(name).files_metadata.values()
        tables = [{tensor: (str(info.dtype), tuple(info.shape)) for tensor, info in file.tensors.items()} for file in files]
        return dataclasses.replace(need_of_folder(name, tables, config, widened), is_ahead=True)
    return None
