"""The verdict on one token, in words and figures, the same for the verdict card and the screen reader. No Qt.

Everything comes from the recorded round; values that a round does not record are reported as unknown, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.look.wording import RULE_TITLES
from app.session.session import Answer
from app.verdict.residual import ResidualShare, draft_probability, residual_after
from engine.lens.draws import Draws, Score, draws_at
from engine.lens.pieces import Kind, Spot, judged_at, kind_of, place_of, quoted, visible, visible_candidate, where_proposed
from engine.lens.token_reasons import Coin, coins_at, decision, headline, limitations, was_copied
from engine.rounds import near_ties
from engine.types import EXPECTED_RULES, RATIO_RULES, Candidate, Emitted, Proposal, Round

Side = Literal["draft", "target", ""]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of figures.

    Attributes:
        text: the displayed value; note: its meaning, if it needs an explanation.
        share: 0 to 1 for a bar, None for none. side: the model it belongs to.
    """

    name: str
    text: str
    note: str = ""
    share: float | None = None
    side: Side = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the most likely tokens of a distribution.

    Attributes:
        token: its text with visible white space; text: its text.
        marks: further roles of the token: "proposed", "in the text".
    """

    id: int
    token: str
    text: str
    probability: float
    marks: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """The further roles in parentheses; empty if there are none."""
        return f" ({', '.join(self.marks)})" if self.marks else ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The content of the card for one token.

    Attributes:
        token: the text with visible white space; data: its bytes in hexadecimal; id: in the target's vocabulary.
        location: its round, its position in the round, and its absolute position.
        headline: how the token came about, in plain words. decision: the same with the figures that the rule compared.
        shares: p and q, the two figures that matter most. figures: all others.
        draws: the scores that drafter and target drew by; None if noise decided nothing here or they are unknown, for the reason
            `no_draws`. coins: those that rejection tossed here.
        siblings: the choices for the position of a tree's token, by rank; empty if there was one.
        target, draft: the most likely tokens of each model, most likely first.
        residual: the distribution that the correction was drawn from, as far as it is known; only after a rejection with a
            residual.
        expected: (rule, closed-form acceptance probability at this position).
        unknown: which values the round does not record.
    """

    kind: Kind
    token: str
    data: str
    id: int
    location: str
    headline: str
    decision: str
    shares: tuple[Figure, ...]
    figures: tuple[Figure, ...]
    target: tuple[Alternative, ...]
    draft: tuple[Alternative, ...]
    residual: tuple[ResidualShare, ...]
    expected: tuple[tuple[str, float], ...]
    unknown: tuple[str, ...]
    draws: Draws | None = None
    no_draws: str = ""
    coins: tuple[Coin, ...] = ()
    siblings: tuple[Sibling, ...] = ()

    @property
    def all_figures(self) -> tuple[Figure, ...]:
        """The figures of both levels."""
        return (*self.shares, *self.figures)

    @property
    def brief(self) -> str:
        """A short summary, for a screen reader that moves from token to token."""
        figures = ", ".join(f"{figure.name} {figure.text}" for figure in self.shares)
        return ", ".join(part for part in (speakable(self.token), self.kind, figures) if part)

    def text(self) -> str:
        """Returns the whole card as plain text."""
        lines = [f"“{self.token}” {self.kind}. {self.headline}"]
        lines += [sibling.words for sibling in self.siblings]
        lines += [f"{figure.name} {figure.text}{f', {figure.note}' if figure.note else ''}." for figure in self.all_figures]
        lines += [*draw_words(self.draws), *filter(None, [self.no_draws])]
        lines += [f"{self.location[:1].upper()}{self.location[1:]}.", f"Token {self.id}, bytes {self.data or 'none'}."]
        lines.append(self.decision)
        for title, side in (("Target's most likely", self.target), ("Drafter's most likely", self.draft)):
            if side:
                entries = (f"“{entry.token}” {probability(entry.probability)}{entry.suffix}" for entry in side)
                lines.append(f"{title}: {', '.join(entries)}.")
        if self.residual:
            lines.append(f"Residual: {', '.join(f'“{share.token}” {share.text}' for share in self.residual)}.")
        if self.expected:
            entries = (f"{rule} {probability(value)}" for rule, value in self.expected)
            lines.append(f"Expected acceptance here: {', '.join(entries)}.")
        return "\n".join([*lines, *self.unknown])


