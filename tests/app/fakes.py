"""A fake engine that computes nothing: it emits scripted events, one batch for each poll."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.runtime.interface import EngineLike
from engine.types import (
    Candidate,
    DrafterChecked,
    DrafterReady,
    Emitted,
    Event,
    Expected,
    Finish,
    LoadFinished,
    LoadStarted,
    Milliseconds,
    ModelInfo,
    Origin,
    PrefillProgress,
    PromptCounted,
    Proposal,
    Request,
    Round,
    RoundFinished,
    Rule,
    RunChanged,
    RunFinished,
    RunStarted,
    Status,
)
from engine.values.requests.bench import BenchRequest
from engine.values.requests.commands import CheckDrafter, Command, CountPrompt, IgnoreMemory, Load, Perform, Stop, Submit, Update

MODEL = ModelInfo("SmolLM2-135M-Instruct", "builtin", "0" * 64, 8192, 49152)
STORY = (
    "The last lamp on the point had burned for forty years before Ines found the bottle, wedged between two rocks below "
    "the shore path. The cork had gone soft, and inside a sheet of paper curled like a leaf. It said, in her own "
    "handwriting, do not light it tonight."
)
GUESSES = (" been", " sea", " lit", " wall", ".", " shell", " that", " she", "\n", " old")


def tokens_of(text: str) -> list[str]:
    """Words with the blank before them, line breaks by themselves."""
    tokens: list[str] = []
    for character in text:
        if not tokens or character in " \n" or tokens[-1].endswith("\n"):
            tokens.append(character)
        else:
            tokens[-1] += character
    return tokens


def proposal(text: str, status: Status, identity: int = 7) -> Proposal:
    top = (Candidate(identity, text, 0.4),)
    return Proposal(
        identity,
        text,
        text.encode(),
        status,
        q=0.4,
        p=0.3,
        acceptance=0.5,
        draft_argmax=identity,
        target_argmax=9,
        draft_top=top,
        target_top=top,
    )


def emitted(text: str, origin: Origin) -> Emitted:
    return Emitted(9, text, text.encode(), origin, p=0.5, entropy=1.0, margin=0.2)


def make_round(
    index: int,
    accepted: Sequence[str],
    last: str,
    ghosts: Sequence[str] = (),
    *,
    rule: Rule = "gumbel",
    drafter: str = "head",
    position: int = 40,
    started: float = 0.0,
    total: float = 60.0,
    staged: bool = False,
    finish: Finish | None = None,
    text: str | None = None,
) -> Round:
    """A round that accepted these tokens, left these ghosts, and ended with one token more."""
    proposals = [proposal(word, "accepted") for word in accepted]
    proposals += [proposal(word, "rejected" if place == 0 else "unjudged") for place, word in enumerate(ghosts)]
    origin: Origin = "correction" if ghosts else "bonus" if accepted else "plain"
    out = [emitted(word, "accepted") for word in accepted] + [emitted(last, origin)]
    judged = len(accepted) + bool(ghosts)
    parts = (0.2 * total, 0.7 * total, 0.03 * total, 0.07 * total) if staged else (None, None, None, None)
    return Round(
        index=index,
        position=position,
        drafter=drafter,
        rule=rule,
        proposals=tuple(proposals),
        emitted=tuple(out),
        expected=tuple(Expected(0.45 + 0.05 * (index % 3), 0.6 + 0.04 * (index % 4), 0.7) for _ in range(judged)),
        milliseconds=Milliseconds(total, *parts),
        rows=len(proposals) + 1,
        cache_length=position + len(out) - 1,
        started=started,
        text="".join(token.text for token in out) if text is None else text,
        finish=finish,
    )


def story_rounds(text: str = STORY, gamma: int = 4, rule: Rule = "gumbel", finish: Finish | None = "eos") -> list[Round]:
    """A whole answer, with a fixed and varied number of accepted tokens per round."""
    tokens = tokens_of(text)
    pattern = (2, 0, 4, 1, 3, 2, 4, 0, 1, 3)
    rounds: list[Round] = []
    started, position = 0.0, 40
    while tokens:
        index = len(rounds)
        count = min(pattern[index % len(pattern)], gamma, len(tokens) - 1)
        accepted, last, tokens = tokens[:count], tokens[count], tokens[count + 1 :]
        ghosts = [GUESSES[(index + place) % len(GUESSES)] for place in range(gamma - count)]
        total = 48.0 + 5 * ((index * 7) % 6)
        rounds.append(
            make_round(
                index,
                accepted,
                last,
                ghosts,
                rule=rule,
                started=started,
                total=total,
                staged=index % 16 == 3,
                position=position,
                finish=None if tokens else finish,
            )
        )
        started += total + 1
        position += len(rounds[-1].emitted)
    return rounds


MOST_CALLS = 40
"""The window is painted after each call, which is what most of a long answer's time would be spent on."""


