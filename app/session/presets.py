"""Presets: a named system prompt with sampling values, which can also be tied to a model. No Qt."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from engine.types import DecodingOptions

LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Preset:
    """The values applied together. Sampling fields are those of `DecodingOptions`. Invalid values raise ValueError naming the
    field."""

    name: str
    system_prompt: str = ""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or not isinstance(self.system_prompt, str):
            raise ValueError(f"a preset cannot be called {reprlib.repr(self.name)}")
        DecodingOptions(**{name: value for name, value in self.values().items() if name != "system_prompt"})

    def values(self) -> dict[str, Any]:
        """Returns the settings it applies, by name."""
        return {name: value for name, value in asdict(self).items() if name != "name"}


PRESET_SETTINGS = tuple(Preset("any").values())


def preset_of(settings: Any, name: str) -> Preset:
    """Returns a preset with the given name and the current values of its settings."""
    return Preset(name.strip()[:LONGEST_NAME], **{each: getattr(settings, each) for each in PRESET_SETTINGS})


def with_preset(presets: Iterable[Preset], preset: Preset) -> tuple[Preset, ...]:
    """Returns the presets with one added, or replaced if the name exists, sorted by name."""
    others = without(presets, preset.name)
    return tuple(sorted((*others, preset), key=lambda each: each.name.casefold()))


def without(presets: Iterable[Preset], name: str) -> tuple[Preset, ...]:
    """Returns the presets without the one of a given name."""
    return tuple(each for each in presets if each.name != name)


def read_presets(values: object) -> tuple[Preset, ...]:
    """Returns the presets from a settings file. Raises ValueError if one is invalid."""
    try:
        presets = tuple(each if isinstance(each, Preset) else Preset(**each) for each in values)  # type: ignore[attr-defined]
    except TypeError as error:
        raise ValueError(f"presets cannot be {reprlib.repr(values)}") from error
    if len({each.name for each in presets}) < len(presets):
        raise ValueError("two presets have the same name")
    return presets