def judge(answer: Answer, spot: Spot) -> Verdict | None:
    """Returns the verdict on a token of an answer; None if there is no such token."""
    if not 0 <= spot.round < len(answer.rounds):
        return None
    round_ = answer.rounds[spot.round]
    if not 0 <= spot.at < len(round_.emitted if spot.own else round_.proposals):
        return None
    greedy = answer.options.temperature == 0
    token: Proposal | Emitted = round_.emitted[spot.at] if spot.own else round_.proposals[spot.at]
    judged, place = judged_at(round_, spot), place_of(round_, spot)
    target_top = judged.target_top if judged is not None else token.target_top
    draft_top = () if judged is None else judged.draft_top
    in_text = round_.emitted[place].id if place < len(round_.emitted) else None
    proposed = () if judged is None else tuple(choice.id for choice in round_.choices(place))
    expected = round_.expected[spot.at] if spot.at < len(round_.expected) else None
    shares, figures = _figures(round_, spot, answer.options.temperature, near_ties.limit(answer.logits, answer.options.kv_bits))
    draws = draws_at(round_, spot, answer.options.seed, greedy)
    return Verdict(
        kind=kind_of(round_, spot),
        token=visible(token.text, token.bytes),
        data=token.bytes.hex(" ").upper(),
        id=token.id,
        location=_location(round_, spot),
        headline=headline(round_, spot, answer.options.temperature),
        decision=decision(round_, spot, greedy),
        shares=shares,
        figures=figures,
        target=_alternatives(target_top, proposed, in_text),
        draft=_alternatives(draft_top, proposed, in_text),
        residual=residual_after(round_, spot, greedy),
        expected=() if expected is None else tuple((RULE_TITLES[rule], getattr(expected, rule)) for rule in EXPECTED_RULES),
        unknown=limitations(round_, spot, greedy),
        draws=None if isinstance(draws, str) else draws,
        no_draws=draws if isinstance(draws, str) else "",
        coins=coins_at(round_, spot, greedy),
        siblings=siblings_of(round_, spot),
    )


def tokens_before(answer: Answer, spot: Spot) -> tuple[int, ...] | None:
    """Returns the ids of the answer's tokens before a position, which a branch there keeps. None if the answer never had that
    text."""
    if answer.request is None or not 0 <= spot.round < len(answer.rounds):
        return None
    round_ = answer.rounds[spot.round]
    if spot.at >= len(round_.emitted) or (not spot.own and round_.proposals[spot.at].status == "unjudged"):
        return None
    earlier_tokens = (token.id for earlier in answer.rounds[: spot.round] for token in earlier.emitted)
    return (*answer.request.given, *earlier_tokens, *(token.id for token in round_.emitted[: spot.at]))


def _location(round_: Round, spot: Spot) -> str:
    if not spot.own:
        place = where_proposed(round_, spot.at)
    elif round_.emitted[spot.at].origin == "correction":
        many = len(round_.choices(spot.at))
        place = f"in place of {f'{many} choices' if many > 1 else f'proposal {spot.at + 1} of {len(round_.proposals)}'}"
    elif round_.emitted[spot.at].origin == "bonus":
        place = f"after {round_.accepted} accepted"
    else:
        place = "no proposals"
    return f"round {round_.index + 1}, {place}, position {round_.position + place_of(round_, spot):,}"


def draw_words(draws: Draws | None) -> list[str]:
    """Returns the scores behind a draw, one line for each candidate."""
    if draws is None:
        return []
    lines = ["Score: log-probability plus noise; the highest is drawn."]
    lines += [] if draws.drafted is None else [DICE_SHARED if draws.shared else DICE_APART]
    for entry in draws.contenders:
        sides = (("drafter", entry.draft, draws.drafted), ("target", entry.target, draws.drawn))
        said = [
            f"{name} {_score_words(score)}{' (drawn)' * (entry.id == drawn)}" for name, score, drawn in sides if score is not None
        ]
        lines.append(f"“{entry.token}”: {', '.join(said)}.")
    return lines


DICE_SHARED = "For each token, drafter and target get the same noise."
DICE_APART = "Drafter and target get noise of their own."


