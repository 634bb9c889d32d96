"""Writes a store as Ollama does, with tiny models."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.engine import tiny_models


def write_weights(folder: Path, **changes: Any) -> tuple[str, str]:
    """A layer with a tiny model: its kind and digest."""
    made = tiny_models.write_gguf(folder / "made.gguf", **changes)
    layer = write_layer(folder, "model", made.read_bytes())
    made.unlink()
    return layer


def write_layer(folder: Path, kind: str, content: bytes) -> tuple[str, str]:
    """A layer of any kind."""
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs").mkdir(exist_ok=True)
    (folder / "blobs" / f"sha256-{digest}").write_bytes(content)
    return f"application/vnd.ollama.image.{kind}", f"sha256:{digest}"


def write_manifest(folder: Path, name: str, *layers: tuple[str, str]) -> Path:
    """A name with layers, as "HOST/OWNER/MODEL/TAG"."""
    path = folder / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    described = [{"mediaType": kind, "digest": digest, "size": 1} for kind, digest in layers]
    path.write_text(json.dumps({"schemaVersion": 2, "layers": described}))
    return path
