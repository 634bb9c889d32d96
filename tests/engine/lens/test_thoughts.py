"""Where a thought ends, however its text is cut into tokens, and what is said of it."""

from __future__ import annotations

import pytest

from engine.lens.thoughts import ThoughtFinder, opened_by, thought_words

THOUGHT = "<think>\nHm, </thin or [/THINK] is no end.\n</think>"


def taken(parts: list[str], opened: bool = False) -> tuple[str, int]:
    finder = ThoughtFinder(opened)
    for part in parts:
        finder.take(part)
    return finder.state, finder.end


@pytest.mark.parametrize(
    ("text", "state", "end"),
    [
        (THOUGHT, "closed", len(THOUGHT)),
        (f"\n {THOUGHT}\n\nThe <think>answer</think>.", "closed", len(THOUGHT) + 2),
        ("[THINK]Hm </think>[/THINK]Yes", "closed", len("[THINK]Hm </think>[/THINK]")),
        ("<seed:think>Hm</seed:think>", "closed", len("<seed:think>Hm</seed:think>")),
        ("<think>Hm", "open", 0),
        ("The mark <think>is text</think> here.", "none", 0),
        ("<thinking> is another word", "none", 0),
        (" \n<thi", "undecided", 0),
        ("", "undecided", 0),
    ],
)
def test_only_a_thought_at_the_beginning_counts_however_it_is_cut(text: str, state: str, end: int) -> None:
    assert taken([text]) == taken(list(text)) == (state, end)
    assert taken([text[at : at + 3] for at in range(0, len(text), 3)]) == (state, end)


def test_an_answer_may_begin_inside_a_thought() -> None:
    assert taken(["Hm.", "</th", "ink>", "\n\nYes"], opened=True) == ("closed", len("Hm.</think>"))
    assert taken(list("Hm.[/THINK]Yes"), opened=True) == ("closed", len("Hm.[/THINK]"))
    assert opened_by("<|im_start|>assistant\n<think>\n")
    assert not opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opened_by("<|im_start|>assistant\n")


def test_the_words_say_how_long_it_took_and_whether_it_came_to_an_end() -> None:
    assert thought_words("open", True, "0.20 s", 3) == "Thinking · 3 tokens"
    assert thought_words("closed", True, "3.20 s", 1120) == "Thought for 3.20 s · 1,120 tokens"
    assert thought_words("closed", False, "3.20 s", 1) == "Thought for 3.20 s · 1 token"
    assert thought_words("open", False, "3.20 s", 120) == "Thought for 3.20 s · 120 tokens, not finished"
    assert thought_words("closed", False, "", 0) == "Thoughts"
