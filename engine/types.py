"""The plain values that cross every boundary: options, rounds, requests and events.

Nothing here imports MLX or Qt, and no field ever holds an array: a value of this module can be passed between threads,
written to a trace and compared with ``==``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from engine.drafter_kinds import NO_DRAFTER

if TYPE_CHECKING:
    from engine.bench.values import BenchRow, BenchSetup
    from engine.compare import Sample
    from engine.training.request import HeldOut, Trained

Rule = Literal["match", "rejection", "gumbel", "block"]
Status = Literal["accepted", "rejected", "unjudged"]
Origin = Literal["accepted", "correction", "bonus", "plain"]
Finish = Literal["eos", "stop", "length", "context", "cancelled"]

RULES: tuple[Rule, ...] = ("match", "rejection", "gumbel", "block")
STATUSES: tuple[Status, ...] = ("accepted", "rejected", "unjudged")
ORIGINS: tuple[Origin, ...] = ("accepted", "correction", "bonus", "plain")
MAX_GAMMA = 64
SEED_LIMIT = 2**53
"""Seeds are below this bound, so that JSON readers which know only doubles keep them exact."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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
    gamma: int | Literal["auto"] = 2
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    analyse: bool = True
    phase_every: int = 16

    def __post_init__(self) -> None:
        if isinstance(self.stop, list):
            object.__setattr__(self, "stop", tuple(self.stop))
        _check(self.rule in RULES, "rule", f"one of {', '.join(RULES)}", self.rule)
        _check(_is_number(self.temperature) and self.temperature >= 0, "temperature", "a number of at least 0", self.temperature)
        _check(_is_number(self.top_p) and 0 <= self.top_p <= 1, "top_p", "a number from 0 to 1", self.top_p)
        _check(_is_whole(self.top_k) and self.top_k >= 0, "top_k", "a whole number of at least 0", self.top_k)
        _check(_is_number(self.min_p) and 0 <= self.min_p <= 1, "min_p", "a number from 0 to 1", self.min_p)
        _check(
            _is_number(self.repetition_penalty) and self.repetition_penalty > 0,
            "repetition_penalty",
            "a number above 0",
            self.repetition_penalty,
        )
        _check(
            _is_whole(self.repetition_context) and self.repetition_context >= 0,
            "repetition_context",
            "a whole number of at least 0",
            self.repetition_context,
        )
        _check(
            self.seed is None or (_is_whole(self.seed) and 0 <= self.seed < SEED_LIMIT),
            "seed",
            "None or a whole number from 0 to 2^53 - 1",
            self.seed,
        )
        _check(
            self.gamma == "auto" or (_is_whole(self.gamma) and 1 <= self.gamma <= MAX_GAMMA),
            "gamma",
            f'a whole number from 1 to {MAX_GAMMA}, or "auto"',
            self.gamma,
        )
        _check(_is_whole(self.max_tokens) and self.max_tokens >= 1, "max_tokens", "a whole number of at least 1", self.max_tokens)
        _check(
            isinstance(self.stop, tuple) and all(isinstance(text, str) and text for text in self.stop),
            "stop",
            "a list of non-empty texts",
            self.stop,
        )
        _check(isinstance(self.analyse, bool), "analyse", "True or False", self.analyse)
        _check(
            _is_whole(self.phase_every) and self.phase_every >= 0, "phase_every", "a whole number of at least 0", self.phase_every
        )

    def replace(self, **changes: Any) -> DecodingOptions:
        """A copy with other values, validated like any other."""
        return replace(self, **changes)


