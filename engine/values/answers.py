"""The plain values that cross every boundary: options, rounds and requests for answers.

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
from engine.values.ranges import Range

Rule = Literal["match", "rejection", "gumbel", "block"]
ExpectedRule = Literal["match", "gumbel", "rejection"]
Status = Literal["accepted", "rejected", "unjudged"]
Origin = Literal["accepted", "correction", "bonus", "plain"]
Skipped = Literal["measured", "last", "reading"]
Phase = Literal["draft", "verify", "judge", "other"]
Thinking = Literal["auto", "on", "off"]
"""Whether a model is to think before it answers; "auto" is as its chat template has it."""
Overflow = Literal["stop", "drop"]
"""What happens where a conversation is too long for the context: the answer is refused, or the oldest turns are left out."""
Gamma = int | Literal["auto"]
"""How many tokens are proposed in a round at most; auto asks after each whether one more pays."""
Finish = Literal["eos", "stop", "length", "context", "cancelled"]
Sampling = tuple[tuple[str, Any], ...]
"""Names of decoding options and their values; also of the "system_prompt"."""

RULES: tuple[Rule, ...] = get_args(Rule)
INVARIANT_RULES: tuple[Rule, ...] = ("match", "gumbel")
"""Here the target draws every token with `shared` noise, so the text of a seed does not depend on the drafter."""
RATIO_RULES: tuple[Rule, ...] = ("rejection", "block")
"""Here a coin is compared with p / q, and a rejected proposal is replaced by a draw from the residual."""
EXPECTED_RULES: tuple[ExpectedRule, ...] = get_args(ExpectedRule)
"""The rules whose chance to accept has a closed form at every judged position, in the order in which they are shown: the fields
of `Expected`."""
STATUSES: tuple[Status, ...] = get_args(Status)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
THINKINGS: tuple[Thinking, ...] = get_args(Thinking)
FINISHES: tuple[Finish, ...] = get_args(Finish)
OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
SKIPS: tuple[Skipped, ...] = get_args(Skipped)
PHASES: tuple[Phase, ...] = get_args(Phase)
"""The parts of a round's time, in their order: the fields of `Milliseconds` after the total."""
FILTERS = ("top_p", "top_k", "min_p", "repetition_penalty")
"""Decoding options that change which tokens can be drawn, or how likely they are, beside the temperature."""
MAX_GAMMA = 64
KV_BITS = (8, 4)
"""What a quantised K/V cache may have."""
SEED_LIMIT = 2**53
"""Seeds are below this bound, so that JSON readers which know only doubles keep them exact."""
RANGES = {
    "temperature": Range(0, 5),
    "top_p": Range(0, 1),
    "top_k": Range(0, 1_000_000, whole=True),
    "min_p": Range(0, 1),
    "repetition_penalty": Range(0.1, 3),
    "max_tokens": Range(1, 1_000_000, whole=True),
    "seed": Range(0, SEED_LIMIT - 1, whole=True),
    "gamma": Range(1, MAX_GAMMA, whole=True, word="auto"),
}
"""What can be asked for, in the window and on the command line, by the names of `DecodingOptions`."""


def _is_from_0(value: object) -> bool:
    return is_whole(value) and value >= 0


