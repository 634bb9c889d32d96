"""Events that the engine reports: frozen plain values, each tagged with the run or task that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.values.answers import DecodingOptions, Finish, Gamma, ModelInfo, Round, Rule
from engine.values.requests.bench import BenchRow, BenchSetup
from engine.values.requests.compare import Sample
from engine.values.requests.prove import ProofReport
from engine.values.requests.train import HeldOut, Trained


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of the answer that `Engine.submit` or `Engine.compare` gave this id."""

    run_id: int


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event of the long task that the engine gave this id."""

    task_id: int


@dataclass(frozen=True, slots=True)
class LoadStarted:
    """A target begins to load; `name` is the requested name or path. `LoadFinished` or `LoadFailed` follows.

    A drafter has no such event: its `LoadProgress`, if it loads anything, ends with `DrafterReady` or `DrafterRefused`.
    """

    name: str


LOADING = "loading the model"
"""The step of loading that has no more to tell than that."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A step of loading a model goes on.

    Attributes:
        fraction: None while the length of the step is unknown.
        is_download: whether files are being downloaded; `step` then names what.
    """

    name: str
    step: str
    fraction: float | None = None
    is_download: bool = False


class ReportStep(Protocol):
    """A function that reports a step of loading; it may raise to interrupt the loading."""

    def __call__(self, step: str, fraction: float | None, is_download: bool = False, /) -> None:
        """Takes what `LoadProgress` has."""


@dataclass(frozen=True, slots=True)
class LoadFinished:
    """A target is ready, its checksum included. If `Engine.load` asks for the current one, `seconds` is 0."""

    model: ModelInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """A target could not be loaded. The previous model, if any, is still usable; one that was unloaded to make room is loaded
    again when next requested.

    `may_force`: memory was the only obstacle, and `Engine.ignore_memory` allows another try.
    """

    name: str
    message: str
    may_force: bool = False


@dataclass(frozen=True, slots=True)
class DrafterReady:
    """A drafter can be used with the loaded target; `has_distribution` is False for one-hot proposals.

    `warning` is a hint for the user, and may be empty.
    """

    name: str
    has_distribution: bool
    warning: str = ""


@dataclass(frozen=True, slots=True)
class DrafterRefused:
    """A drafter does not fit the target or cannot be loaded; `message` gives the reason and says what to do.

    An answer under way goes on with its current drafter; one that was to begin with this drafter fails. `may_force` is as in
    `LoadFailed`.
    """

    name: str
    message: str
    may_force: bool = False


@dataclass(frozen=True, slots=True)
class DrafterChecked:
    """Result of a check whether an unloaded model can draft for the loaded target: `reason` says why not, and is empty if it can.

    `warning` is a hint for the user if it can, and may be empty. `target` is the name by which the target was loaded, `name` that
    of the model.
    """

    target: str
    name: str
    reason: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RunStarted(RunEvent):
    """An answer begins: its models are loaded and its trace is open. An answer that stops or fails before that has no such event.

    `drafter` is a name or path; `trace_path` is None where no trace can be written.
    """

    options: DecodingOptions
    """The options in force, including the drawn seed."""
    prompt_tokens: int
    """Tokens to read before the first round, given ones included."""
    drafter: str
    trace_path: str | None
    given: str = ""
    """The text the answer begins with."""
    logits: str | None = None
    """Type of the target's logits, as in `Numerics`."""
    template: bool = True
    """Whether the prompt uses the model's chat template; else the last message's text is the prompt."""
    in_thought: bool = False
    """Whether the prompt ends inside a thought, so that the answer begins there."""
    given_ids: tuple[int, ...] = ()
    """The tokens the answer begins with."""
    dropped: int = 0
    """Number of oldest messages, not counting the system prompt, that were left out because the context is too small."""
    chains: str = ""
    """Why chains are drafted although the budget for trees is a number, as a sentence; empty otherwise."""


@dataclass(frozen=True, slots=True)
class PrefillProgress(RunEvent):
    """Progress of reading the prompt, sent before the first and after every chunk: `done` of `total` tokens are read.

    Neither counts the tokens in a reused cache, nor the last token, which the first round reads.
    """

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RoundFinished(RunEvent):
    """A round is complete. `seconds_to_first_token` is that of `RunFinished`, known from the first round on."""

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
    """An answer is complete. `seconds_to_first_token` counts from submission, without loading models for the answer, and in a
    comparison without the turns of other answers; `prefill_seconds` is reading the prompt alone. `trace_error` says why the trace
    is incomplete, and `trace_path` is None then."""

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
    """An answer failed. The answer so far stays valid; `message` says what the user can do. `may_drop`: the conversation is too
    long for the context, and would fit without its oldest turns. `refused`: the model that could not be loaded for it."""

    message: str
    may_drop: bool = False
    refused: LoadFailed | DrafterRefused | None = None


