"""Lists the models on this machine from the headers of their files. No MLX, no network, no model is loaded.

Searches Draftlight's own folder, the Hugging Face cache, the folders of LM Studio and Ollama, and folders that the user added.
Reads the metadata of a GGUF file up to its vocabulary; in a model folder, config.json and the headers of the weights. Results are
cached in the data folder until the file or folder changes.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from engine.files import builtin, ollama
from engine.files.cached_models import snapshots
from engine.files.foreign import content_of, entries, json_of, object_in, table, text
from engine.files.gguf_architectures import ARCHITECTURES
from engine.files.gguf_header import not_a_model_reason, read_beginning
from engine.files.memory import cache_bytes, need_of_folder
from engine.files.model_folder import (
    CONFIG,
    DRAFTER_TYPES,
    WEIGHTS,
    is_adapter,
    is_model_folder,
    missing_parts,
    read_json,
    require_usable,
    weights_of,
)
from engine.files.mtp_files import MISSING, NONE, PRESENT, SIDECARS, head_words
from engine.files.paths import data_folder, hub_cache, models_folder
from engine.files.whole_file import NotWritten, write_whole
from engine.machine.mlx_import import device_kind
from engine.values.drafter_kinds import type_stated
from engine.values.errors import DraftlightError

_VERSION = 6
_LEVELS = 4
"""Maximum depth of subfolders that are searched."""
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
"""Ending of the names that llama.cpp gives to the parts of a split file."""
_RECURRENT = ("ssm", "mamba", "shortconv", "wkv", "linear_attn", "linear_num_key_heads", "conv_L_cache", "rwkv")
_FILE_TYPES = {
    0: ("F32", 32.0),
    1: ("F16", 16.0),
    2: ("Q4_0", 4.6),
    3: ("Q4_1", 5.1),
    7: ("Q8_0", 8.5),
    8: ("Q5_0", 5.6),
    9: ("Q5_1", 6.1),
    10: ("Q2_K", 3.2),
    11: ("Q3_K_S", 3.6),
    12: ("Q3_K_M", 4.0),
    13: ("Q3_K_L", 4.3),
    14: ("Q4_K_S", 4.7),
    15: ("Q4_K_M", 4.9),
    16: ("Q5_K_S", 5.6),
    17: ("Q5_K_M", 5.7),
    18: ("Q6_K", 6.6),
    25: ("IQ4_NL", 4.6),
    30: ("IQ4_XS", 4.4),
    32: ("BF16", 16.0),
    38: ("MXFP4", 4.6),
}
"""Name and approximate bits per weight of each `general.file_type` (llama.cpp, `llama_ftype`)."""
_NAMED_TYPES = sorted(_FILE_TYPES.values(), key=lambda pair: -len(pair[0]))
OWN = "Draftlight"
"""Source of models in Draftlight's own folder, which may be deleted."""
BUNDLED_SOURCE = "comes with Draftlight"
"""Source of the built-in target if Draftlight's package includes it. It must not be deleted."""
HUB = "Hugging Face"
"""Source of models in the Hugging Face cache."""
_LM_STUDIO_POINTER = ".lmstudio-home-pointer"
"""Name of a file in the user's home folder that contains the path of LM Studio's home folder, if it is not the usual one."""
_BITS_ON_GPU = {
    "Q4_K_S": 6.2,
    "Q4_K_M": 7.5,
    "Q5_K_S": 7.2,
    "Q5_K_M": 8.2,
    "Q8_0": 9.0,
    "Q4_0": 5.2,
    "Q4_1": 5.2,
    "MXFP4": 5.2,
    "F32": 32.0,
}
"""Approximate bits per weight of such a file once it is loaded on a GPU. Other types are expanded to 16 bits."""


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """A model, described by its headers. Empty texts and None mean that they do not state the value.

    Attributes:
        name: display name. target: value for `--target`.
        source: name of the place where it was found.
        size: bytes on disk. need: bytes of memory, with a cache of `memory.CACHE_TOKENS` tokens; approximate for a GGUF file.
        architecture, quantisation: as the file format names them. context: tokens.
        remembers: kind of attention or state of its layers: "keys" (full attention), "window", "chunks" or "recurrent".
        problem: reason why it cannot be used; empty if none is known.
        form: "GGUF", "safetensors", or "drafter" if `only_drafts`.
        only_drafts: whether it is a drafter, which cannot be a target.
        heads: what its files have of an MTP head, as a sentence; empty for drafters.
    """

    name: str
    target: str
    source: str
    size: int
    architecture: str = ""
    quantisation: str = ""
    context: int | None = None
    remembers: str = ""
    need: int | None = None
    problem: str = ""
    form: str = ""
    only_drafts: bool = False
    heads: str = ""

    @property
    def head(self) -> str:
        """`heads` in a word: "yes", "missing" if config.json promises one, or "no"; empty if that is unknown."""
        return "yes" if self.heads.startswith(PRESENT) else {MISSING: "missing", NONE: "no"}.get(self.heads, "")


