"""Which of a model folder's weight files are missing, so that an interrupted download is not taken for a model."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.files.foreign import object_in, table

WEIGHTS = "model*.safetensors"
"""The files that mlx-lm reads the weights from."""
_INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
_SHOWN = 4


def missing_parts(folder: Path, by_index: bool = True) -> str:
    """Sentences to append: which weight files are missing by the index or by the numbers in the names. Empty if none is.

    Args:
        by_index: asked only once a model could not be loaded: mlx-lm reads no index, and one may be left over from before a
            conversion.
    """
    names = {file.name for file in folder.glob(WEIGHTS)}
    stated = table(object_in(folder / _INDEX).get("weight_map")) if by_index else {}
    expected = set(map(str, stated.values()))
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        expected |= {f"{match[1]}-{part:05}-of-{match[2]}.safetensors" for part in range(1, int(match[2]) + 1)}
    missing = sorted(name for name in expected if not os.path.isfile(folder / name))
    if not missing:
        return ""
    files = f"{len(missing)} of {len(expected | names)} weight files {'is' if len(missing) == 1 else 'are'} missing"
    return f" {files}: {listed(missing)}. Download the model again."


def listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
