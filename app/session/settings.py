"""The settings that persist between starts: one typed table in one file, written atomically; and presets of some of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from app.look.motion import MOTIONS, Motion
from app.look.theme import APPEARANCES, Appearance
from engine.files.builtin import TEMPERATURE, TOP_P
from engine.files.foreign import content_of, json_of, valid_entries
from engine.files.paths import data_folder
from engine.files.recommended_sampling import BUILTIN
from engine.files.whole_file import NotWritten, write_whole
from engine.lens.chart_kinds import CHARTS
from engine.lens.pieces import GHOST_STEPS, Ghosts
from engine.types import (
    OVERFLOWS,
    RANGES,
    THINKINGS,
    Budget,
    DecodingOptions,
    Gamma,
    Overflow,
    Rule,
    Sampling,
    Thinking,
    option_names,
)
from engine.values.drafter_kinds import AUTO

PanelPage = Literal["rounds", "charts", "table", "rules"]
PANEL_PAGES: tuple[PanelPage, ...] = ("rounds", "charts", "table", "rules")


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


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Settings that a publisher may recommend."""
OWN = (*PRESET_SETTINGS, "preset")
"""Own settings of a chat, which end with it: a system prompt, and a preset with the settings that it applies."""
LISTS = ("recent_models", "presets", "model_presets")
"""List settings whose entries are merged when several windows have added some."""
OPEN_CHARTS = tuple(name for name, kind in CHARTS.items() if kind.open)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default. Invalid values raise ValueError naming the field.

    Attributes:
        text_scale: factor on every text size of the window.
        ghosts: which proposals that did not become text are shown in it; True and False, from older files, mean "all" and "none".
        compare_ghosts: the same for comparisons, where the texts themselves are compared.
        motion: whether the verdicts of a new round appear one after the other; "system" does as the desktop says.
        reading: finished answers are shown in the reading view instead of token by token.
        charts: the charts that are not folded away.
        verdict_details: whether the verdict card shows its details.
        geometry: x, y, width, height of the window; empty means the default.
        budget: number of tokens that a round may propose as a tree, "auto" where trees pay off, or None for chains.
        seed: None draws a new seed for each answer.
        thinking: whether the model should think first, if its chat template has a switch for that.
        raw: messages are continued as plain text, without the model's chat template.
        overflow: what happens when a conversation no longer fits the context.
        recommended: the target publisher's recommended sampling, with its stop sequences and system prompt, if any; kept to
            detect whether the user has set other values.
        conversation: number of the chat to show at the next start; None starts with an empty one.
        sidebar: whether the list of chats is shown if there is room.
        measure_plain: the plain speed is measured while nothing else runs.
        separate_process: models run in a process of their own.
        split: targets run on all machines of the hosts file (`app.session.machines`).
        recent_models: the targets used last, latest first.
        preset: name of the preset used or saved last, which tells presets of equal values apart; it may no longer exist.
        model_presets: (target, preset name) pairs; the preset applies when the target is chosen.
        new_chat: (name, value) own settings of the chat that is not in the store yet; they end with it.
        export_folder, export_kind: folder and format of the last export; an empty folder means the user's documents.
    """

    appearance: Appearance = "system"
    ghosts: Ghosts = "above"
    compare_ghosts: Ghosts = "none"
    motion: Motion = "system"
    reading: bool = False
    side_panel: bool = True
    panel_page: PanelPage = "rounds"
    verdict_details: bool = False
    charts: tuple[str, ...] = OPEN_CHARTS
    text_scale: float = 1.0
    geometry: tuple[int, ...] = ()
    target: str = "builtin"
    recommended: Sampling = BUILTIN
    drafter: str = AUTO
    rule: Rule = "gumbel"
    temperature: float = TEMPERATURE
    gamma: Gamma = "auto"
    budget: Budget = "auto"
    seed: int | None = None
    top_p: float = TOP_P
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    kv_bits: int | None = None
    system_prompt: str = ""
    thinking: Thinking = "auto"
    raw: bool = False
    overflow: Overflow = "stop"
    conversation: int | None = None
    sidebar: bool = True
    measure_plain: bool = True
    separate_process: bool = False
    split: bool = False
    recent_models: tuple[str, ...] = ()
    presets: tuple[Preset, ...] = ()
    preset: str = ""
    model_presets: tuple[tuple[str, str], ...] = ()
    new_chat: tuple[tuple[str, Any], ...] = ()
    export_folder: str = ""
    export_kind: str = "html"

    def __post_init__(self) -> None:
        for name in ("geometry", "stop", "charts", "recent_models"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("recommended", "model_presets", "new_chat"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(map(_firm, getattr(self, name))))
        object.__setattr__(self, "presets", read_presets(self.presets))
        if isinstance(self.ghosts, bool):
            object.__setattr__(self, "ghosts", "all" if self.ghosts else "none")
        _check(self.appearance in APPEARANCES, "appearance", self.appearance)
        for name in ("ghosts", "compare_ghosts"):
            _check(getattr(self, name) in GHOST_STEPS, name, getattr(self, name))
        _check(self.motion in MOTIONS, "motion", self.motion)
        for name in ("reading", "side_panel", "verdict_details", "raw", "sidebar", "measure_plain", "separate_process", "split"):
            _check(isinstance(getattr(self, name), bool), name, getattr(self, name))
        _check(
            isinstance(self.text_scale, (int, float)) and RANGES["text_scale"].holds(self.text_scale),
            "text_scale",
            self.text_scale,
        )
        _check(len(self.geometry) in (0, 4) and all(isinstance(edge, int) for edge in self.geometry), "geometry", self.geometry)
        for name in ("target", "drafter"):
            _check(isinstance(getattr(self, name), str) and bool(getattr(self, name)), name, getattr(self, name))
        for name in ("system_prompt", "preset", "export_folder", "export_kind"):
            _check(isinstance(getattr(self, name), str), name, getattr(self, name))
        texts = self.recent_models
        _check(isinstance(texts, tuple) and all(isinstance(text, str) and text for text in texts), "recent_models", texts)
        for pair in self.model_presets:
            _check(len(pair) == 2 and all(isinstance(part, str) and part for part in pair), "model_presets", self.model_presets)
        number = self.conversation
        _check(number is None or (isinstance(number, int) and not isinstance(number, bool)), "conversation", number)
        _check(all(name in CHARTS for name in self.charts), "charts", self.charts)
        _check(self.thinking in THINKINGS, "thinking", self.thinking)
        _check(self.overflow in OVERFLOWS, "overflow", self.overflow)
        _check(self.panel_page in PANEL_PAGES, "panel_page", self.panel_page)
        for pair in self.recommended:
            _check(len(pair) == 2 and _is_recommendation(*pair), "recommended", self.recommended)
        _check(all(len(pair) == 2 and pair[0] in OWN for pair in self.new_chat), "new_chat", self.new_chat)
        if self.new_chat:
            replace(self, new_chat=(), **dict(self.new_chat))
        self.options()

    def recommendations(self, sampling: Sampling) -> dict[str, Any]:
        """Returns the changes that apply a target's recommended sampling. Only settings still at the previous target's
        recommendation change."""
        before, now = dict(self.recommended), dict(sampling)
        follows = {
            name: now.get(name, _usual(name)) for name in (*before, *now) if getattr(self, name) == before.get(name, _usual(name))
        }
        return {name: value for name, value in follows.items() if getattr(self, name) != value} | {"recommended": sampling}

    @property
    def preset_in_force(self) -> Preset | None:
        """The preset equal to the current settings; of several equal ones, the one used last, else the target's own."""
        alike = [each for each in self.presets if all(getattr(self, name) == value for name, value in each.values().items())]
        tied = self.preset_for(self.target)
        return max(alike, key=lambda each: (each.name == self.preset, each is tied), default=None)

    def preset_for(self, target: str) -> Preset | None:
        """Returns the preset tied to a target."""
        wanted = dict(self.model_presets).get(target)
        return next((preset for preset in self.presets if preset.name == wanted), None)

    def default(self, name: str) -> Any:
        """Returns the value of a setting that the user has not set: for sampling, the publisher's recommendation."""
        recommended = dict(self.recommended)
        if name in recommended:
            return recommended[name]
        return _usual(name)

    def options(self) -> DecodingOptions:
        """Returns the decoding options of the next answer."""
        return DecodingOptions(**{name: getattr(self, name) for name in option_names() if hasattr(self, name)})