def find(folders: Iterable[Path] = ()) -> list[LibraryModel]:
    """Returns all models found, sorted by source and name. Skips folders that are missing or cannot be read.

    Args:
        folders: further folders to search.
    """
    known = _read_record()
    entries_: dict[str, dict[str, Any]] = {}
    models: list[LibraryModel] = []
    for path, name, source in _model_paths(folders):
        with contextlib.suppress(OSError):
            stamp, files = _stamp(path)
            entry = known.get(path.as_posix())
            if entry is not None and entry["stamp"] == stamp:
                model = replace(LibraryModel(**entry["model"]), name=name, source=source)
            else:
                model = _read(path, files, name, source)
            entries_[path.as_posix()] = {"stamp": stamp, "model": asdict(model)}
            models.append(model)
    if entries_ != known:
        with contextlib.suppress(NotWritten, OSError):  # the record only saves time
            write_whole(_record(), json.dumps({"version": _VERSION, "device": device_kind(), "models": entries_}), durable=False)
    return sorted(models, key=lambda model: (model.source, model.name.lower()))


def builtin_model() -> LibraryModel:
    """Returns the built-in target, downloaded or not. Its `target` is a name instead of a path."""
    path = builtin.builtin_path()
    try:
        return replace(_read(path, [path], builtin.NAME, BUNDLED_SOURCE if path == builtin.BUNDLED else OWN), target="builtin")
    except OSError:
        return LibraryModel(builtin.NAME, "builtin", "downloaded when it is first used", builtin.SIZE, form="GGUF")


def _record() -> Path:
    return data_folder() / "library.json"


def _read_record() -> dict[str, dict[str, Any]]:
    try:
        stored = json_of(content_of(_record()))
        is_current = (stored["version"], stored["device"]) == (_VERSION, device_kind())  # memory needs depend on the device
        models: dict[str, dict[str, Any]] = stored["models"] if is_current else {}
        for entry in models.values():
            LibraryModel(**entry["model"]), entry["stamp"]
        return models
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stamp(path: Path) -> tuple[list[list[int]], list[Path]]:
    """Returns sizes and modification times that change with the model, and the files with its weights."""
    files = [ollama.weights_of(path)] if path.is_file() else sorted(path.glob(WEIGHTS))
    beside = [path / name for name in SIDECARS if (path / name).is_file()]
    described = list(dict.fromkeys((path, *files) if path.is_file() else (path / CONFIG, *files, *beside)))
    return [[state.st_size, state.st_mtime_ns] for state in (file.stat() for file in described)], files