@dataclass(frozen=True, slots=True)
class PromptCounted:
    """Length of a prompt, the reply to `Engine.count_prompt`; see `engine.serving.prompt.Prompt`. `tokens` and `limit` are None
    if they are unknown: no target is loaded, or its chat template refuses the messages.

    `limit`: the target's maximum number of tokens, the answer included.
    """

    count_id: int
    tokens: int | None
    limit: int | None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class TaskProgress(TaskEvent):
    """Progress of a long task.

    Attributes:
        fraction: of the whole task, or of the current stage if the task has stages.
        detail: figures of the step, which change while it goes on; empty if there are none.
    """

    step: str
    fraction: float
    detail: str = ""

    @property
    def words(self) -> str:
        """Step and detail."""
        return ", ".join(filter(None, (self.step, self.detail)))


@dataclass(frozen=True, slots=True)
class TaskFinished(TaskEvent):
    """A proof ended; `report` is None if it was stopped."""

    report: ProofReport | None


@dataclass(frozen=True, slots=True)
class BenchStarted(TaskEvent):
    """Everything for a benchmark is loaded. `engine.values.requests.bench` has the values of a benchmark."""

    setup: BenchSetup


@dataclass(frozen=True, slots=True)
class BenchMeasured(TaskEvent):
    """One setting, or the plain baseline, has answered all turns of one prompt at one temperature, in the order of `row.order`.

    A setting's row is sent after the plain run that follows it, because it is also compared with that run.
    """

    row: BenchRow


@dataclass(frozen=True, slots=True)
class BenchSkipped(TaskEvent):
    """A prompt, or the rest of its turns, cannot be measured; `message` says which and why."""

    message: str


@dataclass(frozen=True, slots=True)
class BenchFinished(TaskEvent):
    """A benchmark ended. `complete` is False if it was stopped, or reached its time limit (`out_of_time`); its rows so far are
    valid.

    `process_peak_memory`: peak resident memory of the measuring process in bytes; None if unknown.
    """

    complete: bool
    out_of_time: bool = False
    process_peak_memory: int | None = None


@dataclass(frozen=True, slots=True)
class SampleTaken(TaskEvent):
    """A sample is complete; see `engine.values.requests.compare`."""

    sample: Sample


@dataclass(frozen=True, slots=True)
class SamplingFinished(TaskEvent):
    """Sampling ended. `complete` is False if it was stopped; the samples so far are valid."""

    complete: bool


@dataclass(frozen=True, slots=True)
class TrainingTold(TaskEvent):
    """A log line of a training that a user may want to read again. `engine.values.requests.train` has the values of a
    training."""

    line: str


@dataclass(frozen=True, slots=True)
class TrainingMeasured(TaskEvent):
    """The drafter was measured on held-out text: before the first step, and then at even intervals of the training."""

    held_out: HeldOut


@dataclass(frozen=True, slots=True)
class TrainingFinished(TaskEvent):
    """A training ended. `trained` is None if it was stopped; the same request resumes it."""

    trained: Trained | None


@dataclass(frozen=True, slots=True)
class TaskFailed(TaskEvent):
    """A long task failed. `message` says what the user can do."""

    message: str


TaskEnd = TaskFinished | BenchFinished | SamplingFinished | TrainingFinished | TaskFailed
"""The events that end a long task; each task gets exactly one."""


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """A failure outside an answer or task: starting the engine, closing it, or an unforeseen error while serving a request.

    `message` is a sentence for the user. A pending answer, task or load also gets its own `RunFailed`, `TaskFailed` or
    `LoadFailed`.
    """

    message: str


@dataclass(frozen=True, slots=True)
class ModelsUnloaded:
    """The loaded models were lost with their process; the end of the answer or task under way follows, or `EngineFailed`."""


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
    """Returns the id of the answer or task that an event belongs to; None for any other event."""
    match event:
        case RunEvent(number) | TaskEvent(number):
            return number
        case _:
            return None
