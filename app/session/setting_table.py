"""A table of every setting that a user can set: its title, description and form. No Qt.

The settings window uses all of it, the sampling options use a part. The defaults are in `Settings`, which also has fields that
the window only remembers (`REMEMBERED`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.look.motion import MOTION_TITLES
from app.look.theme import APPEARANCE_TITLES
from engine.lens.pieces import Ghosts
from engine.lens.shared_wording import BUDGET, CHAIN, RULE_TITLES
from engine.types import KV_BITS, RANGES

Section = Literal["Look", "Conversation", "Sampling", "Speculation", "Models"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number in its range of `RANGES`. `step` is what an arrow key adds; `decimals` is the minimum number of decimals shown."""

    step: float
    decimals: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values, each with a title."""

    entries: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch: on or off."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text field with an initial height in lines. With `listed`, each line is an entry."""

    lines: int
    listed: bool = False


@dataclass(frozen=True, slots=True)
class GammaNumber:
    """A number of proposals, or "auto"."""


@dataclass(frozen=True, slots=True)
class BudgetNumber:
    """A number of tokens of a tree, "auto", or None for a chain."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed, or None for a new one each time."""


Form = Number | Choice | Switch | Text | GammaNumber | BudgetNumber | Seed

GHOST_ENTRIES: tuple[tuple[str, Ghosts], ...] = (
    ("Hidden", "none"),
    ("Above the text", "above"),
    ("In the text", "rejected"),
    ("In the text, with unjudged ones", "all"),
)


@dataclass(frozen=True, slots=True)
class Described:
    """A setting as shown to the user. `name` is the field of `Settings`; `words` describe it in plain language."""

    name: str
    title: str
    words: str
    section: Section
    form: Form

    def found_by(self, query: str) -> bool:
        """Returns whether every word of a query occurs in its title, description or section."""
        said = f"{self.title} {self.words} {self.section}".casefold()
        return all(word in said for word in query.casefold().split())

    @property
    def about(self) -> str:
        """Its description, with the range of a number."""
        match self.form:
            case Number() | GammaNumber() | BudgetNumber() | Seed():
                return f"{self.words} Range: {RANGES[self.name].short}."
            case _:
                return self.words

    def said(self, value: Any) -> str:
        """Returns a value in words, as its control shows it."""
        match self.form:
            case Choice(entries):
                return next(title for title, one in entries if one == value)
            case Switch():
                return "on" if value else "off"
            case BudgetNumber() if value is None:
                return CHAIN
            case Text() | Seed() if value in ("", (), None):
                return "empty"
            case _:
                return f"{value:g}" if isinstance(value, float) else str(value)