def _score_words(score: Score) -> str:
    if score.probability is None:
        return "not recorded"
    if score.log is None or score.total is None:
        return "cannot be drawn"
    return f"{score.log:.2f} {'+' if score.noise >= 0 else '−'} {abs(score.noise):.2f} = {score.total:.2f}"


@dataclass(frozen=True, slots=True)
class Sibling:
    """One choice for the position of a tree's token.

    Attributes:
        rank: 1 for the drafter's first choice; 0 for a token on another branch. fate: what became of it, in words.
        q, p: its probabilities; None if not recorded. copied: whether it was copied instead of drawn, so that q says nothing.
        here: whether the card is about it.
    """

    rank: int
    token: str
    fate: str
    q: float | None
    p: float | None
    copied: bool
    here: bool

    @property
    def shares(self) -> list[tuple[Side, str, float | None]]:
        """Side, words and length of the bar for q and p, where recorded. A copied token has no bar for q."""
        shares: list[tuple[Side, str, float | None]] = []
        if self.copied:
            shares.append(("draft", "copied", None))
        elif self.q is not None:
            shares.append(("draft", f"q {probability(self.q)}", self.q))
        if self.p is not None:
            shares.append(("target", f"p {probability(self.p)}", self.p))
        return shares

    @property
    def words(self) -> str:
        """The choice in one sentence."""
        shares = [words for _, words, _ in self.shares]
        which = f"Choice {self.rank}" if self.rank else "On another branch"
        return f"{which}: “{self.token}”, {', '.join([self.fate, *shares])}."


def siblings_of(round_: Round, spot: Spot) -> tuple[Sibling, ...]:
    """Returns the choices for the position of a token, by rank. If none of them was accepted, the token of the text follows if
    another branch had it."""
    if not round_.is_tree or (spot.own and spot.at >= len(round_.emitted)):
        return ()
    place = place_of(round_, spot)
    proposal = None if spot.own else round_.proposals[spot.at]
    parent = place - 1 if proposal is None or proposal.parent is None else proposal.parent
    indexed = [(at, each) for at, each in enumerate(round_.proposals) if each.parent == parent]
    missed = round_.emitted[place].id if place == round_.accepted < len(round_.emitted) else None
    found = [
        Sibling(
            each.rank + 1,
            visible(each.text, each.bytes),
            _fate(round_, each) if parent == place - 1 and place <= round_.accepted else "never reached",
            each.q,
            each.p,
            was_copied(round_, each),
            not spot.own and at == spot.at,
        )
        for at, each in sorted(indexed, key=lambda entry: entry[1].rank)
    ]
    found += [
        Sibling(0, visible(each.text, each.bytes), _elsewhere(round_, each), each.q, each.p, was_copied(round_, each), False)
        for at, each in enumerate(round_.proposals)
        if each.id == missed and each.parent != parent and round_.depths[at] == place + 1 and each.status == "unjudged"
    ]
    return tuple(found) if len(found) > 1 else ()


def _fate(round_: Round, choice: Proposal) -> str:
    """Returns what became of a choice for a position that was reached."""
    if choice.status == "accepted":
        return "accepted"
    if round_.rule in RATIO_RULES and choice.coin is not None:
        return "not accepted"
    return "not tried" if round_.rule in RATIO_RULES and choice.status == "unjudged" else "not the target's token"


def _elsewhere(round_: Round, proposal: Proposal) -> str:
    """Returns that a proposal on another branch has the token of the text."""
    before = round_.proposals[proposal.parent] if proposal.parent is not None and proposal.parent >= 0 else None
    name = "another token" if before is None else quoted(before)
    return f"right, but not reached: it followed {name}"


