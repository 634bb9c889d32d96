"""Claims about the built-in target and its draft model. Few prompts here; `python -m tests.benchmarks.exactness` takes more."""

from __future__ import annotations

import pytest

from engine.decoding import DecodingOptions, decode
from engine.models.loaded import LoadedModel
from engine.proof.contexts import continued
from engine.target.prompt_cache import make_prompt_cache, trim_to
from engine.types import RULES
from tests.engine.small_models import greedy_of_mlx_lm, same_up_to_near_ties
from tests.exactness import DRAFTERS, against_mlx_lm, make_drafter, prompt_tokens, read_prompts, under_one_seed


def test_temperature_0_gives_the_tokens_of_mlx_lm(builtin: LoadedModel) -> None:
    compared = equal = 0
    for index, prompt in enumerate(read_prompts(limit=4)):
        settings = [(name, RULES[index % len(RULES)], 4) for name in DRAFTERS]
        for result in against_mlx_lm(builtin, [prompt], 40, settings):
            assert result.explained, result
            compared, equal = compared + 1, equal + (result.margin is None)
    assert compared == 16
    assert equal >= 14, "near-ties are rare"


def test_temperature_0_gives_the_tokens_of_mlx_lm_where_a_long_repeat_is_copied(builtin: LoadedModel) -> None:
    """ngram-mod proposes nowhere else. The prompt is read once for all rules."""
    prompt, tokens = continued(builtin, 0), 16
    reference = greedy_of_mlx_lm(builtin.model, prompt, tokens)
    drafter, cache = make_drafter("ngram-mod", builtin), make_prompt_cache(builtin.model)
    for rule in RULES:
        options = DecodingOptions(rule=rule, temperature=0, gamma="auto", max_tokens=tokens)
        rounds = list(decode(builtin, prompt, drafter, options, eos_ids=(), cache=cache))
        trim_to(cache, len(prompt) - 1, "target")
        same_up_to_near_ties(rounds, reference)
        assert sum(len(current.proposals) for current in rounds) > 10


@pytest.mark.parametrize("index", [0, 1])
def test_one_seed_gives_one_text(builtin: LoadedModel, index: int) -> None:
    settings = [
        ("builtin-draft", "gumbel", 1),
        ("builtin-draft", "gumbel", 6),
        ("builtin-draft", "match", 3),
        ("ngram", "gumbel", 4),
        ("head", "gumbel", 3),
        ("head", "match", 5),
    ]
    for result in under_one_seed(builtin, [read_prompts(limit=2)[index]], 32, settings, temperature=0.8):
        assert result.explained, result


def test_the_draft_model_is_right_sometimes_and_the_rules_differ_as_they_should(builtin: LoadedModel) -> None:
    drafter = make_drafter("builtin-draft", builtin)
    expected = {"match": 0.0, "gumbel": 0.0, "rejection": 0.0}
    for seed, prompt in enumerate(read_prompts(limit=2)):
        options = DecodingOptions(seed=seed, max_tokens=32, gamma=3)
        for current in decode(builtin, prompt_tokens(builtin, prompt), drafter, options):
            for position in current.expected:
                for rule in expected:
                    expected[rule] += getattr(position, rule)
    assert expected["match"] < expected["gumbel"] < expected["rejection"]
    assert expected["rejection"] > 5


def test_an_answer_ends_with_the_end_of_sequence_token_and_its_text_is_the_decoded_tokens(builtin: LoadedModel) -> None:
    ids = builtin.tokenizer.apply_chat_template([{"role": "user", "content": "Say hello and nothing else."}])
    rounds = list(decode(builtin, ids, None, DecodingOptions(temperature=0, max_tokens=40)))
    emitted = [token.id for current in rounds for token in current.emitted]
    assert rounds[-1].finish == "eos"
    assert emitted[-1] in builtin.eos_ids
    assert "".join(current.text for current in rounds) == builtin.tokenizer.decode(emitted[:-1])
