"""The presets keep what their words promise, with the built-in model. The recorded demonstration fits its preset, the format of
traces and the words on the page. If a test of the recording fails, `make demonstration` records it again.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from app.compare.comparison import LETTERS, Comparison
from app.compare.findings import conclusion, paired_of, rule_findings
from app.compare.presets import (
    DIVERGING_SEED,
    PRESETS,
    RECORDED,
    RULES_ANSWER,
    TARGET,
    Preset,
    recorded_comparison,
    recorded_setup,
)
from app.session.settings import Settings
from engine.decode.decoding import decode
from engine.exports.tables import options_of
from engine.models.loading import LoadedModel
from engine.rounds.codec import options_to_json, round_from_json, round_to_json
from engine.rounds.trace import SCHEMA, read
from engine.types import RULES as EVERY_RULE
from engine.types import DecodingOptions, Request, Rule
from tests.exactness import make_drafter

RULES = next(preset for preset in PRESETS if preset.id == "rejection-gumbel")
UNUSUAL = Settings(temperature=0.0, top_p=0.5, top_k=3, min_p=0.2, repetition_penalty=1.3, seed=99, system_prompt="Be brief.")
REQUESTS = recorded_setup(RULES).requests(TARGET, Settings().options())


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.id)
def test_what_a_preset_shows_does_not_depend_on_the_settings_of_the_chat(preset: Preset) -> None:
    requests = preset.make(UNUSUAL).requests("builtin", UNUSUAL.options(), UNUSUAL.system_prompt)
    usual = DecodingOptions()
    for request in requests:
        filters = ("top_p", "top_k", "min_p", "repetition_penalty")
        assert [getattr(request.options, name) for name in filters] == [getattr(usual, name) for name in filters]
        assert [message.role for message in request.messages] == ["user"]


def test_filters_of_the_chat_can_be_compared_too() -> None:
    setup = replace(RULES.make(UNUSUAL), unfiltered=False)
    request = setup.requests("builtin", UNUSUAL.options(), UNUSUAL.system_prompt)[0]
    assert (request.options.top_p, request.options.top_k) == (0.5, 3)
    assert [message.role for message in request.messages] == ["system", "user"]


def test_the_rules_are_set_two_by_two_with_one_seed() -> None:
    settings = Settings(drafter="builtin-draft")
    setup = RULES.make(settings)
    assert [column.rule for column in setup.columns] == ["gumbel", "gumbel", "rejection", "rejection"]
    assert [column.drafter for column in setup.columns] == ["builtin-draft", "head"] * 2
    assert {(column.gamma, column.temperature) for column in setup.columns} == {(3, 0.8)}
    assert setup.seed == DIVERGING_SEED
    assert "seed was chosen" in RULES.about(setup, settings)


def test_the_four_rules_have_everything_else_alike() -> None:
    (preset,) = (preset for preset in PRESETS if preset.id == "four-rules")
    for settings in (Settings(drafter="builtin-draft"), Settings(), Settings(target="/models/mine.gguf", rule="block")):
        columns = preset.make(settings).columns
        assert {column.rule for column in columns} == set(EVERY_RULE) and len(columns) == len(EVERY_RULE)
        assert len({(column.drafter, column.gamma, column.temperature, column.prompt) for column in columns}) == 1
        assert columns[0].drafter not in ("none", "auto")


def test_a_seed_is_only_said_to_be_chosen_where_it_was() -> None:
    settings = Settings(target="/models/mine.gguf", drafter="none", seed=99)
    setup = RULES.make(settings)
    assert setup.seed == 99
    assert "chosen" not in RULES.about(setup, settings)
    assert [column.drafter for column in setup.columns] == ["ngram", "ngram-mod"] * 2
    usual = Settings()
    for changes in ({"seed": 2}, {"seed": None}, {"prompt": "Why is the sea salty?"}):
        words = RULES.about(replace(RULES.make(usual), **changes), usual)
        assert "two drafters under each rule" in words and "chosen" not in words
    assert "chosen" not in PRESETS[1].about(
        PRESETS[1].make(replace(usual, seed=DIVERGING_SEED)), replace(usual, seed=DIVERGING_SEED)
    )


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.id)
def test_words_that_a_change_has_made_untrue_go_away(preset: Preset) -> None:
    settings = Settings()
    setup = preset.make(settings)
    assert preset.words in preset.about(setup, settings)
    block = replace(setup, columns=(replace(setup.columns[0], rule="block"), *setup.columns[1:]))
    assert preset.about(block, settings) == ""
    warmer = replace(setup, columns=(replace(setup.columns[0], temperature=1.5), *setup.columns[1:]))
    assert preset.about(warmer, settings) == preset.words + (f" {preset.chosen}" if preset.chosen else "")
    columns = tuple(replace(column, prompt="Why?") for column in setup.columns)
    assert (preset.about(replace(setup, prompt="Why?", columns=columns), settings) == "") == preset.of_prompts


def answers_beside_each_other(target: LoadedModel, rule: Rule) -> Iterator[tuple[int, int]]:
    """The tokens of the preset's two drafters under a rule, for a third of the answer. What is not asked for is not decoded."""
    setup = RULES.make(Settings())
    prompt = target.tokenizer.apply_chat_template([{"role": "user", "content": setup.prompt}], add_generation_prompt=True)

    def text(request: Request) -> Iterator[int]:
        options = request.options.replace(max_tokens=RULES_ANSWER // 3, analyse=False)
        for round_ in decode(target, prompt, make_drafter(request.drafter, target), options):
            yield from (token.id for token in round_.emitted)

    requests = setup.requests("builtin", Settings().options())
    return zip(*(text(request) for request in requests if request.options.rule == rule), strict=True)


def parting(target: LoadedModel) -> int:
    pairs = answers_beside_each_other(target, "rejection")
    return next(index for index, (first, second) in enumerate(pairs) if first != second)


@pytest.mark.full
def test_the_chosen_seed_parts_the_texts_under_rejection(builtin: LoadedModel) -> None:
    """Within a third of the answer, and not at once. Every run checks the same on the recorded demonstration, below."""
    assert parting(builtin) >= 4


@pytest.mark.full
def test_the_chosen_seed_does_not_part_them_under_gumbel(builtin: LoadedModel) -> None:
    """In every run test_builtin_decoding has it that one seed gives one text."""
    pairs = answers_beside_each_other(builtin, "gumbel")
    assert all(first == second for first, second in islice(pairs, parting(builtin) + 4))


def test_chain_and_tree_differ_in_the_budget_alone() -> None:
    (preset,) = (preset for preset in PRESETS if preset.id == "chain-tree")
    for settings in (Settings(), Settings(drafter="builtin-draft", rule="rejection", gamma=2)):
        setup = preset.make(settings)
        assert setup.trees == (0, 1) and {column.rule for column in setup.columns} == {"gumbel"}
        chain, tree = (request.options for request in setup.requests("builtin", DecodingOptions(width=2)))
        assert (chain.budget, tree.budget, tree.width) == (None, 8, 4) and chain.replace(budget=8) == tree


@pytest.mark.full
def test_the_tree_of_the_preset_takes_siblings(builtin: LoadedModel) -> None:
    """With the built-in head, within the first tokens; that trees change no text is tested with the engine."""
    (preset,) = (preset for preset in PRESETS if preset.id == "chain-tree")
    setup = preset.make(Settings(seed=1))
    prompt = builtin.tokenizer.apply_chat_template([{"role": "user", "content": setup.prompt}], add_generation_prompt=True)
    request = setup.requests("builtin", DecodingOptions())[1]
    options = request.options.replace(max_tokens=32, analyse=False)
    rounds = decode(builtin, prompt, make_drafter(request.drafter, builtin), options)
    assert any(node.rank > 0 and node.status == "accepted" for round_ in rounds for node in round_.proposals)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return recorded_comparison(RULES)[0]


@pytest.mark.parametrize("column", range(len(REQUESTS)))
def test_every_line_of_the_recording_is_read_as_it_was_written(column: int) -> None:
    path = RECORDED / f"{LETTERS[column]}.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert lines[0]["schema"] == SCHEMA
    rounds = [line for line in lines if line.pop("kind") == "round"]
    for line in rounds:
        again = round_to_json(round_from_json(line))
        assert {name: again.get(name) for name in line} == line
    trace = read(RECORDED / f"{LETTERS[column]}.jsonl")
    assert trace.missing is None and len(trace.rounds) == len(rounds) > 8
    asked = REQUESTS[column]
    recorded = lines[0]["options"]
    assert {name: options_to_json(asked.options).get(name) for name in recorded} == recorded
    assert options_of(trace) == asked.options
    assert [text for role, text in trace.messages if role == "user"] == [asked.messages[-1].content]
    assert trace.part("drafter")["name"] == asked.drafter


def test_the_recording_shows_what_it_is_there_to_show(comparison: Comparison) -> None:
    gumbel, rejection = rule_findings(comparison)
    assert (gumbel.kind, rejection.kind) == ("same", "expected")
    assert conclusion(comparison)[0] == "Gumbel kept the text when the drafter changed; Rejection did not."
    paired = paired_of(comparison)
    assert paired is not None and paired.differences["rejection"].low is not None
    assert paired.differences["rejection"].low > 0, "Rejection accepts more, and the sample shows it"
    assert comparison.divergence is not None and comparison.divergence < 20
    assert any(run.rejected_at(comparison.divergence) for run in comparison.columns[2:])


def test_the_recording_names_the_machine_but_nothing_private_and_stays_small() -> None:
    assert "core" in recorded_comparison(RULES)[1]
    for letter in LETTERS:
        trace = read(RECORDED / f"{letter}.jsonl")
        assert "/" not in json.dumps({name: part for name, part in trace.header.items() if name != "prompt"}).replace("<|", "")
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 150_000
