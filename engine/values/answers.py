"""Plain values that cross every boundary: options, rounds and requests for answers.

Nothing here imports MLX or Qt, and no field ever holds an array: a value of this module can be passed between threads,
written to a trace and compared with ``==``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, get_args

from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import Limits, is_number, is_whole, require_fields
from engine.values.ranges import RANGES

Rule = Literal["match", "rejection", "gumbel", "block"]
ExpectedRule = Literal["match", "gumbel", "rejection"]
Status = Literal["accepted", "rejected", "unjudged"]
Origin = Literal["accepted", "correction", "bonus", "plain"]
Skipped = Literal["measured", "last", "reading"]
Phase = Literal["draft", "verify", "judge", "other"]
Thinking = Literal["auto", "on", "off"]
"""Whether a model thinks before it answers; "auto" leaves that to its chat template."""
Overflow = Literal["stop", "drop"]
"""Handling of a conversation that is too long for the context: "stop" refuses the answer, "drop" leaves out the oldest turns."""
Gamma = int | Literal["auto"]
"""Maximum number of proposals in a round; auto decides after each whether another one pays."""
Budget = int | Literal["auto"] | None
"""Maximum number of proposals in a round that drafts a tree; None drafts chains, auto decides in each round."""
Finish = Literal["eos", "stop", "length", "context", "cancelled"]
Sampling = tuple[tuple[str, Any], ...]
"""Pairs of a decoding option's name, or "system_prompt", and its value."""

RULES: tuple[Rule, ...] = get_args(Rule)
INVARIANT_RULES: tuple[Rule, ...] = ("match", "gumbel")
"""Rules under which the target draws every token with `shared` noise, so the text of a seed does not depend on the drafter."""
RATIO_RULES: tuple[Rule, ...] = ("rejection", "block")
"""Rules that compare a coin with p / q and replace a rejected proposal by a draw from the residual."""
EXPECTED_RULES: tuple[ExpectedRule, ...] = get_args(ExpectedRule)
"""Rules whose acceptance probability has a closed form at every judged position, in display order: the fields of `Expected`."""
STATUSES: tuple[Status, ...] = get_args(Status)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
THINKINGS: tuple[Thinking, ...] = get_args(Thinking)
FINISHES: tuple[Finish, ...] = get_args(Finish)
OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
SKIPS: tuple[Skipped, ...] = get_args(Skipped)
PHASES: tuple[Phase, ...] = get_args(Phase)
"""The phases of a round's time in order: the fields of `Milliseconds` after the total, without `communication`."""
FILTERS = ("top_p", "top_k", "min_p", "repetition_penalty")
"""Decoding options, apart from the temperature, that change which tokens can be drawn or how likely they are."""
MAX_GAMMA = int(RANGES["gamma"].highest)
KV_BITS = (8, 4)
"""Possible numbers of bits of a quantised K/V cache."""
SEED_LIMIT = int(RANGES["seed"].highest) + 1
"""Seeds are below this bound, so that JSON readers which know only doubles keep them exact."""


def _is_from_0(value: object) -> bool:
    return is_whole(value) and value >= 0


def _within(name: str) -> tuple[Callable[[Any], bool], str]:
    """Returns the limit of an option that is given by its range."""
    allowed = RANGES[name]
    is_kind = is_whole if allowed.whole else is_number
    return lambda value: is_kind(value) and allowed.holds(value), allowed.words


