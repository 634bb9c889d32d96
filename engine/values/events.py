"""What the engine reports: events, frozen and made of plain values, each tagged with the run or task that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.answers import DecodingOptions, Finish, Gamma, ModelInfo, Round, Rule
from engine.values.requests.bench import BenchRow, BenchSetup
from engine.values.requests.compare import Sample
from engine.values.requests.prove import ProofReport
from engine.values.requests.train import HeldOut, Trained


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened to the answer that `Engine.submit` or `Engine.compare` gave this id."""

    run_id: int


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """Something that happened to the long task that the engine gave this id."""

    task_id: int


@dataclass(frozen=True, slots=True)
class LoadStarted:
    """A target begins to load; `name` is the name or path it was asked for by. `LoadFinished` or `LoadFailed` follows.

    A drafter has no such event: its `LoadProgress`, if it loads anything, ends with `DrafterReady` or `DrafterRefused`.
    """

    name: str


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """`fraction` is None while the length of the step is unknown."""

    name: str
    step: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class LoadFinished:
    """A target can be used, its checksum included. Where `Engine.load` asks for the current one, `seconds` is 0."""

    model: ModelInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The previous model, if any, is still usable; one that had to make room is loaded again when it is next asked for.

    `may_force`: only the memory was in the way, and `Engine.ignore_memory` lets it be tried anyway.
    """

    name: str
    message: str
    may_force: bool = False


@dataclass(frozen=True, slots=True)
class DrafterReady:
    """A drafter can be used with the loaded target; `has_distribution` is False for one-hot proposals.

    `warning` says what is to be known of it, and may be empty.
    """

    name: str
    has_distribution: bool
    warning: str = ""


@dataclass(frozen=True, slots=True)
class DrafterRefused:
    """A drafter does not fit the target or cannot be loaded; `message` gives the reason and says what to do.

    An answer under way goes on with the drafter it has; one that was to begin with this one fails. `may_force` is as in
    `LoadFailed`.
    """

    name: str
    message: str
    may_force: bool = False


@dataclass(frozen=True, slots=True)
class DrafterChecked:
    """Whether a model that is not loaded can draft for the target that is: `reason` says why not, and is empty if it can.

    `warning` says what is to be known if it can, and may be empty. `target` is the name the target was loaded by, `name` that of
    the model.
    """

    target: str
    name: str
    reason: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RunStarted(RunEvent):
    """An answer begins: its models are loaded and its trace is open. One that is stopped or fails before that has no such event.

    `drafter` is a name or path; `trace_path` is None where no trace can be written.
    """

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
    template: bool = True
    """Whether the prompt was written in the model's chat template; else the last message's text is the prompt as it stands."""
    in_thought: bool = False
    """Whether the prompt's end has opened a thought, in which the answer begins."""
    given_ids: tuple[int, ...] = ()
    """The tokens the answer begins with."""
    dropped: int = 0
    """How many of the oldest messages, not counting the system prompt, were left out because the context is too small."""


@dataclass(frozen=True, slots=True)
class PrefillProgress(RunEvent):
    """Sent before the first and after every chunk of the prompt: `done` of `total` tokens are read.

    Neither counts what a kept cache holds already, nor the last token, which the first round reads.
    """

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RoundFinished(RunEvent):
    """`seconds_to_first_token` is that of `RunFinished`, known from the first round on."""

    round: Round
    seconds_to_first_token: float | None = None


@dataclass(frozen=True, slots=True)
class RunChanged(RunEvent):
    """Rule, gamma or drafter took effect from round `index` on."""

    index: int
    rule: Rule
    gamma: Gamma
    drafter: str


@dataclass(frozen=True, slots=True)
class RunFinished(RunEvent):
    """`seconds_to_first_token` counts from submission, without the models that are loaded for the answer, and in a comparison
    without the turns of other answers; `prefill_seconds` is reading the prompt alone. `trace_error` says why the trace is
    incomplete, and `trace_path` is None then."""

    finish: Finish
    text: str
    tokens: int
    seconds: float
    prefill_seconds: float
    seconds_to_first_token: float | None
    trace_path: str | None
    trace_error: str | None = None


