"""The end of a thought is found however its text is split into tokens, and its description is right."""

from __future__ import annotations

import pytest

from engine.lens.thoughts import Thought, ThoughtFinder, opens_thought, split_thought, thought_words

THOUGHT = "<think>\nHm, </thin or [/THINK] is no end.\n</think>"
ANALYSIS = "<|channel|>analysis<|message|>Hm, <|channel is no end."
FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
COMMENTARY = "<|end|><|start|>assistant to=functions.x<|channel|>commentary <|constrain|>json<|message|>{}"


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
        ("<|channel>thought\nHm, </think>.<channel|>Yes", "closed", len("<|channel>thought\nHm, </think>.<channel|>")),
        (f"{ANALYSIS}{FINAL}Yes <|end|>", "closed", len(ANALYSIS + FINAL)),
        (f"\n{ANALYSIS}{COMMENTARY * 2}{FINAL}Yes", "closed", 1 + len(ANALYSIS + COMMENTARY * 2 + FINAL)),
        ("<|channel|>final<|message|>Yes", "closed", len("<|channel|>final<|message|>")),
        ("<|channel|>final <|constrain|>json<|message|>{}", "closed", len("<|channel|>final <|constrain|>json<|message|>")),
        (f"{ANALYSIS}{COMMENTARY}", "open", 0),
        (f"{ANALYSIS}{FINAL}"[:-1], "open", 0),
        ("<|channel", "undecided", 0),
        ("<|channels are text", "none", 0),
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
    assert taken(list(f"Hm.{FINAL}Yes"), opened=True) == ("closed", len(f"Hm.{FINAL}"))
    assert opens_thought("<|im_start|>assistant\n<think>\n")
    assert opens_thought("<|turn>model\n<|channel>thought\n")
    assert opens_thought("<|start|>assistant<|channel|>analysis<|message|>")
    assert not opens_thought("<|turn>model\n<|channel>thought\n<channel|>")
    assert not opens_thought("<|start|>assistant<|channel|>final<|message|>")
    assert not opens_thought("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_thought("<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>\n a\n</think>\n\n b", " a", " b"),
        ("[THINK]a </think> b[/THINK]c", "a </think> b", "c"),
        ("a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<|channel>thought\na<channel|>b", "a", "b"),
        (f"{ANALYSIS}{COMMENTARY}{FINAL}b<|return|>", ANALYSIS.partition("<|message|>")[2], "b"),
        (f"{ANALYSIS}<|end|><|start|>assistant{ANALYSIS}{FINAL}b", "\n".join([ANALYSIS.partition("<|message|>")[2]] * 2), "b"),
        ("<|channel|>ana", "", ""),
    ],
)
def test_an_answer_is_taken_apart(text: str, thought: str, answer: str) -> None:
    found = split_thought(text)
    assert found is not None
    assert (found.text, found.answer) == (thought, answer)


@pytest.mark.parametrize("text", ["", "Yes", "The mark <think>is text</think> here.", "a < b, <|channel|> or not", "<"])
def test_an_answer_without_a_thought_is_not(text: str) -> None:
    assert split_thought(text) is None


def test_a_long_answer_is_taken_apart_in_one_pass() -> None:
    found = split_thought(f"{ANALYSIS}{'a <|start|>' * 100_000}{FINAL}{'b' * 1_000_000}")
    assert isinstance(found, Thought)
    assert found.answer == "b" * 1_000_000


def test_the_words_say_how_long_it_took_and_whether_it_came_to_an_end() -> None:
    assert thought_words("open", True, "0.20 s", 3) == "Thinking · 3 tokens"
    assert thought_words("closed", True, "3.20 s", 1120) == "Thought for 3.20 s · 1,120 tokens"
    assert thought_words("closed", False, "3.20 s", 1) == "Thought for 3.20 s · 1 token"
    assert thought_words("open", False, "3.20 s", 120) == "Thought for 3.20 s · 120 tokens, not finished"
    assert thought_words("closed", False, "", 0) == "Thoughts"