class FakeEngine(EngineLike):
    """Answers each request with `rounds`, one per call of `events`, of long answers several; wishes take effect in the next call.

    Attributes:
        requests, counts, benched, loads, forced: what it was asked for. closed: whether it was closed.
        runs, tasks: the ids of `requests` and of long tasks. stopped: what was to be stopped.
        is_computing: what it says of itself. hold: rounds are held back while it is True.
        pause_after: no more rounds of an answer than that. chains: the reason for chains that its answers begin with.
    """

    is_computing = False

    def __init__(self, rounds: Iterable[Round] | None = None) -> None:
        super().__init__()
        self._said: deque[Event] = deque()
        self.restart(rounds)

    def restart(self, rounds: Iterable[Round] | None = None) -> None:
        """Forgets what it was asked for, and answers in these rounds from now on."""
        vars(self).pop("answer_load", None)
        self.is_computing = False
        self.rounds = list(story_rounds() if rounds is None else rounds)
        self.requests: list[Request] = []
        self.runs: list[int] = []
        self.tasks: list[int] = []
        self.counts: list[Request] = []
        self.benched: list[BenchRequest] = []
        self.loads: list[tuple[str, str]] = []
        self.forced: list[str] = []
        self.misfits: dict[str, str] = {}
        self.stopped: list[int] = []
        self.closed = False
        self.hold = False
        self.pause_after: int | None = None
        self.chains = ""
        self._hurries = False
        self._run: tuple[int, Request] | None = None
        self._next = 0
        self._in_force: dict[str, Any] = {}
        self._wishes: dict[str, Any] = {}

    def say(self, *events: Event) -> None:
        """Events for the next drain."""
        self._said.extend(events)

    def hurry(self) -> None:
        """Says the rest of what was asked for at once; the next answer takes its time again."""
        self._hurries = self._run is not None

    def send(self, command: Command) -> None:
        match command:
            case Load(target, drafter):
                self.loads.append((target, drafter))
                self.answer_load(target, drafter)
            case IgnoreMemory(names):
                self.forced.extend(names)
            case CheckDrafter(name):
                self.say(DrafterChecked(self.loads[-1][0], name, self.misfits.get(name.rpartition("/")[2], "")))
            case CountPrompt(number, request):
                self.counts.append(request)
                self._count(number, request)
            case Submit(number, request):
                self.requests.append(request)
                self.runs.append(number)
                self._begin(number, request)
            case Perform(number, BenchRequest() as request):
                self.benched.append(request)
                self.tasks.append(number)
            case Update(number) if self._run is not None and self._run[0] == number:
                self._wishes.update(command.changes)
            case Stop(number):
                self.stopped.append(number)
                if self._run is not None and self._run[0] == number:
                    self._finish("cancelled")
            case _:
                pass

    def answer_load(self, target: str, drafter: str = "none") -> None:
        """Says what became of a load; a test may put another answer in its place."""
        self.say(LoadStarted(target), LoadFinished(MODEL, 0.1), DrafterReady(drafter, drafter != "ngram"))

    def _count(self, number: int, request: Request) -> None:
        """A token for each word."""
        words = sum(len(message.content.split()) for message in request.messages)
        self.say(PromptCounted(number, words, MODEL.context_length))

    def _begin(self, number: int, request: Request) -> None:
        self._run, self._next, self._wishes = (number, request), 0, {}
        options = request.options if request.options.seed is not None else request.options.replace(seed=4242)
        self._in_force = {"rule": options.rule, "gamma": options.gamma, "drafter": request.drafter}
        given = "".join(f"[{token}]" for token in request.given) or request.given_text
        self.say(
            RunStarted(number, options, 40, request.drafter, None, given, chains=self.chains), PrefillProgress(number, 40, 40)
        )

    def close(self, timeout: float = 5.0) -> bool:
        self.closed = True
        return True

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        said = list(self._said)
        self._said.clear()
        for _ in range(len(self.rounds) if self._hurries else max(1, len(self.rounds) // MOST_CALLS)):
            paused = self.pause_after is not None and self._next >= self.pause_after
            if self._run is not None and not self.hold and not paused:
                said += self._advance()
        return said

    def _advance(self) -> list[Event]:
        assert self._run is not None
        run_id = self._run[0]
        events: list[Event] = []
        base = self.rounds[self._next]
        if self._wishes:
            self._in_force.update(self._wishes)
            self._wishes = {}
            events.append(RunChanged(run_id, base.index, **self._in_force))
        events.append(RoundFinished(run_id, _under(base, self._in_force)))
        self._next += 1
        if self._next == len(self.rounds):
            self._finish(base.finish or "eos")
            events += self._said
            self._said.clear()
        return events

    def _finish(self, finish: Finish) -> None:
        assert self._run is not None
        done = self.rounds[: self._next]
        tokens = sum(len(round_.emitted) for round_ in done)
        seconds = (done[-1].started + done[-1].milliseconds.total) / 1000 if done else 0.0
        text = "".join(round_.text for round_ in done)
        self.say(RunFinished(self._run[0], finish, text, tokens, seconds, 0.15, 0.21 if done else None, None))
        self._run, self._hurries = None, False


def _under(round_: Round, in_force: dict[str, Any]) -> Round:
    return replace(round_, rule=in_force["rule"], drafter=in_force["drafter"])
