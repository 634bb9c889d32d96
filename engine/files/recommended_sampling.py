"""The sampling options that a model's files recommend, and the stop sequences and system prompt of an Ollama model.

No MLX; only headers are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.files import builtin, ollama
from engine.files.foreign import object_in
from engine.files.gguf_header import read_header
from engine.files.hub import folder_of
from engine.files.ollama import OllamaModel
from engine.types import Sampling
from engine.values.errors import DraftlightError, is_number

_LIMITS = {
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "top_k": (0, 2**31),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (1e-3, 1e3),
}
"""Minimum and maximum of each option; values outside are ignored."""
_GGUF_NAMES = {"temperature": "temp", "repetition_penalty": "penalty_repeat"}
_OLLAMA_NAMES = {"repetition_penalty": "repeat_penalty"}
_FILE = "generation_config.json"
BUILTIN: Sampling = (("temperature", builtin.TEMPERATURE), ("top_p", builtin.TOP_P))


def of_target(name: str) -> Sampling:
    """Returns the recommended sampling of a target: "builtin", a folder, a GGUF file or a downloaded Hub id. Never raises."""
    if name == "builtin":
        return BUILTIN
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            return of_folder(path)
        if path.is_file():
            metadata = read_header(ollama.weights_of(path)).metadata
            return of_metadata(metadata, ollama.model_of(path))
        folder = folder_of(name)
        return () if folder is None else of_folder(folder)
    except (DraftlightError, ValueError, OSError):  # loading the model reports the error
        return ()


def of_folder(folder: Path) -> Sampling:
    """Returns the sampling in `generation_config.json`; temperature 0 if it says `do_sample: false`."""
    stated = object_in(folder / _FILE)
    if stated.get("do_sample") is False:
        stated = {"temperature": 0.0, "repetition_penalty": stated.get("repetition_penalty")}
    return _valid(stated)


def of_metadata(metadata: Mapping[str, Any], model: OllamaModel | None = None) -> Sampling:
    """Returns the sampling in a GGUF file's `general.sampling`, overridden by the parameters of an Ollama model."""
    stated = {name: metadata.get(f"general.sampling.{_GGUF_NAMES.get(name, name)}") for name in _LIMITS}
    if model is None:
        return _valid(stated)
    overrides = dict(_valid({name: model.parameters.get(_OLLAMA_NAMES.get(name, name)) for name in _LIMITS}))
    stop = model.parameters.get("stop")
    texts = tuple(each for each in (stop if isinstance(stop, list) else [stop]) if isinstance(each, str) and each)
    additions = {"stop": texts, "system_prompt": model.system}
    return _valid(stated | overrides) + tuple((name, value) for name, value in additions.items() if value)


def _valid(stated: Mapping[str, Any]) -> Sampling:
    return tuple(
        (name, int(value) if name == "top_k" else float(f"{value:.6g}"))
        for name, (minimum, maximum) in _LIMITS.items()
        if is_number(value := stated.get(name)) and minimum <= value <= maximum
    )
