"""Claims about the decode loop, on tiny random models of real architectures."""

from __future__ import annotations

import functools
import itertools
import time

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models import mamba
from mlx_lm.models.cache import QuantizedKVCache, RotatingKVCache
from mlx_lm.models.cache import make_prompt_cache as made_by_mlx_lm
from mlx_lm.sample_utils import make_logits_processors

from engine.decode.decoding import Control, DecodingOptions, decode
from engine.drafters import DraftModel, NGram
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.rounds import metrics
from engine.target import prompt_cache as caches
from engine.target.prompt_cache import cache_length, make_prompt_cache
from engine.types import RULES, Round
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine.small_models import (
    PROMPT,
    emitted_ids,
    greedy_of_mlx_lm,
    near,
    same_up_to_near_ties,
    tiny_llama,
    tiny_qwen3,
    tiny_sliding_window,
)

TARGET = tiny_llama(1)
OTHER = near(TARGET, tiny_llama(7))
DRAFTERS = ("none", "ngram", "itself", "other")
GREEDY_TOKENS = 100


def drafter(name: str, target=TARGET) -> Drafter | None:
    if name == "ngram":
        return NGram(longest=2, shortest=1)
    return {"none": None, "itself": DraftModel(target, "itself"), "other": DraftModel(OTHER, "other")}[name]


@functools.cache
def model_of(make):
    return make(1)


@functools.cache
def greedy_ids(make, **options) -> list[int]:
    """mlx-lm's own tokens, which many settings are compared with: 1,600 in every run, so that a fault in one of 350 is seen."""
    return greedy_of_mlx_lm(model_of(make), PROMPT, GREEDY_TOKENS, **options)


@functools.cache
def plain_ids(**options) -> list[int]:
    """The text without a drafter, likewise."""
    return emitted_ids(run("none", **options))


def run(name: str = "other", make=None, **options) -> list[Round]:
    return decoded(name, make, DecodingOptions(**{"temperature": 0.5, "seed": 11, "max_tokens": 60, "gamma": 4} | options))


@functools.cache
def decoded(name: str, make, options: DecodingOptions) -> list[Round]:
    """An answer that several tests look at."""
    target = TARGET if make is None else model_of(make)
    return list(decode(target, PROMPT, drafter(name, target), options))


@pytest.mark.parametrize(("rule", "name", "make"), crossed(RULES, DRAFTERS, [tiny_llama, tiny_qwen3]))
def test_temperature_0_gives_the_tokens_of_mlx_lm(make, name, rule):
    rounds = run(name, make, temperature=0, max_tokens=GREEDY_TOKENS, rule=rule)
    same_up_to_near_ties(rounds, greedy_ids(make))


@pytest.mark.parametrize(("name", "make"), crossed(DRAFTERS, [tiny_llama, tiny_qwen3], together=1))
def test_temperature_0_gives_the_tokens_of_mlx_lm_with_a_quantised_cache(make, name):
    target = model_of(make)
    quantised = [QuantizedKVCache(group_size=64, bits=8) for _ in target.layers]
    options = DecodingOptions(temperature=0, max_tokens=GREEDY_TOKENS)
    rounds = list(decode(target, PROMPT, drafter(name, target), options, cache=quantised))
    same_up_to_near_ties(rounds, greedy_ids(make, kv_bits=8, kv_group_size=64, quantized_kv_start=0))


@pytest.mark.parametrize(("rule", "name"), crossed(["match", "gumbel"], ["ngram", "itself", "other"], together=1))
def test_one_seed_gives_one_text_whatever_the_drafter_and_gamma(name, rule):
    """Every gamma from 1 to 8 has its turn on tables, in test_distribution_of_text."""
    reference = plain_ids()
    assert len(set(reference)) > 10, "a text that repeats itself would show little"
    for gamma in (1, 3, 8):
        same_up_to_near_ties(run(name, rule=rule, gamma=gamma), reference)


def test_another_seed_gives_another_text():
    assert emitted_ids(run(seed=1)) != emitted_ids(run(seed=2))


def test_a_drawn_seed_differs_from_run_to_run():
    options = DecodingOptions(temperature=0.5, seed=None, max_tokens=20)
    one, other = (emitted_ids(list(decode(TARGET, PROMPT, None, options))) for _ in range(2))
    assert one != other


@pytest.mark.parametrize("rule", ["rejection", "gumbel", "block"])
def test_the_target_as_its_own_drafter_is_always_accepted(rule):
    rounds = run("itself", rule=rule, max_tokens=61, gamma=4)
    # A near-tie between passes of different width may cost one; without it nothing is rejected.
    assert sum(current.rejected for current in rounds) <= 1
    assert sum(current.accepted for current in rounds) >= 44


