"""Replays a trace: the playing position, and a conversation that grows from the recorded rounds as if they were new. No widgets.

Rounds go through `Session.apply` like those of a live answer, so every view shows the same.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal, get_args

from app.replay.phases import PHASES, Phase
from app.session.session import Answer, Session, Turn
from engine.exports.tables import options_of, prompt_tokens
from engine.files import foreign
from engine.lens.thoughts import opens_thought
from engine.rounds.trace import Trace
from engine.types import (
    FINISHES,
    RANGES,
    RULES,
    DecodingOptions,
    PrefillProgress,
    Round,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import is_number, is_whole

Timing = Literal["recorded", "even", "phases"]
TIMINGS: tuple[Timing, ...] = get_args(Timing)
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
EVEN_SECONDS = 0.5
"""Seconds per round under even timing at speed 1: long enough to read it."""
SNAPSHOT_INTERVAL = 1000
"""Number of rounds between snapshots of a long answer, from which it can be rebuilt after a step back."""
REPLAY_RUN = -1
"""A run id that the engine never uses."""


class Player:
    """The number of shown rounds, and when the next ones are due. Time is passed in, so nothing here waits.

    Attributes:
        shown: number of shown rounds, 0 to `count`.
        is_playing: whether `advance` shows further rounds.
        speed: factor on time. timing: recorded times, the same time for each round, or slow motion, which only steps.
        phase: in slow motion, the phase at which it stops: "commit" of the newest shown round, or an earlier one of the next.
    """

    def __init__(self, rounds: Sequence[Round]) -> None:
        ends = ((round_.started + round_.milliseconds.total) / 1000 for round_ in rounds)
        self._ends: dict[Timing, list[float]] = {
            "recorded": list(accumulate(ends, max)),
            "even": [EVEN_SECONDS * (index + 1) for index in range(len(rounds))],
        }
        self._ends["phases"] = self._ends["even"]
        self.count = len(rounds)
        self.shown = 0
        self.is_playing = False
        self.speed = 1.0
        self.timing: Timing = "recorded"
        self.phase: Phase = "commit"
        self._clock = self._end_of(self.shown)

    @property
    def seconds(self) -> float:
        """Time in the recording, in seconds, at which the newest shown round ended."""
        return self._ends["recorded"][self.shown - 1] if self.shown else 0.0

    @property
    def total_seconds(self) -> float:
        """Length of the recording in seconds, at any speed; 0 without rounds."""
        return self._ends["recorded"][-1] if self.count else 0.0

    @property
    def is_at_end(self) -> bool:
        """Whether every round is shown, so that Play would restart."""
        return self.shown >= self.count

    @property
    def staged(self) -> int | None:
        """The index of the round whose phase is shown in slow motion; None before the first."""
        staged = self.shown - (self.phase == "commit")
        return staged if self.timing == "phases" and staged >= 0 else None

    def play(self) -> None:
        """Plays on, from the start if the end is shown. Slow motion goes to the next phase."""
        if self.timing == "phases":
            self.step(1)
            return
        if self.is_at_end:
            self.go_to(0)
        self.is_playing = self.count > 0

    def pause(self) -> None:
        """Pauses at the shown round; `play` continues from there."""
        self.is_playing = False

    def go_to(self, shown: int) -> None:
        """Shows a number of rounds, limited to those there are."""
        self.shown, self.phase = max(0, min(self.count, shown)), "commit"
        self._clock = self._end_of(self.shown)

    def step(self, steps: int) -> None:
        """Pauses and moves by a number of rounds, possibly negative; in slow motion by phases."""
        self.pause()
        if self.timing != "phases":
            self.go_to(self.shown + steps)
            return
        done = len(PHASES) * self.shown + (PHASES.index(self.phase) + 1) % len(PHASES) + steps
        shown, phases = divmod(max(0, min(len(PHASES) * self.count, done)), len(PHASES))
        self.go_to(shown)
        self.phase = PHASES[phases - 1]

    def set_timing(self, timing: Timing) -> None:
        """Sets the timing, continuing from the same round; slow motion pauses."""
        self.timing, self.phase = timing, "commit"
        if timing == "phases":
            self.pause()
        self._clock = self._end_of(self.shown)

    def advance(self, seconds: float) -> bool:
        """Advances the time; returns whether further rounds are shown. Pauses at the end."""
        if not self.is_playing:
            return False
        self._clock += seconds * self.speed
        before, self.shown = self.shown, max(self.shown, bisect_right(self._ends[self.timing], self._clock))
        if self.is_at_end:
            self.is_playing = False
        return self.shown != before

    def _end_of(self, shown: int) -> float:
        return self._ends[self.timing][shown - 1] if shown else 0.0


class Replay:
    """A trace as a separate conversation that grows and shrinks by rounds.

    Attributes:
        turns: the shown turns: the conversation before the answer, as far as the trace has it, and the answer last.
        shown: number of rounds that the answer has.
    """

    def __init__(self, session: Session, trace: Trace) -> None:
        self.trace = trace
        self._session = session
        self._prompt, history = _conversation(trace)
        self._options = options_of(trace)
        self._changes = [change for entry in trace.changes if (change := _change(entry)) is not None]
        self.turns = [*history, Turn(self._prompt, self._new_answer())]
        self.shown = 0
        self._snapshots: dict[int, Answer] = {}
        self._takes_snapshots = False

    @property
    def answer(self) -> Answer:
        """The replayed answer, up to the shown round."""
        return self.turns[-1].answer

    def show(self, shown: int) -> None:
        """Grows or shrinks the answer to `shown` rounds; the session must be showing these turns.

        A step back replaces the answer and regrows it: from empty the first time, later from the nearest snapshot.
        """
        if shown < self.shown:
            self._takes_snapshots = True
            self.shown = max((count for count in self._snapshots if count <= shown), default=0)
            self.turns[-1] = Turn(self._prompt, _copy_answer(self._snapshots[self.shown]) if self.shown else self._new_answer())
        if not self.answer.rules:
            prompt_ids, path = prompt_tokens(self.trace), str(self.trace.path)
            prompt = self.trace.part("prompt")
            self._session.apply(
                RunStarted(
                    REPLAY_RUN,
                    self._options,
                    prompt_ids,
                    self._drafter(),
                    path,
                    self.trace.given_text,
                    foreign.text(self.trace.part("target").get("logits")) or None,
                    in_thought=opens_thought(foreign.text(prompt.get("text"))),
                    dropped=foreign.whole(prompt.get("dropped")) or 0,
                )
            )
            self._session.apply(PrefillProgress(REPLAY_RUN, prompt_ids, prompt_ids))
        next_change = len([change for change in self._changes if change.index < self.shown])
        for round_ in self.trace.rounds[self.shown : shown]:
            while next_change < len(self._changes) and self._changes[next_change].index <= round_.index:
                self._session.apply(self._changes[next_change])
                next_change += 1
            self._session.apply(RoundFinished(REPLAY_RUN, round_, self._first_token()))
            count = round_.index + 1
            if self._takes_snapshots and count % SNAPSHOT_INTERVAL == 0 and count not in self._snapshots:
                self._snapshots[count] = _copy_answer(self.answer)
        self.shown = min(shown, len(self.trace.rounds))
        if self.shown == len(self.trace.rounds):
            self._end()

    def _end(self) -> None:
        """Ends the answer as recorded; an incomplete one just stops growing."""
        summary = self.trace.summary or {}
        finish, error = summary.get("finish"), summary.get("error")
        if isinstance(error, str):
            self._session.apply(RunFailed(REPLAY_RUN, error))
        elif finish in FINISHES:
            figures = self.answer.tally.summary
            self._session.apply(
                RunFinished(
                    run_id=REPLAY_RUN,
                    finish=finish,
                    text=self.answer.text.text,
                    tokens=figures.emitted,
                    seconds=figures.seconds,
                    prefill_seconds=_number(summary.get("prefill_seconds")) or 0.0,
                    seconds_to_first_token=self._first_token(),
                    trace_path=str(self.trace.path),
                )
            )
        else:
            self.answer.state = "finished"

    def _new_answer(self) -> Answer:
        model = foreign.text(self.trace.part("target").get("name")) or "Answer"
        answer = Answer(options=self._options, drafter=self._drafter(), submitted=0.0, model=model)
        answer.run_id = REPLAY_RUN
        answer.shows_thought = False
        return answer

    def _first_token(self) -> float | None:
        return _number((self.trace.summary or {}).get("seconds_to_first_token"))

    def _drafter(self) -> str:
        used = next((round.drafter for round in self.trace.rounds), NO_DRAFTER)
        return foreign.text(self.trace.part("drafter").get("name")) or used


def _conversation(trace: Trace) -> tuple[str, list[Turn]]:
    """Returns the last prompt and the turns before it. System messages are not turns."""
    turns: list[Turn] = []
    prompt: str | None = None
    for role, text in trace.messages:
        if role == "user":
            prompt = text
        elif role == "assistant" and prompt is not None:
            turns.append(Turn(prompt, _earlier_answer(text)))
            prompt = None
    return prompt or "", turns


def _copy_answer(answer: Answer) -> Answer:
    """Copies an answer so that both can grow independently. Immutable pieces and rounds are shared."""
    text = copy.copy(answer.text)
    for name, value in vars(answer.text).items():
        setattr(text, name, copy.copy(value))
    return replace(
        answer,
        text=text,
        tally=copy.deepcopy(answer.tally),
        rounds=list(answer.rounds),
        changes=list(answer.changes),
        rules=list(answer.rules),
    )


def _earlier_answer(text: str) -> Answer:
    """Returns an answer of which only the text is known."""
    answer = Answer(options=DecodingOptions(), drafter=NO_DRAFTER, submitted=0.0, model="Earlier answer", state="finished")
    answer.text.begin(text)
    return answer


def _change(entry: dict[str, Any]) -> RunChanged | None:
    index, rule, gamma, drafter = (entry.get(name) for name in ("index", "rule", "gamma", "drafter"))
    if not isinstance(index, int) or rule not in RULES or not isinstance(drafter, str):
        return None
    if gamma == "auto" or (is_whole(gamma) and RANGES["gamma"].holds(gamma)):
        return RunChanged(REPLAY_RUN, index, rule, gamma, drafter)
    return None


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None
