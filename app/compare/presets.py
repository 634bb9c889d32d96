"""Comparisons that show something at once, as data. No Qt in here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.compare.comparison import ColumnSetup, Setup
from app.session.settings import Settings
from engine.drafter_kinds import NGRAM, NO_DRAFTER, default_drafter

STORY = "Write a short story about a lighthouse keeper who finds a message in a bottle."
CODE = "Write a Python function that returns the first n prime numbers, with a docstring and an example."
RANDOM = "The random number from 1 to 10 inclusive is "
PARAGRAPH = (
    "A lighthouse keeper counts the ships at dusk. Seven pass before the lamp is lit, and one more when the fog comes in. "
    "She writes each name in the book, closes the cover and goes down to the sea."
)
FIRST_SENTENCE = PARAGRAPH[: PARAGRAPH.index(".")]
ANSWER, DRAWS, DRAW_TOKENS, COPIES = 128, 200, 3, 96


@dataclass(frozen=True, slots=True)
class Preset:
    """A comparison that is ready to start.

    Attributes:
        words: what there is to see.
        make: the comparison under the window's settings; models and sampling options are theirs.
    """

    id: str
    title: str
    words: str
    make: Callable[[Settings], Setup]


def usual(settings: Settings) -> Setup:
    """The comparison that is shown first: the two rules most people choose between."""
    return _rejection_gumbel(settings)


def _drafter(settings: Settings) -> str:
    """The drafter of the settings; where there is none, one that fits the target."""
    if settings.drafter != NO_DRAFTER:
        return settings.drafter
    return default_drafter(settings.target, NGRAM)


def _temperature(settings: Settings) -> float:
    """At temperature 0 rules cannot differ, so there would be nothing to compare."""
    return settings.temperature or 0.8


def _column(settings: Settings, **changes: object) -> ColumnSetup:
    values = {
        "rule": settings.rule,
        "drafter": _drafter(settings),
        "gamma": settings.gamma,
        "temperature": _temperature(settings),
    }
    return ColumnSetup(**{**values, **changes})  # type: ignore[arg-type]


def _rejection_gumbel(settings: Settings) -> Setup:
    return Setup(
        STORY,
        (_column(settings, rule="rejection"), _column(settings, rule="gumbel")),
        seed=settings.seed,
        max_tokens=ANSWER,
    )


def _with_without(settings: Settings) -> Setup:
    columns = (_column(settings, rule="gumbel", drafter=NO_DRAFTER), _column(settings, rule="gumbel"))
    return Setup(STORY, columns, seed=settings.seed, max_tokens=ANSWER)


def _random_number(settings: Settings) -> Setup:
    columns = tuple(
        ColumnSetup(rule=rule, drafter=settings.target, gamma=1, temperature=1.0) for rule in ("match", "gumbel", "rejection")
    )
    return Setup(RANDOM, columns, seed=settings.seed, max_tokens=DRAW_TOKENS, samples=DRAWS, template=False)


def _three_times(settings: Settings) -> Setup:
    prompt = f"The same paragraph three times:\n\n{PARAGRAPH}\n\n{FIRST_SENTENCE}."
    columns = tuple(ColumnSetup(rule="gumbel", drafter=drafter, temperature=0.0) for drafter in (NO_DRAFTER, NGRAM))
    return Setup(prompt, columns, seed=settings.seed, max_tokens=COPIES, template=False)


def _story_code(settings: Settings) -> Setup:
    columns = (_column(settings, prompt=STORY), _column(settings, prompt=CODE))
    return Setup(STORY, columns, seed=settings.seed, max_tokens=ANSWER, own_prompts=True)


PRESETS: tuple[Preset, ...] = (
    Preset(
        "rejection-gumbel",
        "Rejection vs. Gumbel",
        "The same seed under both rules. Rejection accepts a little more; Gumbel gives the text the target writes on its own.",
        _rejection_gumbel,
    ),
    Preset(
        "with-without",
        "With and without a drafter",
        "Under Gumbel the drafter must not change a single token, only the time the answer takes.",
        _with_without,
    ),
    Preset(
        "random-number",
        "A random number",
        "The target drafts for itself, many times. Match still accepts only the sum of the squared probabilities, because "
        "drafter and target draw independently; Gumbel and Rejection accept everything.",
        _random_number,
    ),
    Preset(
        "three-times",
        "The same paragraph three times",
        "The prompt contains the first copy. The n-gram drafter finds it, so copies two and three light up.",
        _three_times,
    ),
    Preset(
        "story-code",
        "Story vs. code",
        "Two prompts with the same settings: code is easier to predict than a story.",
        _story_code,
    ),
)