@pytest.mark.parametrize(("rule", "temperature", "name"), crossed(RULES, [0, 0.5], DRAFTERS))
def test_every_round_adds_up(name, temperature, rule):
    rounds = run(name, rule=rule, temperature=temperature)
    assert metrics.violations(rounds) == ()
    position = len(PROMPT)
    for index, current in enumerate(rounds):
        assert (current.index, current.position, current.rows) == (index, position, len(current.proposals) + 1)
        assert len(current.expected) == current.accepted + current.rejected
        position += len(current.emitted)
        assert current.cache_length == position - 1
        last = "plain" if not current.proposals else "correction" if current.rejected else "bonus"
        assert [token.origin for token in current.emitted] == ["accepted"] * current.accepted + [last]
        kept = [proposal.id for proposal in current.proposals[: current.accepted]]
        assert [token.id for token in current.emitted[:-1]] == kept
        for token, proposal in zip(current.emitted, current.proposals, strict=False):
            assert (token.id == proposal.id) == (proposal.status == "accepted") or rule == "block"
    assert [current.finish for current in rounds] == [None] * (len(rounds) - 1) + ["length"]
    assert len(emitted_ids(rounds)) == 60


def test_what_was_compared_is_recorded():
    for proposal in itertools.chain.from_iterable(current.proposals for current in run("other", rule="gumbel")):
        if proposal.status == "unjudged":
            assert proposal.target_argmax is None and proposal.acceptance is None
        else:
            assert (proposal.draft_argmax == proposal.target_argmax) == (proposal.status == "accepted")
            assert proposal.draft_argmax == proposal.id and proposal.coin is None
    for proposal in itertools.chain.from_iterable(current.proposals for current in run("other", rule="rejection")):
        if proposal.status != "unjudged":
            assert (proposal.coin < proposal.acceptance) == (proposal.status == "accepted")
            assert proposal.acceptance == pytest.approx(min(1, proposal.p / proposal.q), rel=1e-4)


def test_without_analysis_the_text_is_the_same_and_nothing_expensive_is_recorded():
    rounds = run(analyse=False)
    assert emitted_ids(rounds) == emitted_ids(run())
    assert all(not current.expected for current in rounds)
    assert all(token.p is None and token.entropy is None for current in rounds for token in current.emitted)
    assert all(proposal.q is None and not proposal.draft_top for current in rounds for proposal in current.proposals)


def test_phases_are_measured_in_every_so_many_rounds_and_add_up():
    rounds = run("other", phase_every=3)
    for index, current in enumerate(rounds):
        times = current.milliseconds
        assert times.measured == (index % 3 == 2)
        if times.measured:
            assert times.draft + times.verify + times.judge + times.other == pytest.approx(times.total)
    assert not any(current.milliseconds.measured for current in run(phase_every=0))
    assert emitted_ids(rounds) == emitted_ids(run("other", phase_every=0))


class Stopper(Control):
    """Does something once so many rounds have been asked for."""

    def __init__(self, after: int, act) -> None:
        super().__init__()
        self._after, self._act, self._seen = after, act, 0

    def take_changes(self):
        self._seen += 1
        if self._seen == self._after:
            self._act(self)
        return super().take_changes()


def run_changing(start: str, act, after: int = 5, **options) -> list[Round]:
    options = {"temperature": 0.5, "seed": 11, "max_tokens": 80, "gamma": 4} | options
    return list(decode(TARGET, PROMPT, drafter(start), DecodingOptions(**options), control=Stopper(after, act)))


def test_rule_gamma_and_drafter_change_at_a_round_boundary():
    rounds = run_changing("other", lambda control: control.update(rule="rejection", gamma=2, drafter=NGram(2, 1)))
    assert {(current.rule, current.drafter) for current in rounds[:4]} == {("gumbel", "other")}
    assert {(current.rule, current.drafter) for current in rounds[4:]} == {("rejection", "ngram")}
    assert all(len(current.proposals) <= 2 for current in rounds[4:])


def test_a_drafter_switched_to_in_mid_answer_has_caught_up():
    rounds = run_changing("none", lambda control: control.update(drafter=DraftModel(TARGET, "itself")))
    later = [current for current in rounds if current.drafter == "itself"]
    assert len(later) > 5
    assert sum(current.rejected for current in later) <= 1


def test_impossible_changes_are_refused():
    with pytest.raises(ValueError, match="gamma"):
        Control().update(gamma=65)
    with pytest.raises(ValueError, match="rule"):
        Control().update(rule="best")  # type: ignore[arg-type]


