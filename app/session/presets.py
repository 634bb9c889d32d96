"""Presets: a system prompt and sampling under a name, to be used again, also whenever a certain model is chosen. No Qt."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from engine.types import DecodingOptions

LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Preset:
    """What is used together. The sampling is that of `DecodingOptions`. Impossible values raise ValueError naming the field."""

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
        """The settings that it stands for, by name."""
        return {name: value for name, value in asdict(self).items() if name != "name"}


PRESET_SETTINGS = tuple(Preset("any").values())


def preset_of(settings: Any, name: str) -> Preset:
    """What of the settings a preset holds, under a name."""
    return Preset(name.strip()[:LONGEST_NAME], **{each: getattr(settings, each) for each in PRESET_SETTINGS})


def with_preset(presets: Iterable[Preset], preset: Preset) -> tuple[Preset, ...]:
    """The presets with one more, in place of one of the same name, by name."""
    others = without(presets, preset.name)
    return tuple(sorted((*others, preset), key=lambda each: each.name.casefold()))


def without(presets: Iterable[Preset], name: str) -> tuple[Preset, ...]:
    """The presets without the one of a name."""
    return tuple(each for each in presets if each.name != name)


def read_presets(values: object) -> tuple[Preset, ...]:
    """Presets as a settings file holds them. Raises ValueError where one is impossible."""
    try:
        presets = tuple(each if isinstance(each, Preset) else Preset(**each) for each in values)  # type: ignore[attr-defined]
    except TypeError as error:
        raise ValueError(f"presets cannot be {reprlib.repr(values)}") from error
    if len({each.name for each in presets}) < len(presets):
        raise ValueError("two presets have the same name")
    return presets