def _check(holds: bool, name: str, wanted: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the likeliest tokens of a distribution."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """One drafted token of a round and what became of it.

    Attributes:
        id: token id of the target's vocabulary.
        text: the token alone, undecodable bytes replaced; `bytes` is exact.
        status: accepted, rejected, or unjudged (it stood after the rejected one).
        q: probability the drafter gave it; None without `analyse`.
        p: probability the target gave it, None for unjudged ones: it would be conditional on a text that was not kept, and their
            alternatives are left out too. At temperature 0 both are the
            unfiltered probabilities at temperature 1, which say more than 0 and 1.
        acceptance: probability that the rule in force accepts here, given the context (and under `block` the block).
        coin: the uniform number that was compared, under rejection and block.
        draft_argmax, target_argmax: the two draws that were compared, under match and gumbel and at temperature 0.
        draft_top, target_top: at most five likeliest tokens of either side, likeliest first.
        copied: whether the drafter proposed it outright, with q = 1 and no draw, as what it finds in the text; None in traces
            from before that was recorded.
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


@dataclass(frozen=True, slots=True)
class Emitted:
    """One token of the answer.

    Attributes:
        text: what this token adds to the answer. A token that ends inside a character adds nothing; the token that
            completes it carries the whole character, so the texts join to the answer.
        p: probability the target gave it; entropy: of the target's distribution, in nats. Both None without `analyse`.
        margin: gap between the target's two best scores (logits at temperature 0, perturbed scores under match and
            gumbel and in plain rounds), else None.
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
    """Times of one round. The parts are None except in rounds evaluated in stages (`measured` is then True)."""

    total: float
    draft: float | None = None
    verify: float | None = None
    judge: float | None = None
    other: float | None = None

    @property
    def measured(self) -> bool:
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

    @property
    def accepted(self) -> int:
        return sum(proposal.status == "accepted" for proposal in self.proposals)

    @property
    def rejected(self) -> int:
        return sum(proposal.status == "rejected" for proposal in self.proposals)

    @property
    def unjudged(self) -> int:
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
        target: name or path as `engine.models.load` knows it. drafter: name or path as `engine.drafter_kinds` knows it.
        conversation: requests with the same value may share a prompt cache.
        trace_path: where the trace goes; None writes it to the data folder.
        given: ids of the tokens the answer begins with, decided already; the first round goes on behind them.
        template: False takes the last message's text for the prompt itself, without a chat template: the model goes on with it.
    """

    messages: tuple[Message, ...]
    options: DecodingOptions = field(default_factory=DecodingOptions)
    target: str = "builtin"
    drafter: str = NO_DRAFTER
    conversation: str = ""
    trace_path: str | None = None
    given: tuple[int, ...] = ()
    template: bool = True


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the window may know of a loaded target."""

    name: str
    path: str
    sha256: str
    context_length: int
    vocabulary_size: int


@dataclass(frozen=True, slots=True)
class Numerics:
    """What of a target's arithmetic decides the last bits of its logits on one device. None where it is not known.

    Attributes:
        logits: type of the logits: float32, float16 or bfloat16.
        prompt_chunk: tokens of a prompt that are read in one pass.
    """

    logits: str | None = None
    prompt_chunk: int | None = None


Effort = Literal["quick", "default", "thorough"]
Plant = Literal["shared-noise", "residual-from-p", "stale-noise", "unfiltered-q", "dropped-draw"]
EFFORTS: tuple[Effort, ...] = ("quick", "default", "thorough")
PLANTS: tuple[Plant, ...] = ("shared-noise", "residual-from-p", "stale-noise", "unfiltered-q", "dropped-draw")
"""Defects that `prove` can plant on purpose, to show that it notices them; `engine.proof.plants` tells what each is."""


@dataclass(frozen=True, slots=True)
class ProveRequest:
    """Checks of exactness to run on a pair.

    Attributes:
        drafter: None is the built-in draft model, or prompt lookup where that does not fit.
        seed: every draw of the checks follows from it.
        plant: a defect to plant on purpose.
    """

    target: str = "builtin"
    drafter: str | None = None
    seed: int = 0
    effort: Effort = "default"
    plant: Plant | None = None

    def __post_init__(self) -> None:
        _check(_is_whole(self.seed) and 0 <= self.seed < SEED_LIMIT, "seed", "a whole number from 0 to 2^53 - 1", self.seed)
        _check(self.effort in EFFORTS, "effort", f"one of {', '.join(EFFORTS)}", self.effort)
        _check(self.plant is None or self.plant in PLANTS, "plant", f"one of {', '.join(PLANTS)}", self.plant)


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """One thing that was checked.

    Attributes:
        name: what was compared with what.
        rule: under which rule, "plain" without proposals, "" where no rule is involved.
        setting: the options and positions it was checked at.
        samples: draws, decodes, tokens or values that were compared.
        statistic, freedom, p_value: of the chi-square test; None where equality was checked.
        notices: the smallest deviation that would have failed with 99 % probability: `of` says of what. None if unknown.
        detail: what was measured, in words.
    """

    name: str
    rule: str
    setting: str
    samples: int
    passed: bool
    statistic: float | None = None
    freedom: int | None = None
    p_value: float | None = None
    notices: float | None = None
    of: Literal["total variation", "acceptance rate", "accepted count", ""] = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ProofReport:
    """What `prove` found.

    Attributes:
        note: why the drafter is not the one that was meant, else "".
        false_alarm: probability that a sound engine fails any of the statistical checks.
        level: the p-value below which one of them fails.
        seconds: without loading.
    """

    target: ModelInfo
    drafter: str
    note: str
    seed: int
    effort: Effort
    plant: Plant | None
    device: str
    false_alarm: float
    level: float
    checks: tuple[ProofCheck, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


# Events: what the engine thread reports. Each belongs to a run (`run_id`), to a task (`task_id`) or to the engine (`LoadX`,
# `EngineFailed`).


@dataclass(frozen=True, slots=True)
class LoadStarted:
    name: str


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """`fraction` is None while the length of the step is unknown."""

    name: str
    step: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class LoadFinished:
    model: ModelInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The previous model, if any, is still usable."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class DrafterReady:
    """A drafter can be used with the loaded target; `has_distribution` is False for one-hot proposals."""

    name: str
    has_distribution: bool


@dataclass(frozen=True, slots=True)
class DrafterRefused:
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class RunStarted:
    run_id: int
    options: DecodingOptions
    """The options in force, the drawn seed among them."""
    prompt_tokens: int
    """Tokens to read before the first round, given ones included."""
    drafter: str
    trace_path: str | None
    given: str = ""
    """The text the answer begins with."""
    logits: str | None = None
    """Type of the target's logits, as in `Numerics`."""


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    run_id: int
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """`seconds_to_first_token` is that of `RunFinished`, known from the first round on."""

    run_id: int
    round: Round
    seconds_to_first_token: float | None = None


@dataclass(frozen=True, slots=True)
class RunChanged:
    """Rule, gamma or drafter took effect from round `index` on."""

    run_id: int
    index: int
    rule: Rule
    gamma: int | Literal["auto"]
    drafter: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """`seconds_to_first_token` counts from submission, in a comparison without the turns of other answers and without loading;
    `prefill_seconds` is reading the prompt alone. `trace_error` says why the trace is incomplete, and `trace_path` is None
    then."""

    run_id: int
    finish: Finish
    text: str
    tokens: int
    seconds: float
    prefill_seconds: float
    seconds_to_first_token: float | None
    trace_path: str | None
    trace_error: str | None = None


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The answer so far stays valid; `message` says what the user can do."""

    run_id: int
    message: str


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """`fraction` is of the whole task, or of the stage under way where a task has stages."""

    task_id: int
    step: str
    fraction: float


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """`report` is None if the task was stopped."""

    task_id: int
    report: ProofReport | None


@dataclass(frozen=True, slots=True)
class BenchStarted:
    """Everything is loaded. What a benchmark is made of is in `engine.bench.values`."""

    task_id: int
    setup: BenchSetup


@dataclass(frozen=True, slots=True)
class BenchMeasured:
    task_id: int
    row: BenchRow


@dataclass(frozen=True, slots=True)
class BenchSkipped:
    """A prompt, or the rest of its turns, cannot be measured; `message` says which and why."""

    task_id: int
    message: str


@dataclass(frozen=True, slots=True)
class BenchFinished:
    """`complete` is False if the benchmark was stopped; its rows so far are sound."""

    task_id: int
    complete: bool


@dataclass(frozen=True, slots=True)
class SampleTaken:
    """What a sample is made of is in `engine.compare`."""

    task_id: int
    sample: Sample


@dataclass(frozen=True, slots=True)
class SamplingFinished:
    """`complete` is False if it was stopped; the samples so far are sound."""

    task_id: int
    complete: bool


@dataclass(frozen=True, slots=True)
class TrainingTold:
    """Something a user may want to read again. What a training is made of is in `engine.training.request`."""

    task_id: int
    line: str


@dataclass(frozen=True, slots=True)
class TrainingMeasured:
    task_id: int
    held_out: HeldOut


@dataclass(frozen=True, slots=True)
class TrainingFinished:
    """`trained` is None if the training was stopped; the same request goes on with it."""

    task_id: int
    trained: Trained | None


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """`message` says what the user can do."""

    task_id: int
    message: str


TaskEnd = TaskFinished | BenchFinished | SamplingFinished | TrainingFinished | TaskFailed
"""The events that end a long task; exactly one of them does."""


@dataclass(frozen=True, slots=True)
class EngineFailed:
    message: str


Event = (
    LoadStarted
    | LoadProgress
    | LoadFinished
    | LoadFailed
    | DrafterReady
    | DrafterRefused
    | RunStarted
    | PrefillProgress
    | RoundFinished
    | RunChanged
    | RunFinished
    | RunFailed
    | TaskProgress
    | BenchStarted
    | BenchMeasured
    | BenchSkipped
    | SampleTaken
    | TrainingTold
    | TrainingMeasured
    | TaskEnd
    | EngineFailed
)


def option_names() -> tuple[str, ...]:
    """The fields of DecodingOptions in order, for tables and traces."""
    return tuple(option.name for option in fields(DecodingOptions))