def test_a_stop_ends_the_answer_within_one_round():
    rounds = run_changing("other", lambda control: control.stop())
    assert len(rounds) == 5
    assert rounds[-1].finish == "cancelled"


def test_a_stop_while_the_prompt_is_read_yields_no_round():
    control = Control(on_prefill=lambda done, total: control.stop() if done else None)
    assert list(decode(TARGET, list(range(90)) * 3, None, DecodingOptions(), control=control)) == []
    assert control.stopped


def test_reading_the_prompt_is_reported():
    seen: list[tuple[int, int]] = []
    control = Control(on_prefill=lambda done, total: seen.append((done, total)))
    next(iter(decode(TARGET, list(range(90)) * 3, None, DecodingOptions(), control=control)))
    assert seen[0] == (0, 269) and seen[-1] == (269, 269)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 60.0])
def test_how_wide_the_passes_over_a_prompt_are_does_not_depend_on_the_clock(seconds, monkeypatch):
    """Passes of another width have other last bits: sized by the clock, one seed would have several texts on one machine."""
    readings = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings) * seconds)
    widths: list[int] = []

    class Watched:
        layers = TARGET.layers

        def __call__(self, tokens, cache):
            widths.append(tokens.shape[1])
            return TARGET(tokens, cache=cache)

    monkeypatch.setattr(caches, "LARGEST_CHUNK", 32)
    next(iter(decode(Watched(), list(range(90)) * 3, None, DecodingOptions(seed=1))))
    read = [width for width in widths if width > 1]
    assert read == [32] * 8 + [13]


@pytest.mark.parametrize(
    ("parameters", "device", "chunk"),
    [
        (134_515_008, mx.cpu, 64),
        (1_000_000_000, mx.cpu, 16),
        (134_515_008, mx.gpu, 2048),
        (1_000_000_000, mx.gpu, 512),
        (8_000_000_000, mx.cpu, 16),
        (8_000_000_000, mx.gpu, 128),
        (70_000_000_000, mx.gpu, 128),
    ],
)
def test_a_chunk_follows_from_the_models_size_and_the_device(parameters, device, chunk, monkeypatch):
    monkeypatch.setattr(caches, "get_total_parameters", lambda model: parameters)
    monkeypatch.setattr(caches.mx, "default_device", lambda: mx.Device(device))
    assert caches.chunk_size(TARGET) == chunk


def test_quantised_weights_count_as_the_parameters_they_stand_for(monkeypatch):
    monkeypatch.setattr(caches, "CPU_SPEED", 4e8)
    monkeypatch.setattr(caches, "GPU_SPEED", 4e8)
    model = tiny_llama(3)
    chunk = caches.chunk_size(model)
    assert caches.SMALLEST_CHUNK < chunk < caches.LARGEST_CHUNK
    nn.quantize(model, group_size=64, bits=4)
    assert caches.chunk_size(model) == chunk
    assert caches.chunk_size(lambda tokens, cache: None) == caches.LARGEST_CHUNK


@pytest.mark.parametrize("name", DRAFTERS)
def test_the_answer_ends_with_its_end_of_sequence_token(name):
    reference = plain_ids(max_tokens=80)
    # A token in the middle that has not come before.
    index = next(i for i in range(20, 80) if reference[i] not in reference[:i])
    cache = make_prompt_cache(TARGET)
    rounds = list(
        decode(
            TARGET,
            PROMPT,
            drafter(name),
            DecodingOptions(temperature=0.5, seed=11, max_tokens=80),
            eos_ids=[reference[index]],
            cache=cache,
        )
    )
    assert emitted_ids(rounds) == reference[: index + 1]
    assert rounds[-1].finish == "eos"
    assert cache_length(cache) == rounds[-1].cache_length == len(PROMPT) + index
    assert len(rounds[-1].proposals) == rounds[-1].accepted + rounds[-1].rejected + rounds[-1].unjudged


