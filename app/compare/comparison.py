"""The data of a comparison: its columns, where their texts diverge, and whether that was expected. No Qt.

Every column is a session of one turn, so every view of a session can show a column.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app.look.wording import RULE_TITLES, drafter_title, target_title
from app.replay.player import Replay
from app.session.session import Answer, Session
from engine.lens.pieces import Spot
from engine.rounds import near_ties
from engine.rounds.trace import PlainRun, Trace
from engine.types import (
    FILTERS,
    INVARIANT_RULES,
    Budget,
    DecodingOptions,
    Emitted,
    Event,
    Gamma,
    Message,
    Proposal,
    Request,
    Round,
    RoundFinished,
    Rule,
    Thinking,
)
from engine.values.drafter_kinds import HEAD, NO_DRAFTER
from engine.values.events import number_of
from engine.values.wording import amount

LETTERS = "ABCD"
MOST_COLUMNS = len(LETTERS)

Kind = Literal["waiting", "same", "expected", "near-tie", "unexpected", "failed"]

USUAL = DecodingOptions()


@dataclass(frozen=True, slots=True)
class ColumnSetup:
    """The settings of one column. `prompt` is the column's own; empty means the shared one."""

    rule: Rule = "gumbel"
    drafter: str = HEAD
    gamma: Gamma = "auto"
    temperature: float = 0.8
    prompt: str = ""
    budget: Budget = USUAL.budget

    def title(self, target: str) -> str:
        """Returns rule and drafter in words. The rule comes first, since narrow columns cut off the end. Without a drafter there
        is no rule."""
        return "No drafter" if self.drafter == NO_DRAFTER else f"{RULE_TITLES[self.rule]}, {drafter_words(self.drafter, target)}"

    @property
    def invariant(self) -> bool:
        """Whether the text depends only on seed, prompt and options, not on the drafter."""
        return self.drafter == NO_DRAFTER or self.temperature == 0 or self.rule in INVARIANT_RULES


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a comparison.

    Attributes:
        seed: shared by all columns; None draws one before the start.
        samples: 0 shows one answer per column; else that number of short answers per column is drawn and counted.
        template: False uses the prompt as it is, without a chat template.
        own_prompts: every column has a prompt of its own.
        unfiltered: ignores the filters, the repetition penalty and the system prompt of the window's settings, so that the result
            does not depend on them.
    """

    prompt: str
    columns: tuple[ColumnSetup, ...]
    seed: int | None = None
    max_tokens: int = 128
    samples: int = 0
    template: bool = True
    own_prompts: bool = False
    unfiltered: bool = False

    @property
    def rules(self) -> tuple[tuple[Rule, tuple[int, ...]], ...]:
        """Each rule with the indices of its columns, if the comparison contrasts rules across drafters: at least two rules with
        at least two adjacent columns each, all with the same prompt and temperature. Otherwise empty."""
        found: dict[Rule, tuple[int, ...]] = {}
        for index, column in enumerate(self.columns):
            found[column.rule] = (*found.get(column.rule, ()), index)
        alike = len({(self.prompt_of(column), column.temperature) for column in self.columns}) == 1
        drafted = all(column.drafter != NO_DRAFTER for column in self.columns)
        paired = len(found) > 1 and all(indices[-1] - indices[0] == len(indices) - 1 > 0 for indices in found.values())
        return tuple(found.items()) if alike and drafted and paired else ()

    @property
    def trees(self) -> tuple[int, int] | None:
        """The indices of a column with chains and of one with trees, if they are the only ones and differ in nothing else.
        Otherwise None."""
        if len(self.columns) != 2 or self.samples:
            return None
        first, second = self.columns
        if replace(first, budget=None) != replace(second, budget=None) or self.prompt_of(first) != self.prompt_of(second):
            return None
        if first.drafter == NO_DRAFTER or (first.budget is None) == (second.budget is None):
            return None
        return (0, 1) if first.budget is None else (1, 0)

    @property
    def contrasted(self) -> tuple[Rule, ...]:
        """The rules of the columns with a drafter if there are several, and all columns have one prompt and one temperature, so
        that their acceptance can be compared at the same positions. Otherwise empty."""
        drafted = [column for column in self.columns if column.drafter != NO_DRAFTER]
        rules = tuple(dict.fromkeys(column.rule for column in drafted))
        alike = len({(self.prompt_of(column), column.temperature) for column in drafted}) == 1
        return rules if alike and len(rules) > 1 else ()

    def titles(self, column: ColumnSetup, target: str) -> tuple[str, str]:
        """Returns the title of a column: in short, where its rule stands above it, and in full. If columns differ in their trees,
        it names those."""
        differ = len({each.budget for each in self.columns if each.drafter != NO_DRAFTER}) > 1
        tree = f", {budget_words(column.budget)}" if differ and column.drafter != NO_DRAFTER else ""
        short = f"{drafter_words(column.drafter, target)}{tree}"
        full = f"{column.title(target)}{tree}"
        return (short if self.rules else full), full

    def prompt_of(self, column: ColumnSetup) -> str:
        """Returns the column's own prompt if columns have their own, else the shared one."""
        return column.prompt if self.own_prompts else self.prompt

    def requests(
        self, target: str, options: DecodingOptions, system: str = "", thinking: Thinking = "auto"
    ) -> tuple[Request, ...]:
        """Returns one request per column; options that a column does not set come from `options`."""
        if self.unfiltered:
            system = ""
            options = options.replace(**{name: getattr(USUAL, name) for name in (*FILTERS, "width")})
        before = (Message("system", system),) if system.strip() and self.template else ()
        return tuple(
            Request(
                messages=(*before, Message("user", self.prompt_of(column))),
                options=options.replace(
                    rule=column.rule,
                    gamma=column.gamma,
                    budget=column.budget,
                    temperature=column.temperature,
                    seed=self.seed,
                    max_tokens=self.max_tokens,
                ),
                target=target,
                drafter=column.drafter,
                template=self.template,
                thinking=thinking,
                kept=False,
            )
            for column in self.columns
        )


