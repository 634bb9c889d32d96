"""Prompts for a target that writes its own training text: user turns that it wrote, and tasks made from its own answers.

No collection of prompts is used. User turns are the target's continuations of a few starting words. The longer tasks
(summarise, answer from passages, edit, code, translate) contain texts and code from its earlier answers, so that every subject
is one it writes about. Arithmetic problems are made from random numbers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.models.tokenizer import Tokenizer

_STARTS = """
Write a story about; Write a poem about; Write an email to; Write a letter that; Write a Python function that; Write a
Python class for; Write a SQL query that; Write a shell script that; Write a dialogue between; Write a review of; Write
a short speech; Write a product description for; Write a recipe for; Write JavaScript; Explain how; Explain why; Explain
the difference between; Describe; Describe the process of; Compare; Define; List five; List the steps to; Give me three
ideas for; Give an example of; Give me advice on; Suggest; Plan a; How do I; How does; How can I; How many; How did;
What is; What are; What happens when; What would; What should I; What causes; Why do; Why is; Why did; When did; Where
can; Who was; Who invented; Which; Can you; Could you help me; Please explain; Please write; Tell me about; Tell me a;
Teach me; Help me; I want to; I need; I have a; I am trying to; I don't understand; My; Is it; Are there; Do you think;
Should I; If I; Imagine that; Pretend you are; Act as a; Let's; Hi,; Hello, I; Thanks, but; Yesterday; Create a table
of; Create a list of; Create a schedule; Design a; Outline; Summarize the history of; Convert; Calculate; Solve; Find
the; Name; Classify; Rewrite; Translate; Debug; Implement; Generate; Brainstorm
"""
STARTS = tuple(" ".join(_STARTS.split()).split("; "))
"""Beginnings of user turns."""

_BLOCK = re.compile(r"```[a-z]*\n(.*?)(?:```|\Z)", re.DOTALL)
_NAME = re.compile(r"\b[a-z_]{1,12}\b")
_KEYWORDS = re.compile("def|return|for|in|if|else|elif|not|and|or|import|print|range|len|while|is|from|class|self|with|as")
_MIN_TEXT_LENGTH, _MIN_CODE_LENGTH = 200, 80


@dataclass
class PromptMaterial:
    """Turns, texts and code that the target has written so far."""

    turns: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    def add(self, answer: str) -> None:
        """Adds an answer if tasks can be made from it."""
        blocks = [block.strip() for block in _BLOCK.findall(answer)]
        self.codes += [block for block in blocks if len(block) >= _MIN_CODE_LENGTH and ("def " in block or "=" in block)]
        if not blocks and len(answer) >= _MIN_TEXT_LENGTH:
            self.texts.append(answer.strip())


def turn_prompts(tokenizer: Tokenizer, chosen: Sequence[str]) -> tuple[list[list[int]], frozenset[int]]:
    """Returns token ids up to a user turn that begins with each of these texts, and the tokens that end such a turn.

    Two rendered turns with different ends show what the template adds after a turn.

    Raises:
        DraftlightError: the model has no chat template.
    """
    prompts = []
    ends = set(tokenizer.eos_ids)
    for start in chosen:
        ids = tokenizer.apply_chat_template([{"role": "user", "content": start}], add_generation_prompt=False)
        other = tokenizer.apply_chat_template([{"role": "user", "content": start + " 7 +"}], add_generation_prompt=False)
        behind = 0
        while behind < len(ids) and ids[-1 - behind] == other[-1 - behind]:
            behind += 1
        if behind:
            ends.add(ids[-behind])
        prompts.append(ids[: len(ids) - behind])
    return prompts, frozenset(ends)


def prompts(rng: random.Random, material: PromptMaterial, count: int) -> list[str]:
    """Returns user turns of all kinds, in the proportions of `_SHARES`, as far as there is material for them."""
    kinds = rng.choices(list(_SHARES), list(_SHARES.values()), k=count)
    return [kind(rng, material) or _chat(rng, material) for kind in kinds]


def _chat(rng: random.Random, material: PromptMaterial) -> str:
    return rng.choice(material.turns)


def _summarise(rng: random.Random, material: PromptMaterial) -> str:
    if not material.texts:
        return ""
    parts = rng.sample(material.texts, min(len(material.texts), rng.choice((1, 2, 3))))
    text = "\n\n".join(parts)[: rng.randint(500, 3000)]
    form = rng.choice(
        (
            "Summarize this in a few sentences:\n\n{}",
            "{}\n\nWhat is the gist of this?",
            "Give me a short summary of the text below.\n\n{}",
            "Shorten the following to one paragraph.\n\n{}",
            "List the key points of this text:\n\n{}",
        )
    )
    return form.format(text)


def _passages(rng: random.Random, material: PromptMaterial) -> str:
    if len(material.texts) < 2:
        return ""
    parts = rng.sample(material.texts, min(len(material.texts), rng.choice((2, 3, 4))))
    passages = [part[: rng.randint(300, 900)] for part in parts]
    sentence = rng.choice(re.split(r"(?<=[.!?])\s+", rng.choice(passages)))
    about = " ".join(sentence.split()[: rng.randint(3, 9)]).lower().rstrip(".,;:!?")
    question = rng.choice(
        (
            "What do these passages say about {}?",
            "Using only the text above, explain {}.",
            "According to the text, who or what is {}?",
            "Why is it that {}?",
            "Quote the part about {}.",
        )
    )
    numbered = "\n".join(f"[{number}] {passage}" for number, passage in enumerate(passages, 1))
    return f"{numbered}\n\n{question.format(about)}"


def _edit(rng: random.Random, material: PromptMaterial) -> str:
    if material.codes and rng.random() < 0.6:
        code = rng.choice(material.codes)[:1600]
        names = sorted(name for name in set(_NAME.findall(code)) if not _KEYWORDS.fullmatch(name)) or ["x"]
        name = rng.choice(names)
        new = rng.choice(("index", "total", "item", "element", "position", f"new_{name}"))
        return rng.choice(
            (
                f"In the following code, call `{name}` `{new}` instead and give me the complete result.\n\n{code}",
                f"Add a docstring, leave the rest as it is, and show all of the code:\n\n{code}",
                f"Put type hints into this and repeat all of it:\n\n{code}",
                f"Comment each line of this code.\n\n```\n{code}\n```",
                f"Give me this code again with four spaces of indentation:\n\n{code}",
            )
        )
    if not material.texts:
        return ""
    text = rng.choice(material.texts)[: rng.randint(300, 1500)]
    form = rng.choice(
        (
            "Correct all mistakes in this text and give it back whole:\n\n{}",
            "Give me this text again with semicolons for commas:\n\n{}",
            "Put this text into the past tense; change nothing else.\n\n{}",
            "Repeat this word for word:\n\n{}",
            "Make bullet points of this text and keep the wording:\n\n{}",
            "Rewrite only the first sentence of this text:\n\n{}",
        )
    )
    return form.format(text)


def _code(rng: random.Random, material: PromptMaterial) -> str:
    if not material.codes:
        return ""
    code = rng.choice(material.codes)
    head = code[: rng.randint(80, 400)]
    return rng.choice(
        (
            f"Go on with this code:\n\n{head}",
            f"Complete the following:\n\n```\n{head}",
            f"Write tests for this:\n\n{code[:1200]}",
            f"What does this code do, and how could it be better?\n\n{code[:1200]}",
            f"Find the bug in this code and mend it:\n\n{code[:1200]}",
        )
    )


def _arithmetic(rng: random.Random, material: PromptMaterial) -> str:
    a, b, c, d = (rng.randint(2, 60) for _ in range(4))
    who = rng.choice(("Nora", "Felix", "Amir", "Grace", "Hugo", "A baker", "A school", "A gardener", "Ms. Lind"))
    what = rng.choice(("pears", "pens", "stamps", "tickets", "eggs", "bricks", "cards", "coins", "bottles", "chairs"))
    return rng.choice(
        (
            f"{who} starts with {a} {what}, gets {b} more and gives {min(c, a + b)} away. How many {what} remain?",
            f"{who} buys {a} {what} at ${b} each and pays with ${a * b + c}. How much change is that?",
            f"{a} {what} weigh {b} kg. What do {a * (d % 5 + 2)} of them weigh? Show the steps.",
            f"{who} sold {a} {what} on Monday and {b} more than that on Tuesday. How many on both days together?",
            f"What is {a} * {b} - {c}? Reason step by step.",
            f"{who} drives {a} km in {b % 5 + 1} hours and {c} km in {d % 4 + 1} hours. What is the average speed?",
            f"Find x if {a % 9 + 2}x - {b} = {c}.",
            f"{c % 40 + 10} % of {a * 10} {what} are broken. How many are whole?",
        )
    )


def _translate(rng: random.Random, material: PromptMaterial) -> str:
    if not material.texts:
        return ""
    text = rng.choice(material.texts)[: rng.randint(60, 300)]
    language = rng.choice(("French", "German", "Spanish", "Italian", "Portuguese"))
    return rng.choice((f"Put this into {language}: {text}", f"{text}\n\nHow would one say that in {language}?"))


_SHARES: dict[Callable[[random.Random, PromptMaterial], str], int] = {
    _chat: 30,
    _summarise: 13,
    _passages: 12,
    _edit: 14,
    _code: 14,
    _arithmetic: 9,
    _translate: 8,
}
"""Share of each kind of prompt, in percent."""