_is_seed, _is_gamma = _within("seed")[0], _within("gamma")[0]
_LIMITS: Limits = {
    "rule": (lambda rule: rule in RULES, f"one of {', '.join(RULES)}"),
    "temperature": (lambda value: is_number(value) and value >= 0, "a number of at least 0"),
    "top_p": _within("top_p"),
    "top_k": (_is_from_0, "a whole number of at least 0"),
    "min_p": _within("min_p"),
    "repetition_penalty": (lambda value: is_number(value) and value > 0, "a number above 0"),
    "repetition_context": (_is_from_0, "a whole number of at least 0"),
    "seed": (lambda seed: seed is None or _is_seed(seed), RANGES["seed"].words),
    "gamma": (lambda gamma: gamma == "auto" or _is_gamma(gamma), RANGES["gamma"].words),
    "budget": (
        lambda budget: budget in (None, "auto") or _within("budget")[0](budget),
        RANGES["budget"].words.replace("chain", "None"),
    ),
    "width": _within("width"),
    "max_tokens": (lambda value: is_whole(value) and value >= 1, "a whole number of at least 1"),
    "stop": (
        lambda stop: isinstance(stop, tuple) and all(isinstance(text, str) and text for text in stop),
        "a list of non-empty strings",
    ),
    "kv_bits": (lambda bits: bits is None or bits in KV_BITS, "4 or 8"),
    "analyse": (lambda value: isinstance(value, bool), "True or False"),
    "phase_every": (_is_from_0, "a whole number of at least 0"),
}
"""Limits of `DecodingOptions`. Four are wider than RANGES: older traces and chats and publishers' recommendations may exceed the
ranges, and an answer that is continued has room for more tokens than the range allows."""


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """Options of one answer. An impossible value raises a ValueError that names the field.

    Attributes:
        rule: how proposals are judged.
        temperature: divides the logits after the filters; 0 takes the arg-max and skips the filters.
        top_p: nucleus filter; 0 or 1 turns it off.
        top_k: keeps the k likeliest tokens; 0 turns it off.
        min_p: drops tokens below this fraction of the likeliest one's probability; 0 turns it off.
        repetition_penalty: divides positive and multiplies negative logits of recent tokens; 1 turns it off.
        repetition_context: number of latest tokens that count as recent.
        seed: seed of all draws; None has the engine draw one and record it.
        gamma: proposals in a round, 1 to 64, or "auto". With a budget, the greatest depth of a tree.
        budget: maximum number of proposals in a round that drafts a tree: several tokens for one position. None drafts chains; so
            do drafters and targets that cannot read trees, and the rule block. "auto" chooses trees or chains in each round if
            gamma is "auto", else chains.
        width: maximum number of proposals for one position of a tree.
        max_tokens: maximum length of the answer in tokens.
        stop: texts that end the answer; the answer is cut before them.
        analyse: whether rounds carry probabilities, alternatives and closed-form acceptance rates.
        kv_bits: bits of the keys and values in the caches of target and draft model, 4 or 8; None does not quantise them.
        phase_every: interval, in rounds, at which the time of each phase is measured; 0 is never.
    """

    rule: Rule = "gumbel"
    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    repetition_context: int = 20
    seed: int | None = None
    gamma: Gamma = 2
    budget: Budget = "auto"
    width: int = 4
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    kv_bits: int | None = None
    analyse: bool = True
    phase_every: int = 16

    def __post_init__(self) -> None:
        if isinstance(self.stop, list):
            object.__setattr__(self, "stop", tuple(self.stop))
        require_fields(self, _LIMITS)

    @property
    def asks_for_trees(self) -> bool:
        """Whether rounds may draft trees, if drafter, target and rule can."""
        return self.budget is not None and (self.budget != "auto" or self.gamma == "auto")

    @property
    def filters_on(self) -> tuple[str, ...]:
        """The members of FILTERS that have an effect, in order."""
        draws = self.temperature > 0
        on = (
            draws and 0 < self.top_p < 1,
            draws and self.top_k > 0,
            draws and self.min_p > 0,
            self.repetition_penalty != 1 and self.repetition_context > 0,
        )
        return tuple(name for name, is_on in zip(FILTERS, on, strict=True) if is_on)

    def replace(self, **changes: Any) -> DecodingOptions:
        """Returns a copy with other values, validated like any other."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the likeliest tokens of a distribution."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Draw:
    """A token that was drawn in addition to those of the round, for comparison."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One drafted token of a round and its verdict.

    Attributes:
        id: token id of the target's vocabulary.
        text: the token alone, undecodable bytes replaced; `bytes` is exact.
        status: accepted, rejected, or unjudged (it came after the rejected one, or in a tree beside an accepted or the rejected
            one).
        q: probability the drafter gave it; None without `analyse`.
        p: probability the target gave it, given the proposals before it. For an unjudged one it is therefore conditional on text
            that was discarded; its alternatives are left out, and in older traces its p is None. At temperature 0, q and p are
            the unfiltered probabilities at temperature 1, which say more than 0 and 1.
        acceptance: probability that the rule in force accepts here, given the context (under `block`, given the block).
        coin: the uniform number that was compared, under rejection and block.
        draft_argmax, target_argmax: the two draws that were compared, under match and gumbel and at temperature 0.
        draft_top, target_top: at most five likeliest tokens of drafter and target, likeliest first.
        copied: whether it was proposed without a draw, with q = 1, such as a copy of earlier text; None in traces from before
            that was recorded.
        target_draw: the target's draw here with `shared` noise, under every rule; given the proposals before it, like p.
        coupled_draw: the drafter's draw here with `shared` noise, which is what it proposes under gumbel.
        independent_draw: the drafter's draw here with the round's `draft` noise, which is what it proposes under the other rules.
            The three draws are None without `analyse`, at temperature 0 and in older traces. Except for the draw that the round
            itself used, they are also None after the last position that judging the round again could reach
            (`engine.decode.recording.other_draws`).
        parent: in a tree, the index among the round's proposals of the one it follows, -1 for none; None in a chain, where each
            follows the one before it.
        rank: its place among the proposals for the same position after the same tokens, 0 for the drafter's first choice.
    """

    id: int
    text: str
    bytes: bytes
    status: Status
    q: float | None = None
    p: float | None = None
    acceptance: float | None = None
    coin: float | None = None
    draft_argmax: int | None = None
    target_argmax: int | None = None
    draft_top: tuple[Candidate, ...] = ()
    target_top: tuple[Candidate, ...] = ()
    copied: bool | None = None
    target_draw: Draw | None = None
    coupled_draw: Draw | None = None
    independent_draw: Draw | None = None
    parent: int | None = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Emitted:
    """One token of the answer.

    Attributes:
        text: the text that this token adds to the answer. A token that ends inside a character adds nothing; the token that
            completes the character carries all of it, so the texts join to the answer.
        p: probability the target gave it; entropy: of the target's distribution, in nats. Both None without `analyse`.
        margin: gap between the target's two best scores (logits at temperature 0, perturbed scores under match and gumbel and in
            plain rounds), else None. For perturbed scores, 1 / temperature means that much or more.
        border: how far the target's logits would have to move against each other for the filters (top-p, min-p, top-k) to drop
            this token, in units of logits. None without a filter, if that distance is 1 or more, without `analyse`, and in traces
            from before it was recorded.
        target_top: at most five likeliest tokens of the target if the token is a bonus or a plain one. For an accepted token or a
            correction, see the proposal at the same position.
    """

    id: int
    text: str
    bytes: bytes
    origin: Origin
    p: float | None = None
    entropy: float | None = None
    margin: float | None = None
    target_top: tuple[Candidate, ...] = ()
    border: float | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """Closed-form acceptance probabilities at one judged position, for each rule that has one, whatever rule is in force."""

    match: float
    gumbel: float
    rejection: float


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Times of one round. The parts are None except in rounds that are evaluated in stages (`measured` is then True).

    Attributes:
        communication: the part of `verify` in which a target that is split over several ranks waited for the other ranks; None
            for one that is not split.
    """

    total: float
    draft: float | None = None
    verify: float | None = None
    judge: float | None = None
    other: float | None = None
    communication: float | None = None

    @property
    def measured(self) -> bool:
        """Whether the round was evaluated in stages, so that the parts are known."""
        return self.verify is not None