def _model_paths(folders: Iterable[Path]) -> Iterator[tuple[Path, str, str]]:
    """Yields each GGUF file and model folder once, with its name and source."""
    seen: set[Path] = set()
    builtin_folder = builtin.builtin_path().parent
    sources = [
        *(
            (path, name, source)
            for path, name, source in _models_of_publishers(models_folder(), OWN)
            if builtin_folder != path.parent
        ),
        *_models_of_hub(hub_cache()),
        *(model for folder in _lm_studio_folders() for model in _models_of_publishers(folder, "LM Studio")),
        *_models_of_ollama(ollama.store()),
        *((path, path.name.removesuffix(".gguf"), str(folder)) for folder in folders for path in _models_below(folder)),
    ]
    for path, name, source in sources:
        real = Path(os.path.realpath(path))
        if real not in seen:
            seen.add(real)
            yield path, name, source


def _models_below(folder: Path, levels: int = _LEVELS) -> Iterator[Path]:
    """Yields the GGUF files and model folders in a folder and `levels` below it; of a split file, only the first part."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    entries = [entry for entry in entries if not entry.name.startswith("._")]  # AppleDouble files of macOS
    names = {entry.name for entry in entries}
    if CONFIG in names and any(name.endswith(".safetensors") for name in names):
        yield folder
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.name.endswith(".gguf") and entry.is_file() and not entry.name.startswith("mmproj"):
                first = _PART.sub(r"-00001-of-\2.gguf", entry.name)
                if first == entry.name or first not in names:
                    yield Path(entry.path)
            elif levels and entry.is_dir() and not entry.name.startswith("."):
                yield from _models_below(Path(entry.path), levels - 1)


def models_in(folder: Path, levels: int = 2) -> list[Path]:
    """Returns models, drafters and adapters in a folder and `levels` below it; in the Hugging Face cache, the revisions in use.

    Raises:
        OSError: the folder cannot be read.
    """
    if is_model_folder(folder):
        return [folder]
    os.scandir(folder).close()
    repositories = [folder] if (folder / "snapshots").is_dir() else sorted(folder.glob("models--*--*"))
    in_use = [path for repository in repositories for path in _in_use(repository)]
    return in_use or list(_models_below(folder, levels))


def _in_use(repository: Path) -> Iterator[Path]:
    """Yields the models of a repository in the Hugging Face cache, in the revision of its branch `main`, else the newest."""
    for snapshot in snapshots(repository)[:1]:
        if is_adapter(snapshot):
            yield snapshot
        else:
            yield from _models_below(snapshot)


def _models_of_hub(cache: Path) -> Iterator[tuple[Path, str, str]]:
    for repository in sorted(cache.glob("models--*--*")):
        name = repository.name.removeprefix("models--").replace("--", "/", 1)
        for path in _in_use(repository):
            if not is_adapter(path):
                yield path, f"{name}: {path.name}" if path.suffix == ".gguf" else name, HUB


def _models_of_publishers(folder: Path, source: str) -> Iterator[tuple[Path, str, str]]:
    """Yields the models of a folder with a subfolder for each publisher, such as LM Studio's and Draftlight's own."""
    for path in _models_below(folder):
        yield path, path.relative_to(folder).as_posix().removesuffix(".gguf"), source


def _lm_studio_folders() -> list[Path]:
    """Returns the folders in which LM Studio may keep models, existing or not; folders chosen by its user come first."""
    home = Path.home()
    homes = [home / ".lmstudio", home / ".cache" / "lm-studio"]
    try:
        named = content_of(home / _LM_STUDIO_POINTER).decode("utf-8-sig").strip()
    except (OSError, ValueError):
        named = ""
    if named:
        homes.insert(0, _place_of(named.splitlines()[0].strip(), home))
    settings = [*homes, Path(platformdirs.user_config_path("LM Studio", appauthor=False, roaming=True))]
    chosen = [text(object_in(place / "settings.json").get("downloadsFolder")).strip() for place in settings]
    return [*(_place_of(name, home) for name in chosen if name), *(place / "models" for place in homes)]


def _place_of(name: str, home: Path) -> Path:
    """Returns the path for a name that a user wrote. Relative paths start at the user's home folder."""
    try:
        return home / Path(name).expanduser()
    except (RuntimeError, ValueError):  # home of an unknown user
        return home / name