def _within(name: str) -> tuple[Callable[[Any], bool], str]:
    """The limit that is the range of the option."""
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
    "max_tokens": (lambda value: is_whole(value) and value >= 1, "a whole number of at least 1"),
    "stop": (
        lambda stop: isinstance(stop, tuple) and all(isinstance(text, str) and text for text in stop),
        "a list of non-empty strings",
    ),
    "kv_bits": (lambda bits: bits is None or bits in KV_BITS, "4 or 8"),
    "analyse": (lambda value: isinstance(value, bool), "True or False"),
    "phase_every": (_is_from_0, "a whole number of at least 0"),
}
"""Of `DecodingOptions`. Four are wider than what can be asked for: older traces and chats and publishers' recommendations may go
beyond it, and an answer that is continued has room for more tokens than were asked for."""


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """What the user asks of one answer. Impossible values raise ValueError naming the field.

    Attributes:
        rule: how proposals are judged.
        temperature: divides the logits after the filters; 0 takes the arg-max and skips the filters.
        top_p: nucleus filter; 0 or 1 is off.
        top_k: keeps the k likeliest tokens; 0 is off.
        min_p: drops tokens below this fraction of the likeliest one; 0 is off.
        repetition_penalty: divides positive and multiplies negative logits of recent tokens; 1 is off.
        repetition_context: how many of the latest tokens count as recent.
        seed: None is drawn and recorded by whoever runs the answer.
        gamma: proposals in a round, 1 to 64, or "auto".
        max_tokens: the longest answer.
        stop: texts that end the answer; the answer is cut before them.
        analyse: whether rounds carry probabilities, alternatives and the closed forms.
        kv_bits: bits of the keys and values that target and draft model keep, 4 or 8; None keeps them as they are computed.
        phase_every: every so many rounds the time of each phase is measured; 0 is never.
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
    def filters_on(self) -> tuple[str, ...]:
        """Those of FILTERS that change anything."""
        draws = self.temperature > 0
        on = (
            draws and 0 < self.top_p < 1,
            draws and self.top_k > 0,
            draws and self.min_p > 0,
            self.repetition_penalty != 1 and self.repetition_context > 0,
        )
        return tuple(name for name, is_on in zip(FILTERS, on, strict=True) if is_on)

    def replace(self, **changes: Any) -> DecodingOptions:
        """A copy with other values, validated like any other."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the likeliest tokens of a distribution."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Draw:
    """A token that was drawn beside those of the round."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One drafted token of a round and what became of it.

    Attributes:
        id: token id of the target's vocabulary.
        text: the token alone, undecodable bytes replaced; `bytes` is exact.
        status: accepted, rejected, or unjudged (it stood after the rejected one).
        q: probability the drafter gave it; None without `analyse`.
        p: probability the target gave it, given the proposals before it. Of an unjudged one it is therefore conditional on text
            that was not kept; its alternatives are left out, and in older traces its p is None. At temperature 0 both are the
            unfiltered probabilities at temperature 1, which say more than 0 and 1.
        acceptance: probability that the rule in force accepts here, given the context (and under `block` the block).
        coin: the uniform number that was compared, under rejection and block.
        draft_argmax, target_argmax: the two draws that were compared, under match and gumbel and at temperature 0.
        draft_top, target_top: at most five likeliest tokens of either side, likeliest first.
        copied: whether the drafter proposed it outright, with q = 1 and no draw, as what it finds in the text; None in traces
            from before that was recorded.
        target_draw: what the target draws here with `shared` noise, whatever the rule; given the proposals before it, like p.
        coupled_draw: what the drafter draws here with `shared` noise, so what it proposes under gumbel.
        independent_draw: what it draws with the round's `draft` noise, so what it proposes under the other rules. The three are
            None without `analyse`, at temperature 0 and in older traces. But for that of the round's own proposals they are None
            behind the last place that judging the round again could come to (`engine.decode.recording.other_draws`).
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


@dataclass(frozen=True, slots=True)
class Emitted:
    """One token of the answer.

    Attributes:
        text: what this token adds to the answer. A token that ends inside a character adds nothing; the token that
            completes it carries the whole character, so the texts join to the answer.
        p: probability the target gave it; entropy: of the target's distribution, in nats. Both None without `analyse`.
        margin: gap between the target's two best scores (logits at temperature 0, perturbed scores under match and
            gumbel and in plain rounds), else None. Of perturbed scores 1 / temperature says that it is that or more.
        border: how far the target's logits would have to move against each other for the filters (top-p, min-p, top-k) to drop
            this token, in the units of logits. None without a filter, where nothing came within 1 of dropping it, without
            `analyse`, and in traces from before it was recorded.
        target_top: at most five likeliest tokens of the target where the token is a bonus or a plain one. Those of an accepted
            token or a correction stand in the proposal at the same place.
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
    """Closed-form acceptance probabilities of one judged position, whatever rule was in force."""

    match: float
    gumbel: float
    rejection: float


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Times of one round. The parts are None except in rounds evaluated in stages (`measured` is then True).

    Attributes:
        communication: of `verify`, what a target that is split over several ranks waited for the others' results; None for one
            that is not split.
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
    """What a drafter that looks its proposals up did for one round.

    Attributes:
        hits: what was found: places to copy from that were compared (n-gram), or tokens that the table knew (n-gram hashing).
        misses: lookups that found nothing.
        match: how many of the latest tokens agree with what is copied; 0 if nothing was found.
        entries: places (n-gram) or n-grams (n-gram hashing) that can be found.
        capacity: slots of the table, None where it grows with the text.
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
    """What an automatic gamma expected of drafting before a round, on this machine.

    Attributes:
        gamma: the length that pays most, whether it was chosen or not; 1 for copies.
        cost: how many times as long as a plain round a round of so many proposals takes.
        alpha: how likely a proposal is to be accepted by what is known; of copies, the first.
        needed: the alpha from which such a round is worth its time; 1 where none is.
        next_try: rounds without proposals before drafting is tried again, this one included; None where drafting is not parked.
        copies: whether proposals were at hand that cost nothing but their verification.
        drafter: whom this is about, where several could propose.
        skipped: why there are no proposals although nothing rests: `measured` is for the time of a plain round, `last` has room
            for one token only, and `reading`, in older traces only, reads the rest of the prompt, too.
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

    Attributes:
        index: 0 for the first round of the answer.
        position: absolute index, prompt included, of the first token this round emitted.
        drafter: name of the drafter in force, "none" in a run without one.
        rule: the rule in force.
        expected: one entry per judged position (accepted, then the rejected one); empty without `analyse`.
        rows: rows of the target's forward pass.
        cache_length: tokens in the target's cache after the round: all committed tokens but the newest.
        started: milliseconds from the end of reading the prompt to the start of this round.
        text: what the answer gained in this round. Differs from the joined texts of `emitted` only where stop texts
            are set: a possible beginning of one is held back, and the answer is cut before a complete one.
        finish: why the answer ended with this round, else None.
        drafter_statistics: of a drafter that keeps some, where it was asked in this round.
        outlook: what an automatic gamma weighed; None under a fixed one, before it knows, and in traces from before it was
            recorded.
        proposer: which one proposed, where several drafters take part; else None.
        queued: whether the round before had queued a plain pass for this one.
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

    @property
    def drafted_by(self) -> str:
        """Who proposed: the drafter in force, or the one of several that had its turn."""
        return self.proposer or self.drafter

    @property
    def accepted(self) -> int:
        """Proposals before the first rejected one. A stop may have cut their tokens from `emitted`; this count keeps them."""
        return sum(proposal.status == "accepted" for proposal in self.proposals)

    @property
    def rejected(self) -> int:
        """Proposals that were rejected: one, or none where all were accepted or nothing was proposed."""
        return sum(proposal.status == "rejected" for proposal in self.proposals)

    @property
    def unjudged(self) -> int:
        """Proposals after the rejected one, of which nothing was found out."""
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
        target: name or path as `engine.models.loading.load` knows it. drafter: name or path as `engine.values.drafter_kinds`
            knows it.
        conversation: requests with the same value may share a prompt cache.
        trace_path: where the trace goes; None writes it to the data folder.
        given: ids of the tokens the answer begins with, decided already; the first round goes on behind them.
        given_text: where no ids are given, the text the answer begins with; what it adds in tokens is added to `max_tokens`.
        template: False takes the last message's text for the prompt itself, without a chat template: the model goes on with it.
            So does a model that has no chat template.
        thinking: whether the model is to think first, where its chat template has a switch for that.
        overflow: what happens where the conversation is too long for the context.
        dropped: how many messages were left out for the answer before. They stay out as long as something has to, so that what is
            read of the others can be kept.
        kept: False for an answer of which no chat is to be made: a comparison's, a measurement's, or one that the user does not
            want kept. It is noted in the trace.
        only_measures: the answer is made for its speed alone. It ends as soon as the engine is asked for anything else, and no
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
    """What the window may know of a loaded target. Without a template it goes on with texts instead of answering messages.
    `switches_thinking`: whether its template lets thinking be turned on and off. `sampling`: what its publisher recommends, by
    the names of `DecodingOptions`; None where that is not known. `form`: how the weights of a GGUF file are kept, in words."""

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
    """What of a target's arithmetic decides the last bits of its logits on one device. None where it is not known.

    Attributes:
        logits: type of the logits: float32, float16 or bfloat16.
        prompt_chunk: tokens of a prompt that are read in one pass.
    """

    logits: str | None = None
    prompt_chunk: int | None = None


@cache
def option_names() -> tuple[str, ...]:
    """The fields of DecodingOptions in order, for tables and traces."""
    return tuple(option.name for option in fields(DecodingOptions))