class Letters:
    """A tokenizer whose token is a letter or two."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([97 + token % 26]) * (1 + token % 2)


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_stop_text_ends_the_answer_after_the_token_that_completes_it(name):
    plain = list(decode(TARGET, PROMPT, None, DecodingOptions(temperature=0.5, seed=11, max_tokens=60), tokenizer=Letters()))
    text = "".join(current.text for current in plain)
    stop = text[30:33]
    wanted = text[: text.index(stop)]
    options = DecodingOptions(temperature=0.5, seed=11, max_tokens=60, stop=(stop,))
    cache = make_prompt_cache(TARGET)
    rounds = list(decode(TARGET, PROMPT, drafter(name), options, tokenizer=Letters(), cache=cache))
    assert "".join(current.text for current in rounds) == wanted
    assert rounds[-1].finish == "stop"
    through = "".join(token.text for current in rounds for token in current.emitted)
    assert through.startswith(wanted + stop) or stop in through
    assert stop not in through[: -len(rounds[-1].emitted[-1].text)], "the stop text is completed by the last token"
    assert cache_length(cache) == rounds[-1].cache_length == len(PROMPT) + len(emitted_ids(rounds)) - 1


@pytest.mark.parametrize("name", ["itself", "other"])
def test_caches_are_exact_at_the_end_of_an_answer(name):
    used, cache = drafter(name), make_prompt_cache(TARGET)
    for max_tokens in (1, 2, 17, 60):
        options = DecodingOptions(temperature=0.5, seed=max_tokens, max_tokens=max_tokens)
        prompt = list(PROMPT)
        cache = make_prompt_cache(TARGET)
        rounds = list(decode(TARGET, prompt, used, options, cache=cache))
        committed = len(prompt) + len(emitted_ids(rounds))
        assert cache_length(cache) == committed - 1
        assert cache_length(used.cache) == committed - 1  # type: ignore[union-attr]


def test_three_turns_with_cache_reuse_equal_three_turns_from_scratch():
    kept, used = make_prompt_cache(TARGET), drafter("other")
    prompt = list(PROMPT)
    for turn in range(3):
        options = DecodingOptions(temperature=0.5, seed=turn, max_tokens=30)
        reused = list(decode(TARGET, prompt, used, options, cache=kept))
        scratch = list(decode(TARGET, prompt, drafter("other"), options))
        assert same_up_to_near_ties(reused, emitted_ids(scratch))
        prompt = [*prompt, *emitted_ids(reused), 3 + turn, 40, 41]
        assert cache_length(kept) < len(prompt)


@pytest.mark.parametrize("name", DRAFTERS)
def test_penalties_are_the_same_with_and_without_a_drafter_and_in_mlx_lm(name):
    reference = greedy_of_mlx_lm(
        TARGET,
        PROMPT,
        60,
        logits_processors=make_logits_processors(repetition_penalty=1.7, repetition_context_size=9),
    )
    assert reference != greedy_of_mlx_lm(TARGET, PROMPT, 60)
    rounds = run(name, temperature=0, max_tokens=60, repetition_penalty=1.7, repetition_context=9)
    same_up_to_near_ties(rounds, reference)


def test_penalties_and_filters_leave_the_text_independent_of_the_drafter():
    options = {"top_p": 0.9, "min_p": 0.02, "top_k": 12, "repetition_penalty": 1.3, "temperature": 0.9}
    reference = plain_ids(**options)
    for name, gamma in (("ngram", 3), ("itself", 1), ("itself", 6), ("other", 1), ("other", 3)):
        same_up_to_near_ties(run(name, gamma=gamma, **options), reference)
    assert sum(current.rejected for current in run("itself", **options)) <= 1, "q must answer to the same options as p"


def test_an_automatic_gamma_leaves_the_text_as_it_is():
    """How long it drafts depends on measured times; what it finds for given times stands in test_drafters."""
    same_up_to_near_ties(run("itself", gamma="auto", max_tokens=120), plain_ids(max_tokens=120))


def test_the_answer_never_outgrows_max_tokens():
    for max_tokens in (1, 2, 3, 5):
        rounds = run("itself", max_tokens=max_tokens, gamma=8)
        assert len(emitted_ids(rounds)) == max_tokens
        assert rounds[-1].finish == "length"


def test_a_wider_drafter_and_a_narrower_one_are_exact():
    reference = plain_ids()
    for vocab in (60, 130):
        used = DraftModel(tiny_llama(3, vocab=vocab), "misfit")
        options = DecodingOptions(temperature=0.5, seed=11, max_tokens=60)
        same_up_to_near_ties(list(decode(TARGET, PROMPT, used, options)), reference)


def test_a_trimmed_drafter_reads_the_noise_of_the_targets_ids():
    ids = mx.array(sorted(set(plain_ids()) | set(range(0, 97, 2))))

    class Trimmed:
        layers = TARGET.layers

        def __call__(self, tokens, cache=None):
            return TARGET(tokens, cache=cache)[..., ids]

    used = DraftModel(Trimmed(), "trimmed", target_ids=ids)
    rounds = list(decode(TARGET, PROMPT, used, DecodingOptions(temperature=0.5, seed=11, max_tokens=60)))
    same_up_to_near_ties(rounds, plain_ids())
    # All it lacks is what the target did not say: under gumbel no proposal can fall.
    assert sum(current.rejected for current in rounds) == 0


def test_caches_that_cannot_be_rolled_back_are_refused_with_the_reason():
    sliding = tiny_sliding_window(1)
    with pytest.raises(DraftlightError, match="sliding window"):
        list(decode(sliding, PROMPT, NGram(), DecodingOptions(), cache=made_by_mlx_lm(sliding)))
    sliding.make_cache = lambda: [RotatingKVCache(max_size=16, keep=4) for _ in range(2)]
    with pytest.raises(DraftlightError, match="sliding window"):
        DraftModel(sliding)
    plain = list(decode(sliding, PROMPT, None, DecodingOptions(temperature=0, max_tokens=40)))
    assert emitted_ids(plain) == greedy_of_mlx_lm(sliding, PROMPT, 40)


def test_bad_input_is_refused_with_the_field_named():
    for arguments, message in [
        (([],), "prompt_tokens"),
        (([1, 97],), "prompt_tokens"),
        (([-1],), "prompt_tokens"),
    ]:
        with pytest.raises(ValueError, match=message):
            decode(TARGET, *arguments)
    with pytest.raises(ValueError, match="stop needs a tokenizer"):
        decode(TARGET, PROMPT, None, DecodingOptions(stop=("x",)))
    cache = make_prompt_cache(TARGET)
    list(decode(TARGET, PROMPT, None, DecodingOptions(max_tokens=5), cache=cache))
    with pytest.raises(ValueError, match="proper prefix"):
        decode(TARGET, PROMPT, None, DecodingOptions(), cache=cache)


def test_a_cache_that_keeps_no_count_must_be_empty():
    shape = {"hidden_size": 32, "intermediate_size": 64, "state_size": 8, "conv_kernel": 4, "time_step_rank": 4}
    biases = {"use_bias": False, "use_conv_bias": True}
    recurrent = mamba.Model(mamba.ModelArgs(model_type="mamba", vocab_size=97, num_hidden_layers=1, **shape, **biases))
    cache = made_by_mlx_lm(recurrent)
    list(decode(recurrent, PROMPT, None, DecodingOptions(max_tokens=2), cache=cache))
    with pytest.raises(ValueError, match="cache must be empty"):
        decode(recurrent, PROMPT * 2, None, DecodingOptions(), cache=cache)


def test_a_model_with_a_trimmed_head_is_no_target():
    trimmed = LoadedModel(TARGET, None, frozenset(), (b"a",) * 200, 4096, "half", "half", target_ids=mx.arange(97) + 100)
    with pytest.raises(DraftlightError, match="half can only be used as a drafter"):
        decode(trimmed, PROMPT)


def test_a_round_evaluated_in_stages_finds_none_of_its_draft_made():
    began: list[int] = []

    class Watched(DraftModel):
        def prefetch(self) -> None:
            began.append(len(rounds))
            super().prefetch()

    own = Watched(OTHER, "other")
    rounds: list[Round] = []
    for current in decode(TARGET, PROMPT, own, DecodingOptions(seed=11, max_tokens=40, phase_every=3)):
        rounds.append(current)
    staged = {current.index for current in rounds if current.milliseconds.measured}
    assert staged and began
    assert not {index + 1 for index in began} & staged


def test_a_model_without_a_finite_logit_is_an_error_not_token_0():
    class Broken:
        layers = TARGET.layers

        def __call__(self, tokens, cache=None):
            return TARGET(tokens, cache=cache) * float("nan")

    for temperature in (0, 0.5):
        with pytest.raises(DraftlightError, match="finite"):
            list(decode(Broken(), PROMPT, None, DecodingOptions(temperature=temperature)))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rule", ["best", 3, None]),
        ("temperature", [-0.1, float("nan"), float("inf"), "hot", True]),
        ("top_p", [-0.1, 1.1, None]),
        ("top_k", [-1, 1.5]),
        ("min_p", [-0.1, 1.1]),
        ("repetition_penalty", [0, -1]),
        ("repetition_context", [-1, 2.5]),
        ("seed", [-1, 2**53, 1.0]),
        ("gamma", [0, 65, "some", 2.0]),
        ("max_tokens", [0, -5, 1.5]),
        ("stop", ["text", ("",), (3,)]),
        ("analyse", [1, None]),
        ("phase_every", [-1, 0.5]),
    ],
)
def test_impossible_options_are_refused_by_name(name, values):
    for value in values:
        with pytest.raises(ValueError, match=name):
            DecodingOptions(**{name: value})