def _models_of_ollama(folder: Path) -> Iterator[tuple[Path, str, str]]:
    for manifest in ollama.manifests(folder):
        if (model := ollama.model_of(manifest)) is not None:
            yield manifest, model.name, "Ollama"


def _read(path: Path, files: list[Path], name: str, source: str) -> LibraryModel:
    form = "GGUF" if path.is_file() else "safetensors"
    base = LibraryModel(name, path.as_posix(), source, sum(file.stat().st_size for file in files), form=form)
    try:
        if not path.is_file():
            return _read_folder(path, base)
        of_ollama, model = ollama.model_of(path), _read_gguf(files[0], base)
        return replace(model, problem=f"It {of_ollama.problem}") if of_ollama is not None and of_ollama.problem else model
    except DraftlightError as error:
        return replace(base, problem=str(error))


def _read_gguf(path: Path, base: LibraryModel) -> LibraryModel:
    entries = read_beginning(path)
    architecture = entries.get("general.architecture")

    def positive(key: str) -> int | None:
        """Returns a positive integer from an entry of the architecture, the largest if the entry is a list, else None."""
        value = entries.get(f"{architecture}.{key}")
        value = max(value, default=None) if isinstance(value, list) and all(isinstance(one, int) for one in value) else value
        return value if isinstance(value, int) and value > 0 else None

    kind, bits = _FILE_TYPES.get(entries.get("general.file_type", -1), ("", 16.0))
    heads = positive("attention.head_count")
    config = {
        "num_hidden_layers": positive("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": positive("attention.head_count_kv") or heads,
        "head_dim": positive("attention.key_length"),
        "hidden_size": positive("embedding_length"),
        "max_position_embeddings": positive("context_length"),
    }
    if (part := _PART.search(path.name)) is not None:
        # llama.cpp writes these entries after the vocabulary, where they are not read.
        entries = {"split.no": int(part[1]) - 1, "split.count": int(part[2])} | entries
    problem = "" if architecture in ARCHITECTURES else f"The architecture {architecture} is not supported."
    if reason := not_a_model_reason(entries):
        problem = f"It {reason}"
    return replace(
        base,
        architecture=str(architecture or ""),
        quantisation=kind,
        context=config["max_position_embeddings"],
        remembers=_remembers(entries),
        need=expanded_need(base.size, kind, bits) + cache_bytes(config, device_kind() == "cpu"),
        problem=problem,
        heads=head_words(path) if positive("nextn_predict_layers") else NONE,
    )


def _read_folder(folder: Path, base: LibraryModel) -> LibraryModel:
    config = read_json(folder / CONFIG)
    tables = weights_of(folder)
    require_usable(folder, config, tables)
    text = {**config, **table(config.get("text_config"))}
    bits = table(config.get("quantization")).get("bits")
    types = [dtype for tensors in tables.values() for dtype, shape in tensors.values() if len(shape) > 1]
    context = text.get("max_position_embeddings")
    architecture = str(config.get("model_type", ""))
    only_drafts = type_stated(config) in DRAFTER_TYPES
    return replace(
        base,
        architecture=architecture,
        quantisation=f"{bits}-bit" if bits else max(set(types), key=types.count, default=""),
        context=context if isinstance(context, int) else None,
        remembers=_remembers(text),
        need=need_of_folder(base.name, tables.values(), config, device_kind() == "cpu").total,
        problem=missing_parts(folder, by_index=False).strip() or ("" if only_drafts else problem_of_architecture(architecture)),
        form="drafter" if only_drafts else base.form,
        only_drafts=only_drafts,
        heads="" if only_drafts else head_words(folder),
    )


def bits_of_type(name: str) -> tuple[str, float]:
    """Returns the quantisation in the name of a GGUF file and its approximate bits per weight; "" and 16 if it names none."""
    stated = name.upper().replace("-", ".").replace("_", ".")
    return next(((kind, bits) for kind, bits in _NAMED_TYPES if kind.replace("_", ".") in stated), ("", 16.0))


def expanded_need(size: int, kind: str, bits: float) -> int:
    """Returns the approximate bytes of memory that the weights of a GGUF file with `size` bytes take."""
    return round(size / bits * (32.0 if device_kind() == "cpu" else _BITS_ON_GPU.get(kind, 16.0)))


def problem_of_architecture(architecture: str) -> str:
    """Returns why a folder of this model type cannot be used; empty if it can, or if the type is not stated."""
    known = _mlx_lm_types()
    if not architecture or not known or architecture in known or architecture in DRAFTER_TYPES:
        return ""
    return f"mlx-lm has no architecture {architecture}."


@lru_cache(maxsize=1)
def _mlx_lm_types() -> frozenset[str]:
    """Returns the model types of mlx-lm, from the names of its files and its table of aliases, without importing it."""
    spec = importlib.util.find_spec("mlx_lm")
    folder = Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None
    if folder is None:
        return frozenset()
    names = {file.stem for file in (folder / "models").glob("*.py")}
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        for node in ast.parse((folder / "utils.py").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "MODEL_REMAPPING":
                names |= set(ast.literal_eval(node.value))
    return frozenset(names)


def download_destination(repository: str) -> Path:
    """Returns the folder of models downloaded from a Hub repository: "owner/model" in Draftlight's own folder."""
    return models_folder() / repository


def check_deletable(path: Path) -> None:
    """Raises DraftlightError unless the path exists and is in Draftlight's own folder."""
    folder = models_folder().resolve()
    resolved = path.resolve()
    if resolved == folder or folder not in resolved.parents:
        raise DraftlightError(f"{path} is not in {folder}; Draftlight only deletes models from that folder.")
    if not path.exists():
        raise DraftlightError(f"There is no {path.name} in {folder}.")


def delete(path: Path) -> None:
    """Deletes a model in Draftlight's own folder, and the publisher's folder if it is then empty.

    Moves the model away first, in one step: a process that is killed while deleting leaves nothing that looks like a model.

    Raises:
        DraftlightError: the path is outside that folder, or cannot be deleted.
    """
    check_deletable(path)
    folder, resolved = models_folder().resolve(), path.resolve()
    trash = folder / f".deleted-{secrets.token_hex(4)}"
    try:
        os.replace(resolved, trash)
        shutil.rmtree(trash) if trash.is_dir() else trash.unlink()
    except OSError as error:
        raise DraftlightError(f"{resolved} cannot be removed: {error.strerror or error}.") from None
    for parent in resolved.parents:
        if parent == folder:
            break
        with contextlib.suppress(OSError):
            parent.rmdir()


def _remembers(entries: Mapping[str, Any]) -> str:
    """Returns the value of `LibraryModel.remembers`, from the names of settings that only such models have."""
    if any(sign in key for key in entries for sign in _RECURRENT):
        return "recurrent"
    if entries.get("attention_chunk_size"):
        return "chunks"
    stated = [value for key, value in entries.items() if key.endswith("sliding_window")]
    return "window" if any(stated) and entries.get("use_sliding_window") is not False else "keys"


def added_folders() -> tuple[str, ...]:
    """Returns the folders that the user added to the search: absolute paths, in the order in which they were added.

    They have a file of their own, which is read at each call: a window that saves its settings cannot overwrite folders that
    the command line has added meanwhile. Empty if the file is missing or damaged.
    """
    try:
        return tuple(name for name in entries(json_of(content_of(_folders_path()))) if isinstance(name, str))
    except (OSError, ValueError):
        return ()


def change_folders(folder: str, remove: bool = False) -> None:
    """Adds a folder to the search, or removes it. Raises `engine.files.whole_file.NotWritten`."""
    others = [name for name in added_folders() if name != folder]
    write_whole(_folders_path(), json.dumps(others if remove else [*others, folder], ensure_ascii=False) + "\n", private=True)


def _folders_path() -> Path:
    return data_folder() / "model_folders.json"