def _usual(name: str) -> Any:
    """Returns the value of a setting without a recommendation."""
    return getattr(DecodingOptions() if name in SAMPLING else Settings(), name)


def _is_recommendation(name: object, value: object) -> bool:
    if name == "system_prompt":
        return isinstance(value, str)
    if name == "stop":
        return isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)
    return name in option_names() and isinstance(value, (int, float))


def _firm(pair: Iterable[Any]) -> tuple[Any, ...]:
    """Returns a JSON value with tuples in place of lists."""
    return tuple(tuple(part) if isinstance(part, list) else part for part in pair)


def _check(holds: bool, name: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{name} cannot be {reprlib.repr(value)}")


def settings_path() -> Path:
    """Returns the path of the settings file in the user's data folder; it need not exist yet."""
    return data_folder() / "settings.json"


class SettingsFile:
    """The settings file of one window.

    Args:
        path: None saves the settings nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = {} if path is None else table_of(path)
        self._reason = ""

    def save(self, settings: Settings) -> str:
        """Saves the settings. Returns a message for the user if that has failed, once per reason (else a read-only folder would
        cost a note per click), and an empty text otherwise."""
        if self._path is None:
            return ""
        try:
            self._written = save(self._path, settings, self._written)
        except NotWritten as error:
            reason = error.strerror or str(error)
            if reason != self._reason:
                self._reason = reason
                return f"The settings could not be saved to {self._path}: {reason}. Your changes last until you quit."
        return ""


def load(path: Path) -> tuple[Settings, str]:
    """Returns the settings of a file, and a note for the user that is empty if all is well.

    An unreadable file is moved aside, not overwritten; single invalid values fall back to their defaults.
    """
    try:
        stored = json_of(content_of(path))
        if not isinstance(stored, dict):
            raise ValueError("not a table of settings")
    except FileNotFoundError:
        return Settings(), ""
    except (OSError, ValueError):
        note = "The settings could not be read, so the defaults are in use."
        aside = path.with_name("settings-damaged.json")
        try:
            os.replace(path, aside)
        except OSError:
            return Settings(), note
        return Settings(), f"{note} The old file is kept as {aside.name}."
    return _from_table(stored)


def _from_table(stored: dict[str, Any]) -> tuple[Settings, str]:
    known = {setting.name for setting in fields(Settings)}
    given = {name: value for name, value in stored.items() if name in known}
    kept = valid_entries(lambda part: Settings(**part), given)
    dropped = [name for name in given if name not in kept]
    note = f"These settings were invalid and have been reset to their defaults: {', '.join(dropped)}." if dropped else ""
    return Settings(**kept), note


def save(path: Path, settings: Settings, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Writes the whole file or leaves the old one. Raises `engine.files.whole_file.NotWritten`.

    Args:
        before: the table that this window wrote last, or read at its start. Values that this window has not changed since then
            keep what another window wrote meanwhile; None writes everything.

    Returns:
        The table to pass as `before` the next time.
    """
    own = _as_table(settings)
    with _alone(path.parent):
        theirs = {} if before is None else _as_table(_from_table(table_of(path))[0])
        known = {**_as_table(Settings()), **(before or {})}
        kept = {name: value for name, value in theirs.items() if own[name] == known[name]}
        kept |= {name: _merged(own[name], known[name], theirs[name]) for name in LISTS if theirs and name not in kept}
        write_whole(path, json.dumps(own | kept, indent=2, ensure_ascii=False) + "\n", private=True, durable=False)
    return own


def _merged(own: list[Any], before: list[Any], theirs: list[Any]) -> list[Any]:
    """Merges a list that two windows may have changed: drops what either removed and keeps what either added."""
    mine = [each for each in own if each in theirs or each not in before]
    return mine + [each for each in theirs if each not in own and each not in before]


def table_of(path: Path) -> dict[str, Any]:
    """Returns the unchecked contents of a settings file; empty if the file is missing or damaged."""
    try:
        found = json_of(content_of(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_table(settings: Settings) -> dict[str, Any]:
    """Returns the settings as read back from a file: with lists in place of tuples."""
    table: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return table


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the settings file against other windows while it is read and written. Where locking is impossible, it does
    nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