@dataclass(slots=True)
class Column:
    """One answer of the comparison.

    Attributes:
        tokens: the tokens of the answer; spots: the spot of each in its round.
        siblings: number of positions at which a choice of a tree other than the drafter's first was accepted.
        lengths: number of rounds by number of proposals.
    """

    setup: ColumnSetup
    session: Session
    tokens: list[Emitted] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    lengths: Counter[int] = field(default_factory=Counter)
    siblings: int = 0
    _positions: dict[Spot, int] = field(default_factory=dict)

    @property
    def answer(self) -> Answer:
        """The answer of the column's only turn: waiting, running or ended."""
        return self.session.turns[0].answer

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self.answer.state == "failed"

    @property
    def prompt(self) -> str:
        """The prompt of this column."""
        return self.session.turns[0].prompt

    def add(self, round_: Round) -> None:
        """Records the answer positions of the tokens and proposals of a round that the session has applied."""
        first = len(self.tokens)
        self.lengths[len(round_.proposals)] += 1
        self.siblings += sum(proposal.status == "accepted" and proposal.rank > 0 for proposal in round_.proposals)
        for place, token in enumerate(round_.emitted):
            spot = Spot(round_.index, token.origin != "accepted", place)
            self._positions[spot] = len(self.tokens)
            self.tokens.append(token)
            self.spots.append(spot)
        for at, (proposal, depth) in enumerate(zip(round_.proposals, round_.depths, strict=True)):
            if proposal.status != "accepted":
                self._positions[Spot(round_.index, False, at)] = first + depth - 1

    def read(self, trace: Trace) -> None:
        """Fills the column with a recorded answer."""
        replay = Replay(self.session, trace)
        self.session.show_replay(replay.turns[-1:])
        replay.show(len(trace.rounds))
        for round_ in trace.rounds:
            self.add(round_)

    def show_text(self, text: str, failure: str) -> None:
        """Fills the column with a text whose rounds are not known, and why it failed, if it did."""
        answer = self.answer
        answer.state, answer.message = ("failed", failure) if failure else ("finished", "")
        if text:
            answer.text.begin(text)

    def rejected_at(self, position: int) -> dict[Spot, Proposal]:
        """Returns the rejected proposals for a position of the answer, in the order of the record."""
        if position >= len(self.spots):
            return {}
        round_ = self.answer.rounds[self.spots[position].round]
        spots = {Spot(round_.index, False, at): proposal for at, proposal in enumerate(round_.proposals)}
        return {
            spot: proposal
            for spot, proposal in spots.items()
            if proposal.status == "rejected" and self._positions.get(spot) == position
        }

    @property
    def usual_proposals(self) -> int:
        """The number of proposals that at most 5 % of the rounds exceed; unlike the maximum, it ignores single long rounds."""
        left = sum(self.lengths.values()) / 20
        for length in sorted(self.lengths, reverse=True):
            if self.lengths[length] > left:
                return length
            left -= self.lengths[length]
        return 0

    def position_of(self, spot: Spot) -> int | None:
        """Returns the position in the answer of a token, or the position for which a rejected or unjudged proposal was made; None
        if the column has no such token."""
        return self._positions.get(spot)


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of a column's text to that of an earlier column.

    Attributes:
        other: index of the other column.
        same: number of equal tokens from the start. compared: number of tokens that both have.
        first: position of the first difference, None if there is none.
        kind: "same" so far or, if `complete`, altogether; else why they diverge.
        words: the same in a sentence or two.
    """

    other: int
    same: int
    compared: int
    first: int | None
    kind: Kind
    words: str
    complete: bool = False


class Comparison:
    """The columns of a comparison, which grow with events.

    Attributes:
        columns: in the order of the setup.
        target: the model that all of them use.
    """

    def __init__(self, setup: Setup, requests: Sequence[Request], clock: Callable[[], float] = time.monotonic) -> None:
        self.setup = setup
        self.target = requests[0].target
        self.columns: list[Column] = []
        for column, request in zip(setup.columns, requests, strict=True):
            session = Session(clock)
            session.add_turn(setup.prompt_of(column), request.options, request.drafter, target_title(request.target))
            self.columns.append(Column(column, session))
        self._agree = [0] * len(self.columns)
        self._others = [self._other(index) for index in range(len(self.columns))]

    @classmethod
    def recorded(cls, setup: Setup, requests: Sequence[Request], traces: Sequence[Trace]) -> Comparison:
        """Returns a comparison with recorded answers, one for each column."""
        comparison = cls(setup, requests)
        for index, trace in enumerate(traces):
            comparison.read(index, trace)
        return comparison

    def read(self, index: int, trace: Trace) -> None:
        """Fills a column with a recorded answer."""
        self.columns[index].read(trace)
        self._advance(index)

    def started(self, runs: Sequence[int]) -> None:
        """Records the run ids after the engine accepted the requests."""
        for column, run in zip(self.columns, runs, strict=True):
            column.answer.run_id = run

    def failed(self, message: str) -> None:
        """Records that the engine refused the requests."""
        for column in self.columns:
            column.answer.state, column.answer.message = "failed", message

    @property
    def running(self) -> bool:
        """Whether any answer is waiting, reading its prompt or generating."""
        return any(column.answer.running for column in self.columns)

    def apply(self, event: Event) -> None:
        """Applies one event; ignores those of other runs."""
        for index, column in enumerate(self.columns):
            if number_of(event) == column.answer.run_id is not None:
                column.session.apply(event)
                if isinstance(event, RoundFinished):
                    column.add(event.round)
                self._advance(index)

    def _advance(self, grown: int) -> None:
        """Advances the lengths of the common prefixes; each token is compared once."""
        for index, other in enumerate(self._others):
            if other is None or grown not in (index, other):
                continue
            tokens, others = self.columns[index].tokens, self.columns[other].tokens
            agree = self._agree[index]
            while agree < min(len(tokens), len(others)) and tokens[agree].id == others[agree].id:
                agree += 1
            self._agree[index] = agree

    def _other(self, index: int) -> int | None:
        """Returns the earlier column that a column is compared with: the first with the same rule if rules are contrasted, else
        the first that must have the same text, else the first with the same prompt. None if there is none."""
        for _, indices in self.setup.rules:
            if index in indices:
                return None if index == indices[0] else indices[0]
        alike = [other for other in range(index) if self._one_prompt(other, index)]
        return next((other for other in alike if not self._reasons(other, index)), next(iter(alike), None))

    def letters_compared_with(self, index: int) -> str:
        """Returns the letters of the columns compared with this one, as in "B and C"; empty if there are none."""
        letters = [letter for letter, other in zip(LETTERS, self._others, strict=False) if other == index]
        return " and ".join(filter(None, (", ".join(letters[:-1]), *letters[-1:])))

    def _reasons(self, one: int, two: int) -> list[str]:
        """Returns why two columns may differ, as parts of a sentence; empty if their texts must be equal."""
        first, second = self.columns[one].setup, self.columns[two].setup
        reasons = [] if self._one_prompt(one, two) else ["the prompts differ"]
        if first.temperature != second.temperature:
            reasons.append("the temperatures differ")
        if reasons or first.temperature == 0 or (first.invariant and second.invariant):
            return reasons
        if first == second and first.gamma != "auto":
            return []
        titles = [RULE_TITLES[column.rule] for column in (first, second) if not column.invariant]
        names = " and ".join(dict.fromkeys(titles))
        verb = "draw" if len(set(titles)) > 1 else "draws"
        return [f"{names} {verb} fresh noise in every round, so the texts share one distribution but need not be identical"]

    def _one_prompt(self, one: int, two: int) -> bool:
        return self.columns[one].prompt == self.columns[two].prompt

    def relation(self, index: int) -> Relation | None:
        """Returns the relation of a column to the earlier one it is compared with; None if there is no such column: for the first
        of all, the first of its rule if rules are contrasted, and one with a unique prompt."""
        other = self._others[index]
        if other is None:
            return None
        mine, theirs = self.columns[index], self.columns[other]
        same, compared = self._agree[index], min(len(mine.tokens), len(theirs.tokens))
        first = self._first_difference(index)
        letter = LETTERS[other]
        ended = not (mine.answer.running or theirs.answer.running)
        if first is None:
            if not compared:
                return Relation(other, 0, 0, None, "waiting", "")
            so_far = "" if ended else " so far"
            words = f"Same text as {letter}{so_far}: {same:,} of {amount(compared, 'token')}."
            return Relation(other, same, compared, None, "same", words, ended)
        reasons = self._reasons(other, index)
        if reasons:
            return Relation(other, same, compared, first, "expected", f"Expected: {' and '.join(reasons)}.", ended)
        return Relation(other, same, compared, first, *self._explain_difference(mine, theirs, first), ended)

    def _first_difference(self, index: int) -> int | None:
        """Returns the position at which a column diverges from the earlier column that it is compared with; None if it does not.

        Texts diverge at different tokens, or where one text ended by itself and the other continues.
        """
        other = self._others[index]
        if other is None:
            return None
        mine, theirs, agree = self.columns[index], self.columns[other], self._agree[index]
        if agree < min(len(mine.tokens), len(theirs.tokens)):
            return agree
        for short, long in ((mine, theirs), (theirs, mine)):
            if len(short.tokens) == agree < len(long.tokens) and short.answer.finish in ("eos", "stop"):
                return agree
        return None

    def _explain_difference(self, mine: Column, theirs: Column, first: int) -> tuple[Kind, str]:
        """Returns the kind and description of a difference between texts that should be equal."""
        options = mine.answer.options
        there = (column.tokens[first] if first < len(column.tokens) else None for column in (mine, theirs))
        gap = near_ties.nearest(there, options.temperature)
        logits, bits = mine.answer.logits, options.kv_bits
        if gap is not None and gap.size < near_ties.limit(logits, bits):
            coarse = f" in {logits}" if bits is None else f" with a K/V cache of {bits} bits"
            precision = "" if gap.size < near_ties.FLOAT32 else coarse
            what = (
                f"the two best scores differ by {gap.told}"
                if gap.of == "margin"
                else f"a token passes the filters by only {gap.told} in one text and not in the other"
            )
            return "near-tie", f"Near-tie{precision}: {what}, and passes of different widths differ in their last bits."
        known = "" if gap is None else f", and a {gap.of} of {gap.told} is not a near-tie"
        return "unexpected", f"Unexpected: these two texts should be identical{known}. Please report this with both traces."

    @property
    def lacks_answers(self) -> bool:
        """Whether any column ended with an error."""
        return any(column.failed for column in self.columns)

    @property
    def divergence(self) -> int | None:
        """The first position at which any two columns with the same prompt differ, None if there is none."""
        found = [first for index in range(len(self.columns)) if (first := self._first_difference(index)) is not None]
        return min(found, default=None)

    def divergence_of(self, index: int) -> int | None:
        """Returns the first position at which a column diverges from the earlier column that it is compared with, or from a later
        column that is compared with it; None if it does not."""
        found = [
            first
            for place in range(len(self.columns))
            if index in (place, self._others[place]) and (first := self._first_difference(place)) is not None
        ]
        return min(found, default=None)

    def speed_up(self, index: int) -> float | None:
        """Returns throughput divided by that of the plain column with the same prompt and temperature; None for that column
        itself, or if there is none. All other options are shared by the columns."""
        own, plain = self.columns[index].answer.tokens_per_second, self._plain_run(self.columns[index])
        return own / plain.throughput if own and plain is not None else None

    def _plain_run(self, column: Column) -> PlainRun | None:
        alike = (c for c in self.columns if c.prompt == column.prompt and c.setup.temperature == column.setup.temperature)
        plain = next((c for c in alike if c.setup.drafter == NO_DRAFTER), None)
        if plain is None or plain is column or not plain.answer.tokens_per_second:
            return None
        return PlainRun(plain.answer.tokens_per_second, plain.answer.tally.summary.emitted)

    @property
    def plain_runs(self) -> dict[str, PlainRun]:
        """The plain run that each answer is compared with, by the path of the answer's trace."""
        found = ((column.answer.trace_path, self._plain_run(column)) for column in self.columns)
        return {path: plain for path, plain in found if path is not None and plain is not None}

    @property
    def traces(self) -> list[str]:
        """Trace paths of the answers, in the order of the columns; answers without a trace are omitted."""
        return [column.answer.trace_path for column in self.columns if column.answer.trace_path]


def drafter_words(drafter: str, target: str) -> str:
    """Returns the display name of a drafter; the target can draft for itself."""
    return "The target itself" if drafter == target else drafter_title(drafter)


def budget_words(budget: Budget) -> str:
    """Returns a budget in words: "tree of 8", "automatic trees"."""
    return "chain" if budget is None else "automatic trees" if budget == "auto" else f"tree of {budget}"


def with_column(setup: Setup) -> Setup:
    """Returns the setup with one more column, like the last but with another rule."""
    last = setup.columns[-1]
    order: tuple[Rule, ...] = ("gumbel", "rejection", "match", "block")
    rule = next((rule for rule in order if all(column.rule != rule for column in setup.columns)), last.rule)
    return replace(setup, columns=(*setup.columns, replace(last, rule=rule)))
