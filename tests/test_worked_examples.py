"""Checks the worked examples of DESIGN.md and ARCHITECTURE.md: their numbers are those that the engine computes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decoding import DecodingOptions, decode
from engine.drafters import DraftModel
from engine.machine.device import kind
from engine.models import LoadedModel, load
from engine.noise import reference
from engine.rounds.codec import round_from_json, round_to_json
from engine.rounds.metrics import violations
from engine.target.distribution import Distribution
from engine.theory import gumbel_probability, match_probability, rejection_probability
from engine.types import Message, Round
from tests.engine.tabular import TabularModel

DESIGN, ARCHITECTURE = (
    (Path(__file__).parents[1] / name).read_text(encoding="utf-8") for name in ("DESIGN.md", "ARCHITECTURE.md")
)
TOKENS = "abc"
SEED, PROMPT = 6, [2] * 10


class Letters:
    """A tokenizer of three letters."""

    def token_bytes(self, token: int) -> bytes:
        return TOKENS[token].encode()


def numbers(words: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", words)]


def rows() -> list[list[str]]:
    """The cells of the round's table, position by position."""
    return [line.strip("| ").split(" | ") for line in DESIGN.splitlines() if re.match(r"\| 1[012] \|", line)]


def model(column: int) -> Any:
    """Gives each position of the table its distribution, by the token before it: c, then a, then b."""
    table = np.zeros((3, 3, 3), np.float32)
    for before, cells in zip((2, 0, 1), rows(), strict=True):
        table[:, before] = np.log(numbers(cells[column]))
    return TabularModel(table)


def decoded(drafter: DraftModel | None) -> list[Round]:
    options = DecodingOptions(rule="gumbel", temperature=1.0, gamma=3, seed=SEED, max_tokens=3 if drafter is None else 20)
    return list(decode(model(2), PROMPT, drafter, options, tokenizer=Letters()))


def shown(value: Any, recorded: Any) -> Any:
    """Returns the part of a recorded value that an example shows."""
    if isinstance(value, dict):
        return {key: shown(part, recorded[key]) for key, part in value.items()}
    if isinstance(value, list):
        assert len(value) == len(recorded)
        return [shown(part, other) for part, other in zip(value, recorded, strict=True)]
    return pytest.approx(recorded, abs=6e-5) if isinstance(value, float) else recorded


def test_the_scores_of_the_gumbel_round_are_those_of_its_noise() -> None:
    for cells in rows():
        q, p, noise, q_scores, p_scores = map(numbers, cells[1:6])
        drawn = reference.gumbel(SEED, int(cells[0]), len(TOKENS))
        assert noise == pytest.approx(drawn, abs=6e-3)
        assert q_scores == pytest.approx(np.log(q) + drawn, abs=6e-3)
        assert p_scores == pytest.approx(np.log(p) + drawn, abs=6e-3)
        assert cells[6:8] == [TOKENS[int(np.argmax(scores))] for scores in (q_scores, p_scores)]
    assert [cells[8] for cells in rows()] == ["accepted", "accepted", "rejected"]


def test_the_recorded_round_is_what_decoding_records_and_plain_decoding_gives_its_text() -> None:
    found = re.search(r"```json\n(.*?)```", DESIGN, re.DOTALL)
    assert found
    example = json.loads(found[1])
    assert round_from_json(example).accepted == 2
    recorded = round_to_json(decoded(DraftModel(model(1)))[0])
    for measured in ("kind", "milliseconds", "started"):
        del example[measured]
    assert example == shown(example, recorded)
    assert "".join(each.text for each in decoded(None)) == example["text"]


def test_the_residual_and_the_acceptance_of_three_tokens() -> None:
    (words,) = re.findall(r"\*Example: a residual.*?(?=\n\n)", DESIGN, re.DOTALL)
    p, q, excess, residual = map(numbers, re.findall(r"\((\d[^()]*)\)", words)[:4])
    assert excess == pytest.approx(np.maximum(np.subtract(p, q), 0))
    made = Distribution.from_probabilities(mx.array([p])).residual(
        Distribution.from_probabilities(mx.array([q])), mx.array(0), mx.array(1.0)
    )
    assert made.probabilities[0].tolist() == pytest.approx(residual)
    for form, written in ((rejection_probability, "0.5"), (match_probability, "0.27"), (gumbel_probability, "0.496")):
        assert form(p, q) == pytest.approx(float(written), abs=6e-4) and written in words


def test_the_round_that_the_architecture_page_follows_is_decoded_by_the_built_in_models(builtin: LoadedModel) -> None:
    """The page names the options, except for the sampling that the model's files recommend."""
    if kind() != "cpu":
        pytest.skip("the example was made in float32 on the CPU")
    (command,) = re.findall(r"^ {4}draftlight chat (.*)$", ARCHITECTURE, re.MULTILINE)
    said, seed, gamma = (re.findall(pattern, command)[0] for pattern in ('"(.*?)"', r"--seed (\d+)", r"--gamma (\d+)"))
    prompt = builtin.tokenizer.apply_chat_template([Message("user", said)], add_generation_prompt=True)
    options = DecodingOptions(rule="gumbel", temperature=0.2, top_p=0.9, seed=int(seed), gamma=int(gamma), max_tokens=20)
    first = next(iter(decode(builtin, prompt, DraftModel(load("builtin-draft")), options)))

    table = [line.strip("| ").split(" | ") for line in ARCHITECTURE.splitlines() if re.match(r"\| 3\d \|", line)]
    assert [int(cells[0]) for cells in table] == [first.position + index for index in range(len(first.proposals))]
    assert [cells[1].strip("`") for cells in table] == [proposal.text for proposal in first.proposals]
    assert [cells[5] for cells in table] == [proposal.status for proposal in first.proposals]
    assert [numbers(cells[2])[0] for cells in table] == pytest.approx([proposal.q for proposal in first.proposals], abs=6e-3)
    assert [numbers(cells[4])[0] for cells in table] == pytest.approx([proposal.p for proposal in first.proposals], abs=6e-3)
    assert [cells[3].strip("`") for cells in table[:2]] == [token.text for token in first.emitted]
    likeliest = {top.text: top.probability for top in first.proposals[1].target_top}
    for token, written in re.findall(r"` (answer|sky)` \((0\.\d+)\)", ARCHITECTURE):
        assert likeliest[f" {token}"] == pytest.approx(float(written), abs=6e-3)
    text = " ".join(ARCHITECTURE.split())
    for count in (f"becomes {len(prompt)} tokens", f"first {len(prompt) - 1} tokens", f"cut to {first.cache_length} tokens"):
        assert count in text


def test_the_recorded_tree_has_the_choices_of_the_same_scores() -> None:
    example = json.loads(re.findall(r"```json\n(.*?)```", DESIGN, re.DOTALL)[1])
    nodes = example["proposals"]
    recorded = round_to_json(decoded(DraftModel(model(1)))[0])
    whole = [{**recorded["proposals"][0], **node} for node in nodes]
    found = round_from_json({**recorded, "proposals": whole, "emitted": [*recorded["emitted"], recorded["emitted"][0]]})
    assert found.is_tree and violations([found]) == ()
    for node, depth in zip(nodes, found.depths, strict=True):
        q_scores, p_scores = (numbers(rows()[depth - 1][column]) for column in (4, 5))
        by_choice = sorted(range(3), key=lambda token: -q_scores[token])
        assert node["id"] == by_choice[node["rank"]] and node["text"] == TOKENS[node["id"]]
        assert (node["status"] == "accepted") == (node["id"] == p_scores.index(max(p_scores)))
