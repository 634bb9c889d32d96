"""Ready-made comparisons that demonstrate something, as data, and the recorded result of one. No Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.compare.comparison import LETTERS, ColumnSetup, Comparison, Setup
from app.session.session import Turn
from app.session.settings import Settings
from engine.files.foreign import text, whole
from engine.rounds.trace import ENDING, read
from engine.types import Rule
from engine.values.drafter_kinds import AUTO, DRAFTERS, NGRAM, NO_DRAFTER, may_fit, single_drafter
from engine.values.wording import amount

STORY = "Write a short story about a lighthouse keeper who finds a message in a bottle."
CODE = "Write a Python function that returns the first n prime numbers, with a docstring and an example."
RANDOM = "The random number from 1 to 10 inclusive is "
PARAGRAPH = (
    "A lighthouse keeper counts the ships at dusk. Seven pass before the lamp is lit, and one more when the fog comes in. "
    "She writes each name in the book, closes the cover and goes down to the sea."
)
FIRST_SENTENCE = PARAGRAPH[: PARAGRAPH.index(".")]
ANSWER, RULES_ANSWER, DRAWS, DRAW_TOKENS, COPIES = 128, 64, 200, 3, 96
TEMPERATURE, GAMMA = 0.8, 3
"""Values at which rules differ visibly: with filters, or near temperature 0, they accept almost the same. The draft length is
fixed, because an automatic one would differ between the columns."""
DEPTH, NODES = 4, 8
"""Greatest depth and number of nodes of the trees that are compared with chains: where another row of a pass costs little."""
DIVERGING_SEED = 1
"""With the built-in model, its two drafters and this seed, the texts under Rejection diverge within the first few tokens."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A comparison that is ready to start.

    Attributes:
        words: describes what it shows.
        make: returns the comparison for the window's settings, which determine target and drafter. It fixes every other setting
            that the words depend on.
        chosen: why its seed was chosen, if it has its own seed for the built-in model.
        of_prompts: whether the words are about its prompts.
        recorded: whether its result with the built-in models is part of the program (`app.compare.presets`).
    """

    id: str
    title: str
    words: str
    make: Callable[[Settings], Setup]
    chosen: str = ""
    of_prompts: bool = False
    recorded: bool = False

    def about(self, setup: Setup, settings: Settings) -> str:
        """Returns the words and the fixed settings not visible in the controls. If the setup was changed since, only what is
        still true."""
        made = self.make(settings)
        prompts, made_for = ([each.prompt_of(column) for column in each.columns] for each in (setup, made))
        if _compared(setup) != _compared(made) or (self.of_prompts and prompts != made_for):
            return ""
        alike = {(column.gamma, column.temperature) for column in setup.columns}
        gamma, temperature = next(iter(alike))
        shared = f" Gamma {gamma} and temperature {temperature:g} in every column." if len(alike) == 1 and gamma != "auto" else ""
        chosen = settings.target == "builtin" and setup.seed == made.seed and prompts == made_for
        return f"{self.words}{shared}{f' {self.chosen}' if self.chosen and chosen else ''}"


def _compared(setup: Setup) -> tuple[object, ...]:
    """Returns the parts of a setup that the words of a preset depend on."""
    columns = tuple((column.rule, column.drafter, column.budget) for column in setup.columns)
    return columns, setup.samples > 0, setup.own_prompts


def _two_drafters(settings: Settings) -> tuple[str, str]:
    """Returns two drafters that fit the target and differ as much as possible, that of the settings first."""
    first = _drafter(settings)
    others = [
        name
        for name, kind in DRAFTERS.items()
        if kind.build and name != first and kind.fits != "inside" and may_fit(name, settings.target)
    ]
    return first, next((name for name in others if DRAFTERS[name].has_distribution), others[0])


def _drafter(settings: Settings) -> str:
    """Returns the drafter of the settings or, if that is none or several, a single one that fits the target."""
    if settings.drafter not in (NO_DRAFTER, AUTO):
        return settings.drafter
    return single_drafter(settings.target)


def _column(settings: Settings, **changes: object) -> ColumnSetup:
    values = {
        "rule": settings.rule,
        "drafter": _drafter(settings),
        "gamma": settings.gamma,
        "temperature": TEMPERATURE,
    }
    return ColumnSetup(**{**values, **changes})  # type: ignore[arg-type]


def _rejection_gumbel(settings: Settings) -> Setup:
    rules: tuple[Rule, ...] = ("gumbel", "rejection")
    columns = tuple(
        _column(settings, rule=rule, drafter=drafter, gamma=GAMMA, budget=None)
        for rule in rules
        for drafter in _two_drafters(settings)
    )
    seed = DIVERGING_SEED if settings.target == "builtin" else settings.seed
    return Setup(STORY, columns, seed=seed, max_tokens=RULES_ANSWER, unfiltered=True)


def _four_rules(settings: Settings) -> Setup:
    rules: tuple[Rule, ...] = ("match", "gumbel", "rejection", "block")
    columns = tuple(_column(settings, rule=rule, gamma=GAMMA, budget=None) for rule in rules)
    return Setup(STORY, columns, seed=settings.seed, max_tokens=RULES_ANSWER, unfiltered=True)


def _with_without(settings: Settings) -> Setup:
    columns = (_column(settings, rule="gumbel", drafter=NO_DRAFTER), _column(settings, rule="gumbel"))
    return Setup(STORY, columns, seed=settings.seed, max_tokens=ANSWER, unfiltered=True)


def _chain_tree(settings: Settings) -> Setup:
    columns = tuple(_column(settings, rule="gumbel", gamma=DEPTH, budget=budget) for budget in (None, NODES))
    return Setup(STORY, columns, seed=settings.seed, max_tokens=ANSWER, unfiltered=True)


def _random_number(settings: Settings) -> Setup:
    columns = tuple(
        ColumnSetup(rule=rule, drafter=settings.target, gamma=1, temperature=1.0) for rule in ("match", "gumbel", "rejection")
    )
    return Setup(RANDOM, columns, seed=settings.seed, max_tokens=DRAW_TOKENS, samples=DRAWS, template=False, unfiltered=True)


def _three_times(settings: Settings) -> Setup:
    prompt = f"The same paragraph three times:\n\n{PARAGRAPH}\n\n{FIRST_SENTENCE}."
    columns = tuple(ColumnSetup(rule="gumbel", drafter=drafter, temperature=0.0) for drafter in (NO_DRAFTER, NGRAM))
    return Setup(prompt, columns, seed=settings.seed, max_tokens=COPIES, template=False, unfiltered=True)


def _story_code(settings: Settings) -> Setup:
    columns = (_column(settings, prompt=STORY), _column(settings, prompt=CODE))
    return Setup(STORY, columns, seed=settings.seed, max_tokens=ANSWER, own_prompts=True, unfiltered=True)


ANSWER_WORDS = (
    "The prompt, settings and seed of the answer you chose, and the same without a drafter. The messages before it are left out."
)


def setup_of(turn: Turn, settings: Settings) -> Setup:
    """Returns a comparison with the settings of an answer, beside the same without a drafter, or with one if it had none."""
    answer, options = turn.answer, turn.answer.options
    drafter = answer.drafter if may_fit(answer.drafter, settings.target) else NO_DRAFTER
    other = NO_DRAFTER if drafter != NO_DRAFTER else single_drafter(settings.target)
    columns = tuple(
        ColumnSetup(options.rule, name, options.gamma, options.temperature, budget=options.budget) for name in (drafter, other)
    )
    raw = answer.request is not None and not answer.request.template
    return Setup(turn.prompt, columns, options.seed, min(options.max_tokens, ANSWER), template=not raw)


PRESETS: tuple[Preset, ...] = (
    Preset(
        "rejection-gumbel",
        "Rejection vs. Gumbel",
        "One prompt and one seed, two drafters under each rule.",
        _rejection_gumbel,
        "This seed was chosen because the texts under Rejection diverge early.",
        recorded=True,
    ),
    Preset(
        "with-without",
        "With and without a drafter",
        "Under Gumbel the drafter does not change a single token, only how long the answer takes.",
        _with_without,
    ),
    Preset(
        "four-rules",
        "The four rules",
        "One prompt, one seed, one drafter. Match and Gumbel give the text that the target gives alone; Gumbel accepts more, "
        "because a drafter with probabilities draws with the same noise. On average Rejection and Block accept most; their texts "
        "are others, drawn from the same distribution with different dice.",
        _four_rules,
    ),
    Preset(
        "chain-tree",
        "Chain against tree",
        "One prompt, one seed, one drafter under Gumbel, so both texts are the same. A chain proposes one token for a position, "
        f"a tree of {NODES} several for some, so that a wrong first choice costs less.",
        _chain_tree,
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
        of_prompts=True,
    ),
    Preset(
        "story-code",
        "Story vs. code",
        "Two prompts with the same settings: code is easier to predict than a story.",
        _story_code,
        of_prompts=True,
    ),
)


RECORDED = Path(__file__).resolve().parents[2] / "assets" / "demonstration"
"""The folder with the trace of each column, such as A.jsonl.gz."""
TARGET = Settings().target
"""The target of the recording."""


def recorded_setup(preset: Preset) -> Setup:
    """Returns the setup of the recording: that of a preset under the default settings."""
    return preset.make(Settings())


def recorded_comparison(preset: Preset) -> tuple[Comparison, str]:
    """Returns the recorded result of a preset, and the machine that recorded it: "Apple M2, 8 cores". Raises DraftlightError if a
    trace is missing or cannot be read."""
    setup = recorded_setup(preset)
    traces = [read(RECORDED / f"{letter}{ENDING}") for letter, _ in zip(LETTERS, setup.columns, strict=False)]
    hardware = traces[0].part("hardware")
    device, cores = text(hardware.get("device")), whole(hardware.get("cores"))
    machine = ", ".join(filter(None, (device, "" if cores is None else amount(cores, "core"))))
    return Comparison.recorded(setup, setup.requests(TARGET, Settings().options()), traces), machine
