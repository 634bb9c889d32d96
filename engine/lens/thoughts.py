"""Thoughts of a model before its answer: finds where the thought ends in growing text, and words it.

Reasoning models write their thought first, between marks such as `<think>` and `</think>`; some chat templates open it at the end
of the prompt. Marks later in an answer are ordinary text.

gpt-oss writes messages in channels (the Harmony format, https://cookbook.openai.com/articles/openai-harmony):

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.

The thought ends where the message for the final channel begins, whatever channels come before: analysis, and commentary on tools.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.values.wording import amount

MARKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>thought", "<channel|>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<|think:start|>", "<|think:end|>"),
)
"""Opening and closing marks of a thought: of Qwen, DeepSeek, SmolLM and many others; of Magistral; of Seed-OSS; of Gemma 4; of
LongCat; the last as in mlx-lm."""

CHANNEL = "<|channel|>"
"""Mark in the header of every message of the Harmony format; an answer in that format begins with it."""
_HEADER = r"(?:<\|start\|>assistant[^<]{{0,80}})?<\|channel\|>{}\b[^<]{{0,80}}(?:<\|constrain\|>[^<]{{0,20}})?<\|message\|>"
_FINAL = re.compile(_HEADER.format("final"))
_MESSAGE = re.compile(_HEADER.format(r"(\w+)"))
_OTHER = re.compile(_HEADER.format(r"(?:analysis|commentary)") + r"\Z")
_END = re.compile(r"<\|(?:end|return|call)\|>")
_MAX_MARK_LENGTH = 300
"""Maximum length of a mark in characters, including the header of a message of the Harmony format."""

State = Literal["undecided", "none", "open", "closed"]


def opens_thought(prompt: str) -> bool:
    """Returns whether the end of a prompt has opened a thought, so that the answer begins inside it."""
    end = prompt.rstrip()
    return end.endswith(tuple(opening for opening, _ in MARKS)) or _OTHER.search(end[-_MAX_MARK_LENGTH:]) is not None


@dataclass(frozen=True)
class Thought:
    """An answer split into thought and answer.

    Attributes:
        text: the thought.
        answer: the text after it; empty if the thought has no end.
        marks: the marks that open and close the thought; (`CHANNEL`, `CHANNEL`) in the Harmony format.
    """

    text: str
    answer: str
    marks: tuple[str, str]


def split_thought(text: str) -> Thought | None:
    """Returns the thought that an answer begins with, without line breaks around it; None if there is none.

    If a prompt opened the thought, the text has only the closing mark.
    """
    start = text.lstrip()
    if start.startswith(CHANNEL) or _FINAL.search(start):
        return _channels(start)
    marks = next((pair for pair in MARKS if start.startswith(pair[0])), None)
    marks = marks or next((pair for pair in MARKS if pair[1] in start and pair[0] not in start.partition(pair[1])[0]), None)
    if marks is None:
        return None
    thought, _, answer = start.removeprefix(marks[0]).partition(marks[1])
    return Thought(thought.strip("\n"), answer.lstrip("\n"), marks)


def _channels(text: str) -> Thought:
    """Returns analysis and final channel of a text. Commentary is for tools or an interim remark, and belongs to neither."""
    opened, *rest = _MESSAGE.split(text)  # channels and messages alternate; the first message is one that the prompt has opened
    messages = list(zip(rest[::2], rest[1::2], strict=True))
    if opened and not opened.startswith(CHANNEL):
        messages.insert(0, ("analysis", opened))
    parts = [(channel, _END.split(message, maxsplit=1)[0]) for channel, message in messages]
    analysis, final = ([message for channel, message in parts if channel == name] for name in ("analysis", "final"))
    return Thought("\n".join(analysis), "".join(final), (CHANNEL, CHANNEL))


class ThoughtFinder:
    """Finds the end of a thought in an answer's text while it grows.

    Args:
        opened: whether the answer begins inside a thought.

    Attributes:
        state: undecided while the text so far may become a mark, none for an answer without thoughts, then open, then closed.
        end: number of characters of thought at the beginning of the text, marks included; 0 until it is closed.
        length: number of characters of the text so far.
        behind: number of characters after the end of the thought in the part that closed it.
    """

    def __init__(self, opened: bool = False) -> None:
        self.state: State = "open" if opened else "undecided"
        self.end = self.behind = 0
        self._closing = re.compile("|".join((*(re.escape(closing) for _, closing in MARKS), _FINAL.pattern)))
        self.length = 0
        self._tail = ""

    def take(self, text: str) -> None:
        """Adds the next part of the text, in time proportional to the part's length."""
        self.length += len(text)
        if self.state in ("none", "closed"):
            return
        self._tail += text
        if self.state == "undecided":
            self._find_opening()
        if self.state == "open":
            self._find_end()

    def _find_opening(self) -> None:
        start = self._tail.lstrip()
        for opening, closing in MARKS:
            if start.startswith(opening):
                self.state, self._closing, self._tail = "open", re.compile(re.escape(closing)), start.removeprefix(opening)
                return
        if start.startswith(CHANNEL):
            self.state, self._closing, self._tail = "open", _FINAL, start
        elif not any(opening.startswith(start) for opening in (CHANNEL, *(opening for opening, _ in MARKS))):
            self.state, self._tail = "none", ""

    def _find_end(self) -> None:
        if found := self._closing.search(self._tail):
            self.behind = len(self._tail) - found.end()
            self.state, self.end, self._tail = "closed", self.length - self.behind, ""
        else:
            self._tail = self._tail[-_MAX_MARK_LENGTH:]


def thought_words(state: State, running: bool, seconds: str, tokens: int) -> str:
    """Returns the heading that stands for a thought: "Thought for 3.2 s · 120 tokens".

    Args:
        seconds: its duration in words; empty if unknown.
        tokens: its number of tokens, 0 if unknown.
    """
    thinking = state == "open" and running
    words = "Thinking" if thinking else f"Thought for {seconds}" if seconds else "Thoughts"
    if tokens:
        words += f" · {amount(tokens, 'token')}"
    return words + (", not finished" if state == "open" and not running else "")