SETTINGS = (
    Described(
        "appearance",
        "Theme",
        "Dark, light, or the same as your system.",
        "Look",
        Choice(tuple((title, name) for name, title in APPEARANCE_TITLES.items())),
    ),
    Described("text_scale", "Text size", "1 is the normal size.", "Look", Number(0.1, 2)),
    Described(
        "ghosts",
        "Rejected proposals",
        "The first rejected proposal of a round is shown small above the token that replaced it, or struck out in the text.",
        "Look",
        Choice(GHOST_ENTRIES),
    ),
    Described(
        "compare_ghosts",
        "Rejected proposals in comparisons",
        "The same for answers side by side, where fewer marks make texts easier to compare.",
        "Look",
        Choice(GHOST_ENTRIES),
    ),
    Described(
        "motion",
        "Motion",
        "In a growing answer, the verdicts on a round appear one after the other. The text itself is never delayed.",
        "Look",
        Choice(tuple((title, name) for name, title in MOTION_TITLES.items())),
    ),
    Described("reading", "Reading view", "Finished answers are shown without marks or Markdown syntax.", "Look", Switch()),
    Described("sidebar", "List of chats", "Shown when the window is wide enough.", "Look", Switch()),
    Described("side_panel", "Side panel", "Rounds, charts and figures, when the window is wide enough.", "Look", Switch()),
    Described(
        "system_prompt",
        "System prompt",
        "Placed before the conversation. Leave empty for the model's default.",
        "Conversation",
        Text(4),
    ),
    Described(
        "thinking",
        "Thinking",
        "Whether a model that can do so thinks before it answers.",
        "Conversation",
        Choice((("Model's default", "auto"), ("On", "on"), ("Off", "off"))),
    ),
    Described(
        "raw",
        "Prompt",
        "As raw text, each message is continued as it stands; neither earlier messages nor the system prompt is read.",
        "Conversation",
        Choice((("In the model's chat template", False), ("Raw text to continue", True))),
    ),
    Described(
        "overflow",
        "When the context is full",
        "What happens when the chat is too long for the model: the answer stops and says so, or the model no longer sees the "
        "oldest turns. They stay in the chat.",
        "Conversation",
        Choice((("Stop and say so", "stop"), ("Leave out the oldest turns", "drop"))),
    ),
    Described(
        "max_tokens",
        "Max tokens",
        "Maximum number of tokens in an answer. A token is a word or a part of one.",
        "Conversation",
        Number(64),
    ),
    Described(
        "stop",
        "Stop sequences",
        "One per line. The answer ends before the first one that appears.",
        "Conversation",
        Text(2, listed=True),
    ),
    Described(
        "temperature",
        "Temperature",
        "0 always takes the most likely token; higher values are more varied.",
        "Sampling",
        Number(0.1, 2),
    ),
    Described(
        "top_p",
        "Top-p",
        "Keeps the most likely tokens up to this total probability. 1 turns it off.",
        "Sampling",
        Number(0.05, 2),
    ),
    Described(
        "top_k",
        "Top-k",
        "Keeps only this many of the most likely tokens. 0 turns it off.",
        "Sampling",
        Number(10),
    ),
    Described(
        "min_p",
        "Min-p",
        "Drops tokens below this share of the most likely one's probability. 0 turns it off.",
        "Sampling",
        Number(0.01, 2),
    ),
    Described(
        "repetition_penalty",
        "Repetition penalty",
        "Above 1 makes recent tokens less likely. 1 turns it off.",
        "Sampling",
        Number(0.05, 2),
    ),
    Described(
        "seed",
        "Seed",
        "The same seed repeats an answer. Leave empty to draw a new one for each answer.",
        "Sampling",
        Seed(),
    ),
    Described(
        "rule",
        "Rule",
        "How proposals are judged. Under every rule the text follows the target's distribution.",
        "Speculation",
        Choice(tuple((title, name) for name, title in RULE_TITLES.items())),
    ),
    Described(
        "gamma",
        "Gamma",
        "Proposals per round, or auto: for as long as another one is likely to pay off.",
        "Speculation",
        GammaNumber(),
    ),
    Described(
        "budget",
        "Draft budget",
        BUDGET,
        "Speculation",
        BudgetNumber(),
    ),
    Described(
        "kv_bits",
        "K/V cache",
        "Fewer bits for the target's keys and values take less memory in long chats, and change its text a little.",
        "Speculation",
        Choice((("Full precision", None), *((f"{bits} bits", bits) for bits in KV_BITS))),
    ),
    Described(
        "measure_plain",
        "Measure the plain speed",
        "A few seconds after an answer, while nothing else runs and you are not typing, its prompt is read again and "
        "32 tokens are generated without a drafter, so that the speed-up is known. Nothing of it is kept.",
        "Speculation",
        Switch(),
    ),
    Described(
        "separate_process",
        "Separate process",
        "Models run in a process of their own: if one crashes or hangs, its answer ends, and the window goes on. Takes some more "
        "memory. Models are loaded again when you change this.",
        "Models",
        Switch(),
    ),
)
BY_NAME = {described.name: described for described in SETTINGS}
REMEMBERED = (
    *("target", "drafter", "recommended", "conversation"),  # chosen in the header and the list of chats
    "recent_models",  # likewise
    "split",  # set with the machines
    *("presets", "preset", "model_presets", "new_chat"),  # set with the sampling options
    *("panel_page", "charts", "verdict_details", "geometry", "export_folder", "export_kind"),  # restored as last left
)
"""Settings outside the settings window, which the window only remembers."""
