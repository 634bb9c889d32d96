"""Claims about the built-in target and its draft model. Few prompts here; `python -m tests.benchmarks.exactness` takes more."""

from __future__ import annotations

import pytest

from engine.decode.decoding import DecodingOptions, decode
from engine.models.loaded import LoadedModel
from engine.rounds import near_ties
from engine.target.prompt_cache import logits_type, make_prompt_cache, trim_to
from engine.tools.proof.contexts import continued
from engine.types import RULES, Rule
from tests.engine.small_models import emitted_ids, greedy_of_mlx_lm
from tests.exactness import Comparison, compare, gaps, make_drafter, prompt_tokens, read_prompts


@pytest.mark.parametrize(
    ("index", "drafters"),
    [
        (0, ("builtin-draft", "head")),
        pytest.param(1, ("none", "head"), marks=pytest.mark.full),
        pytest.param(2, ("builtin-draft", "head"), marks=pytest.mark.full),
        pytest.param(3, ("builtin-draft",), marks=pytest.mark.full),
    ],
)
def test_temperature_0_gives_the_tokens_of_mlx_lm(builtin: LoadedModel, index: int, drafters: tuple[str, ...]) -> None:
    """64 tokens, 448 in a full run: a fault that changes one in 14, or one in 97, would be noticed with a probability of 99 %.
    Tiny models have more to say."""
    settings = [(name, RULES[index % len(RULES)], 4) for name in drafters]
    for result in compare(builtin, [(0, read_prompts(limit=4)[index])], 64 if index else 32, settings, temperature=0):
        assert result.explained and result.different <= 1, result


@pytest.mark.full
def test_temperature_0_gives_the_tokens_of_mlx_lm_where_a_long_repeat_is_copied(builtin: LoadedModel) -> None:
    """Drafters that only copy propose hardly anything elsewhere. The prompt is read once for all of them."""
    prompt, cache = continued(builtin, 0), make_prompt_cache(builtin.model)
    reference = greedy_of_mlx_lm(builtin.model, prompt, 32)
    settings: list[tuple[str, Rule, int | str, int]] = [("ngram-mod", rule, "auto", 32) for rule in RULES[::2]]
    settings += [("ngram", RULES[1], 4, 32)]
    for name, rule, gamma, tokens in settings:
        options = DecodingOptions(rule=rule, temperature=0, gamma=gamma, max_tokens=tokens)
        rounds = list(decode(builtin, prompt, make_drafter(name, builtin), options, eos_ids=(), cache=cache))
        trim_to(cache, len(prompt) - 1, "target")
        text = emitted_ids(rounds)
        if text != reference[:tokens]:  # last bits may decide
            found = gaps(builtin, prompt, text, options)
            assert found.max() < near_ties.limit(logits_type(builtin.model)) and (found > 0).sum() <= 1, (name, rule)
        assert sum(len(current.proposals) for current in rounds) > 10


@pytest.fixture(scope="module")
def seeded(builtin: LoadedModel) -> list[Comparison]:
    """Answers at temperature 0.8, 48 tokens."""
    settings = [("builtin-draft", "gumbel", 3), ("head", "match", 3)]
    return list(compare(builtin, [(0, read_prompts(limit=1)[0])], 24, settings, 0.8))


def test_one_seed_gives_one_text(seeded: list[Comparison]) -> None:
    for result in seeded:
        assert result.explained and result.different <= 1, result


@pytest.mark.full
def test_one_seed_gives_one_text_whatever_the_drafter_and_gamma(builtin: LoadedModel) -> None:
    """384 tokens."""
    settings = [
        [("builtin-draft", "gumbel", 1), ("builtin-draft", "match", 3), ("head", "gumbel", 3)],
        [("builtin-draft", "gumbel", 6), ("head", "match", 5), ("ngram", "gumbel", 4)],
    ]
    for one, of_it in zip(enumerate(read_prompts(limit=2)), settings, strict=True):
        test_one_seed_gives_one_text(list(compare(builtin, [one], 64, of_it, 0.8)))


def test_a_text_of_another_seed_or_with_another_token_is_noticed(builtin: LoadedModel, seeded: list[Comparison]) -> None:
    """The twin: the same text, read with the noise of another seed or with a token of it changed."""
    ids, wanted = prompt_tokens(builtin, read_prompts(limit=1)[0]), DecodingOptions(rule="gumbel", temperature=0.8, seed=0)
    text = emitted_ids(seeded[0].rounds)
    assert gaps(builtin, ids, text, wanted.replace(seed=1)).max() > 1
    assert gaps(builtin, ids, [*text[:20], text[20] + 1, *text[21:]], wanted)[20] > seeded[0].near


def test_the_draft_model_is_right_sometimes_and_the_rules_differ_as_they_should(seeded: list[Comparison]) -> None:
    expected = {"match": 0.0, "gumbel": 0.0, "rejection": 0.0}
    for result in seeded:
        for current in result.rounds if result.drafter == "builtin-draft" else ():
            for position in current.expected:
                for rule in expected:
                    expected[rule] += getattr(position, rule)
    assert expected["match"] < expected["gumbel"] < expected["rejection"]
    assert expected["rejection"] > 2


def test_an_answer_ends_with_the_end_of_sequence_token_and_its_text_is_the_decoded_tokens(builtin: LoadedModel) -> None:
    """At temperature 0 these are mlx-lm's own."""
    ids = builtin.tokenizer.apply_chat_template([{"role": "user", "content": "Say hello and nothing else."}])
    options = DecodingOptions(temperature=0, max_tokens=40)
    rounds = list(decode(builtin, ids, make_drafter("head", builtin), options))
    emitted = emitted_ids(rounds)
    assert gaps(builtin, ids, emitted, options).max() < near_ties.limit(logits_type(builtin.model))
    assert rounds[-1].finish == "eos"
    assert emitted[-1] in builtin.eos_ids
    assert "".join(current.text for current in rounds) == builtin.tokenizer.decode(emitted[:-1])
