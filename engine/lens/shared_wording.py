"""Wording that the window, the terminal and exports share: endings of answers, definitions of figures, token kinds,
stretches."""

from __future__ import annotations

from collections.abc import Sequence

from engine.files import ollama
from engine.lens.pieces import Kind
from engine.rounds.metrics import Stretch
from engine.types import DecodingOptions, Finish, Rule
from engine.values.drafter_kinds import DRAFTERS, NO_DRAFTER
from engine.values.wording import amount

CHAIN = "chain"
"""The word for a budget of None: one proposal for each position."""
BUDGET = (
    "How many tokens a round may propose as a tree, several for one position: a number, auto for trees where they pay off "
    "(only if gamma is auto, too), or chain for one token for each position."
)
"""The draft budget in one sentence."""
RULE_TITLES: dict[Rule, str] = {"match": "Match", "rejection": "Rejection", "gumbel": "Gumbel", "block": "Block"}


def unseen_words(turns: int) -> str:
    """Returns which turns the model no longer sees, in words."""
    return "The model no longer sees " + ("the oldest turn" if turns == 1 else f"the oldest {turns:,} turns")


FINISH_WORDS: dict[Finish, str] = {
    "eos": "end of answer",
    "stop": "stop sequence reached",
    "length": "length limit reached",
    "context": "context is full",
    "cancelled": "stopped",
}
FIGURES = {
    "throughput": "emitted tokens divided by the seconds from the end of reading the prompt to the last token.",
    "alpha": "accepted / (accepted + rejected). Unjudged proposals say nothing and are left out. In a tree a position counts "
    "once: as accepted if one of its choices was.",
    "tau": "emitted tokens per round, correction or bonus included.",
    "predicted_tau": "the mean over rounds of (1 − alpha^(gamma + 1)) / (1 − alpha), with the alpha of each round's rule and "
    "drafter",
    "draft_yield": "accepted / proposals. Many articles call it alpha, but it counts the unjudged proposals too.",
}
"""Definition of each figure, to follow its name; for the predicted tau, the way it is computed."""
FILTER_NAMES = {"top_p": "top-p", "top_k": "top-k", "min_p": "min-p", "repetition_penalty": "repetition penalty"}
LEGEND: dict[Kind, str] = {
    "accepted": "proposed and accepted",
    "rejected": "proposed but rejected; shown as a ghost",
    "unjudged": "proposed after a rejected token, so never judged, or another choice of a tree; shown as a ghost",
    "correction": "the target's token in place of a rejected one",
    "bonus": "the target's extra token after every proposal was accepted, or a path of a tree to its end",
}


def filter_words(options: DecodingOptions) -> dict[str, str]:
    """Returns the filters that have an effect, each with its value, keyed by their names in the options."""
    return {name: f"{FILTER_NAMES[name]} {getattr(options, name):g}" for name in options.filters_on}


def drafter_title(name: str) -> str:
    """Returns a drafter's name for people; for a path its last part."""
    return DRAFTERS[name].title if name in DRAFTERS else path_title(name)


def path_title(path: str) -> str:
    """Returns the last part of a path; for an Ollama manifest, the name of its model."""
    return ollama.name_of(path) or path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def no_template(model: str) -> str:
    """Returns a sentence, without its full stop, saying that a model continues text instead of answering."""
    return f"{model} has no chat template: it continues your text as it stands"


def stretch_title(stretch: Stretch, previous: Stretch | None = None) -> str:
    """Returns how a stretch differs from the previous one: its rule, its drafter, or both; the rule if there is no previous
    one."""
    if stretch.drafter == NO_DRAFTER:
        return "No drafter"
    rule, drafter = RULE_TITLES[stretch.rule], drafter_title(stretch.drafter)
    if previous is None or previous.drafter == stretch.drafter:
        return rule
    return drafter if previous.rule == stretch.rule else f"{rule}, {drafter}"


def latest_titles(stretches: Sequence[Stretch]) -> list[tuple[str, Stretch]]:
    """Returns the two latest stretches, each with its difference from the other; none if rule and drafter never changed."""
    if len(stretches) < 2:
        return []
    first, second = stretches[-2:]
    return [(stretch_title(first, second), first), (stretch_title(second, first), second)]


def latest_words(stretches: Sequence[Stretch]) -> str:
    """Returns which two stretches figures are given for, and that their texts differ; "" if there is only one stretch.

    "Gumbel in 87 rounds | Rejection in 110 rounds, of different text".
    """
    latest = latest_titles(stretches)
    if not latest:
        return ""
    words = " | ".join(f"{title} in {amount(stretch.totals.rounds, 'round')}" for title, stretch in latest)
    return f"{words}{f' (the latest two of {len(stretches)})' if len(stretches) > 2 else ''}, of different text"


def all_words(stretches: Sequence[Stretch]) -> list[str]:
    """Returns one text for each stretch, with the figures of its rule and drafter; none if there is only one stretch."""
    if len(stretches) < 2:
        return []
    drafters = {stretch.drafter for stretch in stretches} - {NO_DRAFTER}
    return [_stretch_words(stretch, named=len(drafters) > 1) for stretch in stretches]


def _stretch_words(stretch: Stretch, named: bool) -> str:
    summary = stretch.summary
    title = stretch_title(stretch)
    if named and stretch.drafter != NO_DRAFTER:
        title = f"{title}, {drafter_title(stretch.drafter)}"
    figures = [f"{name} {value:.2f}" for name, value in (("alpha", summary.alpha), ("tau", summary.tau)) if value is not None]
    return f"{title} in {amount(summary.rounds, 'round')}{': ' if figures else ''}{', '.join(figures)}"