@dataclass(frozen=True, slots=True)
class RunFailed(RunEvent):
    """The answer so far stays valid; `message` says what the user can do. `may_drop`: the conversation is too long for the
    context, and would not be without its oldest turns."""

    message: str
    may_drop: bool = False


@dataclass(frozen=True, slots=True)
class PromptCounted:
    """How long a prompt is, as `Engine.count_prompt` was asked; see `engine.serving.prompt.Prompt`. Both are None where that is
    not known: no target is loaded, or its chat template refuses the messages.

    `limit`: how many tokens the target reads at most, the answer included.
    """

    count_id: int
    tokens: int | None
    limit: int | None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class TaskProgress(TaskEvent):
    """`fraction` is of the whole task, or of the stage under way where a task has stages."""

    step: str
    fraction: float


@dataclass(frozen=True, slots=True)
class TaskFinished(TaskEvent):
    """`report` is None if the task was stopped."""

    report: ProofReport | None


@dataclass(frozen=True, slots=True)
class BenchStarted(TaskEvent):
    """Everything is loaded. What a benchmark is made of is in `engine.values.requests.bench`."""

    setup: BenchSetup


@dataclass(frozen=True, slots=True)
class BenchMeasured(TaskEvent):
    """One setting, or the plain baseline, has answered all turns of one prompt at one temperature, in the order of `row.order`.

    The row of a setting waits for the plain run after it, with which it is compared as well.
    """

    row: BenchRow


@dataclass(frozen=True, slots=True)
class BenchSkipped(TaskEvent):
    """A prompt, or the rest of its turns, cannot be measured; `message` says which and why."""

    message: str


@dataclass(frozen=True, slots=True)
class BenchFinished(TaskEvent):
    """`complete` is False if the benchmark was stopped, or `out_of_time` as it was asked to be; its rows so far are sound.

    `process_peak_memory`: the most bytes that the process which measured has had in RAM; None where it does not say.
    """

    complete: bool
    out_of_time: bool = False
    process_peak_memory: int | None = None


@dataclass(frozen=True, slots=True)
class SampleTaken(TaskEvent):
    """What a sample is made of is in `engine.values.requests.compare`."""

    sample: Sample


@dataclass(frozen=True, slots=True)
class SamplingFinished(TaskEvent):
    """`complete` is False if it was stopped; the samples so far are sound."""

    complete: bool


@dataclass(frozen=True, slots=True)
class TrainingTold(TaskEvent):
    """Something a user may want to read again. What a training is made of is in `engine.values.requests.train`."""

    line: str


@dataclass(frozen=True, slots=True)
class TrainingMeasured(TaskEvent):
    """The head was measured on held-out text: before the first step, and then at even intervals of the training."""

    held_out: HeldOut


@dataclass(frozen=True, slots=True)
class TrainingFinished(TaskEvent):
    """`trained` is None if the training was stopped; the same request goes on with it."""

    trained: Trained | None


@dataclass(frozen=True, slots=True)
class TaskFailed(TaskEvent):
    """`message` says what the user can do."""

    message: str


TaskEnd = TaskFinished | BenchFinished | SamplingFinished | TrainingFinished | TaskFailed
"""The events that end a long task; exactly one of them does."""


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """Something failed outside an answer or task: starting the engine, closing it, or serving a request in a way nobody foresaw.

    `message` is a sentence for the user. Whoever waits for an end (`RunFailed`, `TaskFailed`, `LoadFailed`) gets that as well.
    """

    message: str


@dataclass(frozen=True, slots=True)
class ModelsUnloaded:
    """The models that were loaded are gone with their process; the end of whatever was under way follows, or `EngineFailed`."""


Event = (
    LoadStarted
    | LoadProgress
    | LoadFinished
    | LoadFailed
    | DrafterReady
    | DrafterRefused
    | DrafterChecked
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
    | PromptCounted
    | ModelsUnloaded
    | EngineFailed
)


def number_of(event: Event) -> int | None:
    """The id of the answer or task that an event belongs to; None of any other event."""
    match event:
        case RunEvent(number) | TaskEvent(number):
            return number
        case _:
            return None