@dataclass(frozen=True, slots=True)
class DrafterStatistics:
    """Lookup statistics of a drafter in one round.

    Attributes:
        hits: earlier occurrences that were compared (n-gram), or tokens found in the table (n-gram hashing).
        misses: lookups that found nothing.
        match: number of latest tokens that agree with the text before the copy; 0 if nothing was found.
        entries: positions (n-gram) or n-grams (n-gram hashing) that can be found.
        capacity: slots of the table; None if it grows with the text.
        resets: how often the table has been emptied in this conversation.
    """

    hits: int
    misses: int
    match: int
    entries: int
    capacity: int | None = None
    resets: int = 0


@dataclass(frozen=True, slots=True)
class Outlook:
    """Estimate of the automatic gamma before a round: whether drafting pays on this machine.

    Attributes:
        gamma: the most profitable draft length, used or not; 1 for copies.
        cost: duration of a round with that many proposals, in plain rounds.
        alpha: estimated acceptance probability of a proposal; for copies, of the first one.
        needed: smallest alpha at which such a round pays; 1 if none does.
        next_try: rounds without proposals before drafting is tried again, this one included; None if drafting is not paused.
        copies: whether copied proposals were available, which cost nothing but their verification.
        drafter: the drafter that the estimate is about, if several could propose.
        skipped: why there are no proposals although no drafter is paused. `measured`: the round measures the time of a plain
            round. `last`: there is room for one token only. `reading`, in older traces only: the round also reads the rest of the
            prompt.
    """

    gamma: int
    cost: float
    alpha: float
    needed: float
    next_try: int | None = None
    copies: bool = False
    drafter: str = ""
    skipped: Skipped | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One propose, verify, judge, commit cycle: one forward pass of the target.

    The proposals of a tree are in this order: the accepted ones, which are one path from the root; the rejected one, the first
    choice at the position where the target's token was none of the proposals; then all others, unjudged, parents before children.

    Attributes:
        index: 0 for the first round of the answer.
        position: absolute index, prompt included, of the first token this round emitted.
        drafter: name of the drafter in force, "none" in a run without one.
        rule: the rule in force.
        expected: one entry per judged position (accepted, then the rejected one); empty without `analyse`.
        rows: rows of the target's forward pass.
        cache_length: tokens in the target's cache after the round: all committed tokens but the newest.
        started: milliseconds from the end of reading the prompt to the start of this round.
        text: the text that this round adds to the answer. Differs from the joined texts of `emitted` only if stop texts are set:
            a possible beginning of one is held back, and the answer is cut before a complete one.
        finish: why the answer ended with this round; None if it did not.
        drafter_statistics: statistics of a drafter that keeps some, if it was asked for proposals in this round.
        outlook: estimate of an automatic gamma; None under a fixed gamma, before there is an estimate, and in traces from before
            it was recorded.
        proposer: the drafter that proposed, if several take part; else None.
        queued: whether the previous round had queued a plain pass for this one.
        outside_draft_vocabulary: whether the token in place of the rejected proposal is not in the drafter's vocabulary, a part
            of the target's; None in traces from before it was recorded.
    """

    index: int
    position: int
    drafter: str
    rule: Rule
    proposals: tuple[Proposal, ...]
    emitted: tuple[Emitted, ...]
    expected: tuple[Expected, ...]
    milliseconds: Milliseconds
    rows: int
    cache_length: int
    started: float = 0.0
    text: str = ""
    finish: Finish | None = None
    drafter_statistics: DrafterStatistics | None = None
    outlook: Outlook | None = None
    proposer: str | None = None
    queued: bool = False
    outside_draft_vocabulary: bool | None = None

    @property
    def is_tree(self) -> bool:
        """Whether a tree was drafted, so that a position may have several proposals."""
        return bool(self.proposals) and self.proposals[0].parent is not None

    @property
    def depths(self) -> tuple[int, ...]:
        """For each proposal its distance from the round's first position: 1 for a proposal for that position."""
        if not self.is_tree:
            return tuple(range(1, len(self.proposals) + 1))
        found: list[int] = []
        for proposal in self.proposals:
            parent = -1 if proposal.parent is None else proposal.parent
            found.append(1 if not 0 <= parent < len(found) else found[parent] + 1)
        return tuple(found)

    def choices(self, place: int) -> tuple[Proposal, ...]:
        """Returns the proposals for the position `place` of the round, from 0, after the accepted ones before it, first choice
        first: in a chain at most one. `place` is at most the number of accepted proposals."""
        if not self.is_tree:
            return self.proposals[place : place + 1]
        return tuple(sorted((each for each in self.proposals if each.parent == place - 1), key=lambda each: each.rank))

    @property
    def drafted_by(self) -> str:
        """Name of the drafter that proposed: the one in force, or the member it chose."""
        return self.proposer or self.drafter

    @property
    def accepted(self) -> int:
        """Number of proposals before the first rejected one. A stop text may cut their tokens from `emitted`; this count includes
        them."""
        return sum(proposal.status == "accepted" for proposal in self.proposals)

    @property
    def rejected(self) -> int:
        """Number of rejected proposals: 1, or 0 if nothing was proposed for the position after the accepted ones."""
        return sum(proposal.status == "rejected" for proposal in self.proposals)

    @property
    def unjudged(self) -> int:
        """Number of proposals without a verdict: after the rejected one, or beside the path of a tree."""
        return sum(proposal.status == "unjudged" for proposal in self.proposals)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One answer to produce.

    Attributes:
        messages: the conversation so far, ending with the user's turn.
        options: a seed of None is drawn by the engine and reported in `RunStarted`.
        target: name or path that `engine.models.loading.load` accepts. drafter: name or path that `engine.values.drafter_kinds`
            accepts.
        conversation: requests with the same value may share a prompt cache.
        trace_path: path of the trace; None writes it to the data folder.
        given: ids of tokens that the answer begins with; the first round continues after them.
        given_text: without `given`, the text that the answer begins with; its tokens are added to `max_tokens`.
        template: False uses the last message's text as the prompt, without a chat template, and the model continues it. So does a
            model that has no chat template.
        thinking: whether the model thinks first, if its chat template has a switch for that.
        overflow: how a conversation that is too long for the context is handled.
        dropped: number of messages that were left out for the previous answer. They stay out as long as something has to, so that
            the cached part of the others can be reused.
        kept: False for an answer that does not become a chat: one of a comparison or a measurement, or one that the user does not
            want to keep. It is noted in the trace.
        only_measures: the answer is made only to measure speed. It ends as soon as the engine receives any other request, and no
            trace of it is written.
    """

    messages: tuple[Message, ...]
    options: DecodingOptions = field(default_factory=DecodingOptions)
    target: str = "builtin"
    drafter: str = NO_DRAFTER
    conversation: str = ""
    trace_path: str | None = None
    given: tuple[int, ...] = ()
    given_text: str = ""
    template: bool = True
    thinking: Thinking = "auto"
    overflow: Overflow = "stop"
    dropped: int = 0
    kept: bool = True
    only_measures: bool = False


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded target as the window sees it. A model without a template continues texts instead of answering messages.
    `switches_thinking`: whether its template lets thinking be turned on and off. `sampling`: its publisher's recommendation, by
    the names of `DecodingOptions`; None if unknown. `form`: format of a GGUF file's weights, in words."""

    name: str
    path: str
    sha256: str
    context_length: int
    vocabulary_size: int
    has_template: bool = True
    switches_thinking: bool = False
    sampling: Sampling | None = None
    form: str = ""


@dataclass(frozen=True, slots=True)
class Numerics:
    """Properties of a target's arithmetic that determine the last bits of its logits on one device. None if unknown.

    Attributes:
        logits: type of the logits: float32, float16 or bfloat16.
        prompt_chunk: number of prompt tokens in one pass.
    """

    logits: str | None = None
    prompt_chunk: int | None = None


@cache
def option_names() -> tuple[str, ...]:
    """Returns the field names of DecodingOptions in order, for tables and traces."""
    return tuple(option.name for option in fields(DecodingOptions))
