"""The scores behind the draws at one position, computed again from a recorded round: log-probability plus Gumbel noise.

Under gumbel and match the target draws the token whose log p plus noise is highest; the drafter draws by log q plus noise. The
noise is a function of seed, position and token id, so the scores of all recorded candidates follow from the trace. Under gumbel
both sides use the same noise. A candidate that is not recorded scored less than the one that was drawn, so the winner is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.lens.pieces import Spot, judged_at, place_of, visible, visible_candidate
from engine.lens.token_reasons import was_copied
from engine.noise import reference
from engine.types import INVARIANT_RULES, Candidate, Round

SHOWN = 2
"""Number of best candidates of each side."""
COMPLETE = 5
"""A round records this many candidates of a distribution; if there are fewer, no other token can be drawn."""
TIE = 1e-4
"""Scores as close as this are tied: recorded probabilities are rounded."""


@dataclass(frozen=True, slots=True)
class Score:
    """One side's score of a token: log-probability plus noise. `probability` is None if it is not recorded."""

    probability: float | None
    noise: float

    @property
    def log(self) -> float | None:
        """The log-probability; None if it is unknown or the probability is 0."""
        return math.log(self.probability) if self.probability else None

    @property
    def total(self) -> float | None:
        """The score; None without a log-probability."""
        return None if self.log is None else self.log + self.noise


@dataclass(frozen=True, slots=True)
class Contender:
    """A token with the scores of both sides; None for a side that did not draw, or did not draw this token but copied it."""

    id: int
    token: str
    draft: Score | None
    target: Score | None


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws at one position.

    Attributes:
        contenders: the best candidates of both sides: the target's draw, the drafter's, then by the target's score.
        drafted: id that the drafter drew first; None if it drew nothing here, or copied. drawn: id that the target drew.
        shared: whether both sides used the same noise.
        tied: whether the target's two best scores are equal up to rounding.
    """

    contenders: tuple[Contender, ...]
    drafted: int | None
    drawn: int
    shared: bool
    tied: bool = False


def draws_at(round_: Round, spot: Spot, seed: int | None, greedy: bool) -> Draws | str:
    """Returns the draws at the position of a token, or why they cannot be shown; "" if the token was not decided by them."""
    place = place_of(round_, spot)
    judged = judged_at(round_, spot)
    if greedy or place >= len(round_.emitted) or (round_.rule not in INVARIANT_RULES if judged is not None else not spot.own):
        return ""
    emitted = round_.emitted[place]
    if emitted.p is None or (judged is not None and judged.target_argmax not in (None, emitted.id)):
        return ""
    if seed is None:
        return "The seed of this answer is not recorded, so the noise behind the draw cannot be shown."
    position = round_.position + place
    choices = round_.choices(place) if judged is not None else ()
    drawn_choices = [each for each in choices if not was_copied(round_, each)]
    copied = {each.id for each in choices} - {each.id for each in drawn_choices}  # the draws leave them out
    first_choice = drawn_choices[0] if drawn_choices else None
    draft_top = () if judged is None or first_choice is None else (judged if judged in drawn_choices else first_choice).draft_top
    target_top = judged.target_top if judged is not None else emitted.target_top
    target = _known(target_top, (emitted.id, emitted.p))
    draft: dict[int, float] = {}
    if judged is not None:
        target |= {each.id: each.p for each in choices if each.p is not None}
    if first_choice is not None and first_choice.q is not None:
        draft = _known(draft_top, *((each.id, each.q) for each in drawn_choices if each.q is not None))
    names = _names(round_, place, (*target_top, *draft_top))
    ids = list(dict.fromkeys((*target, *draft)))
    domain, first = ("shared", None) if round_.rule == "gumbel" else ("draft", round_.position)
    noise = reference.gumbel_of(seed, position, ids)
    own = noise if round_.rule == "gumbel" else reference.gumbel_of(seed, position, ids, domain, first)
    complete = len(target_top) < COMPLETE
    drafts_complete = 0 < len(draft_top) < COMPLETE
    found = [
        Contender(
            token,
            names.get(token, f"token {token}"),
            None if not draft or token in copied else Score(draft.get(token, 0.0 if drafts_complete else None), float(own[at])),
            Score(target.get(token, 0.0 if complete else None), float(noise[at])),
        )
        for at, token in enumerate(ids)
    ]
    by_target = sorted(found, key=lambda each: -_total(each.target))
    by_draft = sorted((each for each in found if each.draft is not None), key=lambda each: -_total(each.draft))
    best = _total(by_target[0].target)
    tied = len(by_target) > 1 and best - _total(by_target[1].target) < TIE
    drawn = next(each for each in found if each.id == emitted.id)
    if drawn is not by_target[0] and best - _total(drawn.target) > TIE:
        return "The recorded figures do not reproduce this draw, so it is not shown."
    drafted = None if first_choice is None or not draft else first_choice.id
    chosen = {emitted.id, drafted} | {each.id for each in (*by_target[:SHOWN], *by_draft[:SHOWN])}
    shown = [each for each in by_target if each.id in chosen]
    shown.sort(key=lambda each: (each.id != emitted.id, each.id != drafted))
    return Draws(tuple(shown), drafted, emitted.id, round_.rule == "gumbel" or not draft, tied)


def _known(top: Iterable[Candidate], *more: tuple[int, float]) -> dict[int, float]:
    return {**{entry.id: entry.probability for entry in top}, **dict(more)}


def _total(score: Score | None) -> float:
    """Returns the score, or minus infinity where there is none."""
    return -math.inf if score is None or score.total is None else score.total


def _names(round_: Round, place: int, tops: Iterable[Candidate]) -> dict[int, str]:
    """Returns the texts of the recorded tokens at a position, by id."""
    emitted = round_.emitted[place]
    names = {entry.id: visible_candidate(entry) for entry in tops}
    if round_.proposals and place <= round_.accepted:
        names |= {each.id: visible(each.text, each.bytes) for each in round_.choices(place)}
    return names | {emitted.id: visible(emitted.text, emitted.bytes)}
