"""What a model thinks before it answers: where the thought ends in a text that grows, and its words.

Models that think write it first, between marks such as `<think>` and `</think>`; some chat templates have opened it already at
the end of the prompt. Marks further on in an answer are text like any other.
"""

from __future__ import annotations

from typing import Literal

MARKS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"))
"""What opens and closes a thought: of Qwen, DeepSeek, SmolLM and many others; of Magistral; of Seed-OSS."""

State = Literal["undecided", "none", "open", "closed"]


def opened_by(prompt: str) -> bool:
    """Whether the end of a prompt has opened a thought, so that the answer begins inside it."""
    return prompt.rstrip().endswith(tuple(opening for opening, _ in MARKS))


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
        self._closing = tuple(closing for _, closing in MARKS)
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
                self.state, self._closing, self._tail = "open", (closing,), begun.removeprefix(opening)
                return
        if not any(opening.startswith(begun) for opening, _ in MARKS):
            self.state, self._tail = "none", ""

    def _look_for_end(self) -> None:
        for closing in self._closing:
            _, found, behind = self._tail.partition(closing)
            if found:
                self.state, self.end, self.behind, self._tail = "closed", self.length - len(behind), len(behind), ""
                return
        longest = max(map(len, self._closing))
        self._tail = self._tail[-(longest - 1) :]


def thought_words(state: State, running: bool, seconds: str, tokens: int) -> str:
    """What is said of a thought in place of its text: "Thought for 3.2 s · 120 tokens".

    Args:
        seconds: how long it took, in words; empty where that is not known.
        tokens: how many it has, 0 where that is not known.
    """
    thinking = state == "open" and running
    words = "Thinking" if thinking else f"Thought for {seconds}" if seconds else "Thoughts"
    if tokens:
        words += f" · {tokens:,} token{'s' * (tokens != 1)}"
    return words + (", not finished" if state == "open" and not running else "")