def _figures(round_: Round, spot: Spot, temperature: float, near: float) -> tuple[tuple[Figure, ...], tuple[Figure, ...]]:
    """Returns q and p, and the other figures."""
    judged = judged_at(round_, spot)
    if spot.own:
        emitted = round_.emitted[spot.at]
        token: Proposal | Emitted = emitted
        q_low, q = (None, None) if judged is None or judged.q is None else draft_probability(judged, emitted.id)
        target_top = judged.target_top if judged else emitted.target_top
    else:
        token = round_.proposals[spot.at]
        q_low, q, target_top = token.q, token.q, token.target_top
    shares, figures = list[Figure](), list[Figure]()
    if q is not None and q == q_low:
        note = "copied, not drawn" if isinstance(token, Proposal) and was_copied(round_, token) else ""
        shares.append(Figure("Draft q", probability(q), note, q, "draft"))
    elif q is not None:
        shares.append(Figure("Draft q", f"≤ {probability(q)}", "not in the drafter's top five", side="draft"))
    if token.p is not None:
        unjudged = isinstance(token, Proposal) and token.status == "unjudged"
        note = "after the proposals before it" if unjudged else rank_text(token.id, target_top)
        note = "cannot be drawn" if token.p == 0 and not unjudged and temperature else note
        shares.append(Figure("Target p", probability(token.p), note, token.p, "target"))
    if q and token.p is not None and not spot.own:
        figures.append(Figure("p / q", ratio(token.p / q)))
    figures += _rule_figures(round_, spot, temperature, near)
    if isinstance(token, Emitted) and token.entropy is not None:
        figures.append(Figure("Entropy", f"{token.entropy:.2f} nats", "of the target's distribution"))
    return tuple(shares), tuple(figures)


def _rule_figures(round_: Round, spot: Spot, temperature: float, near: float) -> list[Figure]:
    """Returns the values that the rule used (acceptance probability, coin, margin) and the filters' border. Gaps of less than
    `near` logits are near-ties."""
    figures = []
    greedy = temperature == 0
    if not spot.own:
        proposal = round_.proposals[spot.at]
        if proposal.acceptance is not None and not greedy:
            note = "after the choices before it" if proposal.rank else "given this token"
            note = "given the block" if round_.rule == "block" else note
            figures.append(Figure("Chance to accept", probability(proposal.acceptance), note, proposal.acceptance))
        if proposal.coin is not None:
            figures.append(Figure("Coin u", probability(proposal.coin), share=proposal.coin))
    unjudged = not spot.own and round_.proposals[spot.at].status == "unjudged"
    emitted = round_.emitted[spot.at] if spot.at < len(round_.emitted) and not unjudged else None
    if emitted is not None and emitted.margin is not None:
        scores = "logit" if greedy else "score"
        is_near = near_ties.in_logits(emitted.margin, temperature) < near
        note = f"near-tie of the two best {scores}s" if is_near else f"best {scores} minus second best"
        is_lower_bound = near_ties.is_lower_bound(emitted.margin, temperature)
        size = f"≥ {emitted.margin:.3g}" if is_lower_bound else ratio(emitted.margin)
        figures.append(Figure("Margin", size, note))
    if emitted is not None and emitted.border is not None:
        note = "near-tie with a filter's limit" if emitted.border < near else "from being filtered out"
        figures.append(Figure("Border", ratio(emitted.border), note))
    return figures


def _alternatives(top: tuple[Candidate, ...], proposed: Sequence[int], stands: int | None) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(
            entry.id,
            visible_candidate(entry),
            entry.text,
            entry.probability,
            ("proposed",) * (entry.id in proposed) + ("in the text",) * (entry.id == stands),
        )
        for entry in top
    )


def rank_text(token: int, top: tuple[Candidate, ...]) -> str:
    """Returns the rank of a token among the target's most likely ones, of which a round records at most five."""
    if not top:
        return ""
    rank = next((rank for rank, entry in enumerate(top, start=1) if entry.id == token), None)
    if rank is None:
        return "not in the top five" if len(top) >= 5 else "cannot be drawn"
    return ("most likely", "2nd most likely", "3rd most likely", "4th most likely", "5th most likely")[rank - 1]


def probability(value: float) -> str:
    """Formats a probability with three decimals, or more if those would round it to 0 or 1."""
    if value in (0.0, 1.0):
        return f"{value:.0f}"
    if value < 0.0005:
        return f"{value:.1e}"
    return f"{min(value, 0.99999):.5f}" if value >= 0.9995 else f"{value:.3f}"


def ratio(value: float) -> str:
    """Formats a quotient or a margin with about three digits, in scientific notation if decimals would read 0."""
    if value >= 10:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.1e}"


def speakable(token: str) -> str:
    """Replaces visible white space by words, since screen readers would skip the symbols."""
    names = {"·": " space ", "⏎": " line break ", "⇥": " tab "}
    return " ".join("".join(names.get(letter, letter) for letter in token).split())
