"""What a model thinks before it answers: where the thought ends in a text that grows, and its words.

Models that think write it first, between marks such as `<think>` and `</think>`; some chat templates have opened it already at
the end of the prompt. Marks further on in an answer are text like any other.

gpt-oss writes messages in channels (the Harmony format, https://cookbook.openai.com/articles/openai-harmony):

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.

Its thought ends where the message for the final channel begins, whatever channels come before: analysis, and commentary on tools.
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
"""What opens and closes a thought: of Qwen, DeepSeek, SmolLM and many others; of Magistral; of Seed-OSS; of Gemma 4; of LongCat;
the last as in mlx-lm."""

CHANNEL = "<|channel|>"
"""What every message of the Harmony format has in its header, the first one of an answer at its beginning."""
_HEADER = r"(?:<\|start\|>assistant[^<]{{0,80}})?<\|channel\|>{}\b[^<]{{0,80}}(?:<\|constrain\|>[^<]{{0,20}})?<\|message\|>"
_FINAL = re.compile(_HEADER.format("final"))
_MESSAGE = re.compile(_HEADER.format(r"(\w+)"))
_OTHER = re.compile(_HEADER.format(r"(?:analysis|commentary)") + r"\Z")
_END = re.compile(r"<\|(?:end|return|call)\|>")
_LONGEST_MARK = 300
"""Characters, the header of a message of the Harmony format included."""

State = Literal["undecided", "none", "open", "closed"]


def opened_by(prompt: str) -> bool:
    """Whether the end of a prompt has opened a thought, so that the answer begins inside it."""
    end = prompt.rstrip()
    return end.endswith(tuple(opening for opening, _ in MARKS)) or _OTHER.search(end[-_LONGEST_MARK:]) is not None


@dataclass(frozen=True)
class Thought:
    """An answer taken apart.

    Attributes:
        text: what the model thought first.
        answer: what it wrote behind that; empty where the thought has no end.
        marks: what opens and closes the thought; (`CHANNEL`, `CHANNEL`) in the Harmony format.
    """

    text: str
    answer: str
    marks: tuple[str, str]


def thought_of(text: str) -> Thought | None:
    """The thought that an answer begins with, without line breaks around it; None where there is none.

    A prompt may have opened the thought, so that the text has the closing mark only.
    """
    begun = text.lstrip()
    if begun.startswith(CHANNEL) or _FINAL.search(begun):
        return _channels(begun)
    marks = next((pair for pair in MARKS if begun.startswith(pair[0])), None)
    marks = marks or next((pair for pair in MARKS if pair[1] in begun and pair[0] not in begun.partition(pair[1])[0]), None)
    if marks is None:
        return None
    thought, _, answer = begun.removeprefix(marks[0]).partition(marks[1])
    return Thought(thought.strip("\n"), answer.lstrip("\n"), marks)


def _channels(text: str) -> Thought:
    """Of the analysis and of what is final. Commentary is meant for tools or on the way, and is in neither."""
    begun, *rest = _MESSAGE.split(text)  # channels and messages by turns; the first message is one that the prompt has opened
    said = [("analysis", begun)] * (begun != "" and not begun.startswith(CHANNEL)) + list(zip(rest[::2], rest[1::2], strict=True))
    parts = [(channel, _END.split(message, maxsplit=1)[0]) for channel, message in said]
    analysis, final = ([message for channel, message in parts if channel == name] for name in ("analysis", "final"))
    return Thought("\n".join(analysis), "".join(final), (CHANNEL, CHANNEL))


class ThoughtFinder:
    """Takes an answer's text as it comes.

    Args:
        opened: whether the answer begins inside a thought.

    Attributes:
        state: undecided while the text so far may become a mark, none for an answer without thoughts, then open, then closed.
        end: how much of the text is thought, marks included; 0 until it is closed.
        length: of all the text so far.
        behind: letters that stood behind its end in the part that closed it.
    """

    def __init__(self, opened: bool = False) -> None:
        self.state: State = "open" if opened else "undecided"
        self.end = self.behind = 0
        self._closing = re.compile("|".join((*(re.escape(closing) for _, closing in MARKS), _FINAL.pattern)))
        self.length = 0
        self._tail = ""

    def take(self, text: str) -> None:
        """The next part of the text, in constant time for its length."""
        self.length += len(text)
        if self.state in ("none", "closed"):
            return
        self._tail += text
        if self.state == "undecided":
            self._decide()
        if self.state == "open":
            self._look_for_end()

    def _decide(self) -> None:
        begun = self._tail.lstrip()
        for opening, closing in MARKS:
            if begun.startswith(opening):
                self.state, self._closing, self._tail = "open", re.compile(re.escape(closing)), begun.removeprefix(opening)
                return
        if begun.startswith(CHANNEL):
            self.state, self._closing, self._tail = "open", _FINAL, begun
        elif not any(opening.startswith(begun) for opening in (CHANNEL, *(opening for opening, _ in MARKS))):
            self.state, self._tail = "none", ""

    def _look_for_end(self) -> None:
        if found := self._closing.search(self._tail):
            self.behind = len(self._tail) - found.end()
            self.state, self.end, self._tail = "closed", self.length - self.behind, ""
        else:
            self._tail = self._tail[-_LONGEST_MARK:]


def thought_words(state: State, running: bool, seconds: str, tokens: int) -> str:
    """What is said of a thought in place of its text: "Thought for 3.2 s · 120 tokens".

    Args:
        seconds: how long it took, in words; empty where that is not known.
        tokens: how many it has, 0 where that is not known.
    """
    thinking = state == "open" and running
    words = "Thinking" if thinking else f"Thought for {seconds}" if seconds else "Thoughts"
    if tokens:
        words += f" · {amount(tokens, 'token')}"
    return words + (", not finished" if state == "open" and not running else "")
