"""Models as Ollama keeps them: for each name a manifest, which lists layers by their digests. No MLX.

Several names may share one GGUF file and differ in system prompt, parameters or adapter, so a model is given by its manifest:
`manifests/HOST/OWNER/MODEL/TAG` beside the folder `blobs` of the layers
(https://github.com/ollama/ollama/blob/main/docs/modelfile.md). Chat templates in Go's form are not read;
GGUF files have their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.files.foreign import content_of, entries, json_of, object_in, table, text

_KIND = "application/vnd.ollama.image."
_LONGEST_TEXT = 1_000_000
"""Bytes of a system prompt or of parameters; a layer that is longer is another."""


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A model by one of its names.

    Attributes:
        name: as Ollama writes it. weights: its GGUF file.
        adapters: digests of the adapters that belong on the weights.
        system: its system prompt, empty for none.
        parameters: as its Modelfile states them.
    """

    name: str
    weights: Path
    adapters: tuple[str, ...] = ()
    system: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def problem(self) -> str:
        """Why it cannot be used, as the rest of a sentence about it, and what to do; empty if it can."""
        if not self.adapters:
            return ""
        digests = ", ".join(digest.replace("sha256-", "sha256:")[:19] + "…" for digest in self.adapters)
        return (
            f"has a LoRA adapter ({digests}), which cannot be used because it is a GGUF file: it would answer as its base model. "
            "Choose that, or put both into one file with llama-export-lora."
        )


def store() -> Path:
    """Where Ollama keeps its models."""
    return Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models").expanduser()


def manifests(folder: Path) -> list[Path]:
    """The manifests in a store, in the order of their names."""
    found = (folder / "manifests").glob("*/*/*/*")
    return sorted(path for path in found if not any(part.startswith(".") for part in path.parts[-4:]))


def name_of(path: str) -> str:
    """The name of the model that the path of a manifest stands for; empty for any other path."""
    parts = path.replace("\\", "/").split("/")
    if len(parts) < 5 or parts[-5] != "manifests":
        return ""
    host, owner, model, tag = parts[-4:]
    before = ([] if host == "registry.ollama.ai" else [host]) + ([] if owner == "library" else [owner])
    return f"{'/'.join([*before, model])}:{tag}"


def model_of(path: Path) -> OllamaModel | None:
    """The model of a manifest; of a file in `blobs` the one that alone has it as its weights. None for any other path.

    Where several models share the file, it is taken as it is, unless all of them have adapters.
    """
    path = path.absolute()
    if name_of(path.as_posix()):
        return _read(path)
    if path.parent.name != "blobs" or not path.name.startswith("sha256-"):
        return None
    sharing = [model for model in map(_read, manifests(path.parents[1])) if model is not None and model.weights == path]
    alone = len(sharing) == 1 or all(model.adapters for model in sharing)
    return sharing[0] if sharing and alone else None


def weights_of(path: Path) -> Path:
    """The GGUF file of a manifest; any other path as it is."""
    model = model_of(path) if name_of(path.absolute().as_posix()) else None
    return path if model is None else model.weights


def _read(manifest: Path) -> OllamaModel | None:
    try:
        layers = list(_layers(manifest))
    except (OSError, ValueError):
        return None
    weights = next((path for kind, path in layers if kind == "model" and path.is_file()), None)
    if weights is None:
        return None
    parameters: dict[str, Any] = {}
    for kind, path in layers:
        if kind == "params" and _is_short(path):
            parameters |= object_in(path)
    system = next((_text(path) for kind, path in layers if kind == "system"), "")
    adapters = tuple(path.name for kind, path in layers if kind == "adapter")
    return OllamaModel(name_of(manifest.as_posix()), weights, adapters, system, parameters)


def _layers(manifest: Path) -> Iterator[tuple[str, Path]]:
    """Kind and file of each layer. Raises OSError or ValueError where the manifest cannot be read."""
    for layer in map(table, entries(table(json_of(content_of(manifest))).get("layers"))):
        kind, digest = text(layer.get("mediaType")), text(layer.get("digest"))
        if kind.startswith(_KIND) and digest:
            yield kind.removeprefix(_KIND), manifest.parents[4] / "blobs" / Path(digest.replace(":", "-")).name


def _is_short(path: Path) -> bool:
    try:
        return path.stat().st_size <= _LONGEST_TEXT
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return content_of(path).decode("utf-8", "replace").strip() if _is_short(path) else ""
    except OSError:
        return ""
