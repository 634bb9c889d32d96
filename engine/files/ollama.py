"""Reads Ollama's models. Each name has a manifest, which lists layers by their digests. No MLX.

Several names may share a GGUF file and differ in system prompt, parameters or adapter, so a model is identified by its manifest:
`manifests/HOST/OWNER/MODEL/TAG`, next to the folder `blobs` with the layers
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
_MAX_TEXT_BYTES = 1_000_000
"""Maximum bytes of a layer with a system prompt or parameters; longer layers are ignored."""


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A model under one of its names.

    Attributes:
        name: as Ollama writes it. weights: its GGUF file.
        adapters: digests of the adapters to apply to the weights.
        system: its system prompt, empty for none.
        parameters: those of its Modelfile.
    """

    name: str
    weights: Path
    adapters: tuple[str, ...] = ()
    system: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def problem(self) -> str:
        """The reason why the model cannot be used and what to do, as the rest of a sentence; empty if it can be used."""
        if not self.adapters:
            return ""
        digests = ", ".join(digest.replace("sha256-", "sha256:")[:19] + "…" for digest in self.adapters)
        return (
            f"has a LoRA adapter ({digests}), which cannot be used because it is a GGUF file: it would answer as its base model. "
            "Choose that, or put both into one file with llama-export-lora."
        )


def store() -> Path:
    """Returns the folder of Ollama's models."""
    return Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models").expanduser()


def manifests(folder: Path) -> list[Path]:
    """Returns the manifests in a store, sorted by name."""
    paths = (folder / "manifests").glob("*/*/*/*")
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.parts[-4:]))


def name_of(path: str) -> str:
    """Returns the name of the model with a manifest at this path; empty for any other path."""
    parts = path.replace("\\", "/").split("/")
    if len(parts) < 5 or parts[-5] != "manifests":
        return ""
    host, owner, model, tag = parts[-4:]
    before = ([] if host == "registry.ollama.ai" else [host]) + ([] if owner == "library" else [owner])
    return f"{'/'.join([*before, model])}:{tag}"


def model_of(path: Path) -> OllamaModel | None:
    """Returns the model of a manifest, or the only model that uses a file in `blobs` as its weights. None for any other path.

    If several models share the file, returns None, or the first model if all of them have adapters.
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
    """Returns the GGUF file of a manifest, or any other path unchanged."""
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
    """Yields kind and file of each layer. Raises OSError or ValueError if the manifest cannot be read."""
    for layer in map(table, entries(table(json_of(content_of(manifest))).get("layers"))):
        kind, digest = text(layer.get("mediaType")), text(layer.get("digest"))
        if kind.startswith(_KIND) and digest:
            yield kind.removeprefix(_KIND), manifest.parents[4] / "blobs" / Path(digest.replace(":", "-")).name


def _is_short(path: Path) -> bool:
    try:
        return path.stat().st_size <= _MAX_TEXT_BYTES
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return content_of(path).decode("utf-8", "replace").strip() if _is_short(path) else ""
    except OSError:
        return ""
