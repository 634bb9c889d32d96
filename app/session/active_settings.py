"""The settings that affect the shown chat without being visible in it: system prompt, preset, and model adapter. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from app.look.wording import target_title
from app.session.settings import Settings
from engine.files.model_folder import base_target

Kind = Literal["system_prompt", "preset", "adapter"]
SHORTEST, EXCERPT = 16, 60
"""Maximum characters of a name on a chip (so that all chips fit into one row of a window of 1,024 pixels), and of the excerpt of
a system prompt for screen readers."""


@dataclass(frozen=True, slots=True)
class ActiveSetting:
    """One active setting.

    Attributes:
        label: text on the chip. name: longer text for screen readers. tip: the full text.
        removal: describes what removing it does.
    """

    kind: Kind
    label: str
    name: str
    tip: str
    removal: str


def active_settings(settings: Settings, usual: Settings, reads_system: bool = True) -> tuple[ActiveSetting, ...]:
    """Returns the active settings.

    Args:
        settings: those of the chat. usual: those of new chats.
        reads_system: whether the prompt includes the system prompt; raw text does not.
    """
    found = []
    system = settings.system_prompt
    if system.strip() and reads_system:
        whole = system if len(system) <= 600 else f"{system[:600]}…"
        origin = "From the settings, for every new chat." if system == usual.system_prompt else "Of this chat."
        name, removal = f"System prompt: {_short(system, EXCERPT)}", "Remove the system prompt from this chat"
        found.append(ActiveSetting("system_prompt", "System prompt", name, f"{whole}\n\n{origin}", removal))
    if (preset := preset_used(settings, usual)) is not None:
        tip, removal = f"The preset “{preset}” is in force.", f"Stop using the preset “{preset}”"
        found.append(ActiveSetting("preset", f"Preset: {_short(preset)}", f"Preset: {preset}", tip, removal))
    if (base := _base(settings.target)) is not None:
        name, of = target_title(settings.target), target_title(base)
        tip, removal = f"The adapter {name} changes {of}.", f"Use {of} without the adapter {name}"
        found.append(ActiveSetting("adapter", f"Adapter: {_short(name)}", f"Adapter: {name}", tip, removal))
    return tuple(found)


def preset_used(settings: Settings, usual: Settings) -> str | None:
    """Returns the name of the active preset. A preset equal to the settings of new chats counts only if the user chose it."""
    preset = settings.preset_in_force
    if preset is None:
        return None
    differs = any(getattr(usual, name) != value for name, value in preset.values().items())
    return preset.name if differs or settings.preset == preset.name else None


@lru_cache(maxsize=8)
def _base(target: str) -> str | None:
    return None if target == "builtin" else base_target(target)


def _short(text: str, longest: int = SHORTEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"
