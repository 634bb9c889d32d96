"""Published heads as drafters: the target's text, trees, rules, and the choice of how their files are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from engine.acceptance import RoundNoise, likeliest, rejection
from engine.decode.decoding import DecodingOptions, decode
from engine.drafters import FeatureHead, head_probe
from engine.drafters.draft import DraftPlan
from engine.drafters.head_probe import Verdict, probe, settle
from engine.drafters.loaded import LoadedDrafter, builder
from engine.drafters.sampler import Sampler
from engine.drafters.tree_sampler import FixedTree
from engine.files.paths import data_folder
from engine.models.eagle3_model import load_eagle3
from engine.models.loaded import LoadedModel
from engine.models.mtp_model import load_mtp
from engine.models.state_head import StateHead
from engine.models.unloaded_pair import unloaded_pair
from engine.noise.source import NoiseSource
from engine.target.distribution import Shaper
from engine.target.layer_taps import tap
from engine.types import Round
from engine.values.drafter_kinds import BY_PATH, DRAFTERS, MTP, type_stated
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine import eagle_files, trained_heads
from tests.engine.drafting import start
from tests.engine.head_rounds import RecordingSampler, loaded
from tests.engine.mtp_files import PROMPT, write_drafter, write_promise, write_published
from tests.engine.small_models import emitted_ids, same_up_to_near_ties, ticking_clock
from tests.engine.statistics import CERTAIN, FALSE_ALARM, chi_square, rate
from tests.engine.tiny_models import write_gguf

HYBRID, FULL, STEP, EAGLE, WHOLE_EAGLE = "qwen3_5", "glm4_moe", "step3p5", "authors", "authors-narrow"
TRAINED_MTP, TRAINED_EAGLE, REDUCED_EAGLE = "trained MTP", "trained EAGLE-3", "trained EAGLE-3 of 24 tokens"
TRAINED = (TRAINED_MTP, TRAINED_EAGLE, REDUCED_EAGLE)
"""On a hybrid, as HYBRID: without trees."""
Pair = tuple[LoadedModel, StateHead[Any]]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """A hybrid target, one with full attention and one whose head has three layers, each with its MTP head; a target with an
    EAGLE-3 head for a part of its vocabulary, and with one for all of it; the trained target with its heads."""
    known: dict[str, Pair] = {}

    def pair(name: str) -> Pair:
        if name not in known:
            folder = tmp_path_factory.mktemp("pairs")
            if name in TRAINED:
                target = loaded(trained_heads.write_target(folder / "target"))
                known[name] = target, trained(name, target, folder / "head")
            elif name in (EAGLE, WHOLE_EAGLE):
                target = loaded(eagle_files.write_target(folder / "target"))
                known[name] = target, load_eagle3(eagle_files.write_head(folder / "head", name), target)
            else:
                target = loaded(write_published(folder / name, name))
                known[name] = target, load_mtp(folder / name, target)
            known[name][1].bind(target.model)
            known[name] = replace(target, eos_ids=frozenset()), known[name][1]  # or most answers would end at once
        return known[name]

    return pair


def trained(name: str, target: LoadedModel, folder: Path) -> StateHead[Any]:
    """A trained head; one of 24 tokens has the most frequent ones of its text."""
    if name == TRAINED_MTP:
        return load_mtp(Path(target.path), target)
    counts = np.bincount(trained_heads.sentences(0, 4000), minlength=len(target.vocabulary))
    ids = sorted(np.argsort(-counts)[:24].tolist()) if name == REDUCED_EAGLE else []
    return load_eagle3(trained_heads.write_eagle(folder, ids=ids), target)


def prompt_of(name: str) -> list[int]:
    return trained_heads.sentences(1, 40) if name in TRAINED else list(PROMPT)


def answer(pair: Pair, options: DecodingOptions, drafts: bool = True, prompt: Sequence[int] = PROMPT) -> list[Round]:
    target, head = pair
    with ticking_clock():
        return list(decode(target, list(prompt), FeatureHead(head, target, copies=False) if drafts else None, options))


@pytest.mark.parametrize(
    ("name", "rule"), crossed([HYBRID, FULL, STEP, EAGLE, WHOLE_EAGLE, *TRAINED], ["match", "gumbel"], together=1)
)
def test_the_text_is_that_of_the_target_alone(name: str, rule: Any, pairs: Callable[[str], Pair]) -> None:
    """As chain and as tree, where no draft is accepted and where many are."""
    accepted = 0
    for temperature in (0.0, 0.8, 5.0):
        options = DecodingOptions(rule=rule, temperature=temperature, seed=5, gamma=3, max_tokens=12, analyse=False)
        plain = emitted_ids(answer(pairs(name), options, False, prompt_of(name)))
        for budget in (None,) if name in TRAINED else (None, 7):
            rounds = answer(pairs(name), replace(options, budget=budget, width=2), prompt=prompt_of(name))
            same_up_to_near_ties(rounds, plain)
            assert any(current.is_tree for current in rounds) == (budget is not None and name != HYBRID)
            accepted += sum(len(current.emitted) - 1 for current in rounds)
    assert accepted > (12 if name in TRAINED else 1) or rule == "match"


@pytest.mark.parametrize("name", [FULL, STEP, EAGLE])
def test_each_node_of_a_tree_has_the_logits_of_a_chain(name: str, pairs: Callable[[str], Pair], monkeypatch: Any) -> None:
    target, head = pairs(name)
    text = [*PROMPT, 40]
    taps = tap(target.model, head.config.taps)
    target.model(mx.array([text[:-1]]))
    features = taps.take()
    seen: list[tuple[FixedTree, list[int], np.ndarray]] = []
    expand = FixedTree.expand

    def recorded(sampler: FixedTree, nodes: Any, logits: mx.array, target_ids: Any = None) -> None:
        seen.append((sampler, list(nodes), np.array(logits)))
        expand(sampler, nodes, logits, target_ids)

    monkeypatch.setattr(FixedTree, "expand", recorded)
    drafter = FeatureHead(head, target.model, copies=False)
    start(drafter, text, target=target.model)
    drafter.read(0, features)
    plan = DraftPlan(drafter.name, 3, budget=8, width=2)
    tree = drafter.propose(plan, RecordingSampler(text, len(target.vocabulary), plan)).tree
    drafted = np.asarray(tree.drafted).tolist()
    assert tree.size == 8 and len(tree.q_nodes) > 3
    for _, nodes, logits in seen:
        for node, made in zip(nodes, logits, strict=True):
            path = [drafted[each - 1] for each in tree.shape.path_to(node)[1:]]
            assert np.abs(after(head, features, text, path) - made).max() < 1e-4


def after(head: StateHead[Any], features: mx.array, text: list[int], path: list[int]) -> np.ndarray:
    """The logits of a chain along a path, whose rows no tree has touched."""
    caches = [KVCache() for _ in range(head.cache_count)]
    state = head.advance(head.fuse(features), mx.array(text[1:]), caches)[-1:]
    for token in path:
        state = head.advance(state, mx.array([token]), caches)
    return np.array(head.logits(state[-1]))


# Distribution


def first_token(pair: Pair, seeds: range) -> float:
    """Returns the probability that the first tokens of answers under rejection, one for each seed, are the target's: the p-value
    of `chi_square`."""
    target, head = pair
    options = DecodingOptions(rule="rejection", temperature=3.0)
    text, vocabulary = [*PROMPT, 40], len(target.vocabulary)
    taps = tap(target.model, head.config.taps)
    logits = target.model(mx.array([text]))[0, -2:]
    drafter = FeatureHead(head, target.model, copies=False)
    start(drafter, text, target=target.model)
    drafter.read(0, taps.take()[:-1])
    recording = RecordingSampler(text, vocabulary, DraftPlan(drafter.name, 1))
    drafter.propose(DraftPlan(drafter.name, 1), recording)
    of_head = mx.array(recording.logits[0])
    shaper = Shaper(options)
    p = shaper.shape(mx.concatenate([logits[1:], logits[1:]]), text)
    drawn = []
    for seed in seeds:
        noise = RoundNoise(NoiseSource(seed, vocabulary), len(text))
        sampler = Sampler(shaper, options.rule, noise, text, vocabulary, DraftPlan(drafter.name, 1))
        sampler.sample(of_head, head.target_ids)
        tree = sampler.draft().tree
        verdict = rejection(p, tree.q, tree.drafted, noise)
        drawn.append(int(tree.drafted[0].item() if verdict.accepted.item() else verdict.token.item()))
    chances = np.array(p.probabilities[0]).astype(np.float64)
    return chi_square(np.bincount(drawn, minlength=vocabulary), chances / chances.sum())


def test_under_rejection_a_reduced_vocabulary_leaves_the_distribution(
    pairs: Callable[[str], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin drafts the likeliest token, and says that it had drawn one."""
    assert first_token(pairs(EAGLE), range(600)) > FALSE_ALARM
    monkeypatch.setattr(RoundNoise, "draft", lambda noise, row, *_: likeliest(row))
    assert first_token(pairs(EAGLE), range(600)) < CERTAIN


def likeliest_tokens(name: str, rule: Any, pair: Pair, budget: int | None = None) -> float:
    """Returns the probability that a long answer has as often the target's likeliest token as the target gives it: the p-value
    of `rate`."""
    options = DecodingOptions(rule=rule, temperature=3.0, seed=4, gamma=3, max_tokens=300, budget=budget, width=2, analyse=False)
    prompt = prompt_of(name)
    drawn = emitted_ids(answer(pair, options, prompt=prompt))
    logits = np.array(pair[0].model(mx.array([[*prompt, *drawn[:-1]]]))[0, len(prompt) - 1 :]).astype(np.float64) / 3
    chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return rate(logits.argmax(axis=-1) == drawn, (chances / chances.sum(axis=-1, keepdims=True)).max(axis=-1))


CHAINS = crossed(TRAINED, ["rejection", "block"], [None], together=1)
TREES = [(FULL, "rejection", 7), (EAGLE, "rejection", 7), pytest.param(WHOLE_EAGLE, "rejection", 7, marks=pytest.mark.full)]


@pytest.mark.parametrize(("name", "rule", "budget"), [*CHAINS, *TREES])
def test_the_distribution_is_that_of_the_target(name: str, rule: Any, budget: int | None, pairs: Callable[[str], Pair]) -> None:
    assert likeliest_tokens(name, rule, pairs(name), budget) > FALSE_ALARM


@pytest.mark.parametrize(("name", "rule"), crossed([TRAINED_MTP, TRAINED_EAGLE], ["rejection", "block"], together=1))
def test_a_draft_that_was_not_drawn_breaks_the_distribution(
    name: str, rule: Any, pairs: Callable[[str], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The likeliest token, of which the drafter says that it had drawn it. The test of the first token does so for a reduced
    vocabulary."""
    monkeypatch.setattr(RoundNoise, "draft", lambda noise, row, *_: likeliest(row))
    assert likeliest_tokens(name, rule, pairs(name)) < CERTAIN


def share_of_agreement(pair: Pair) -> float:
    """Returns how many of the tokens that a head can draft it drafts as the target draws them, at a temperature so high that
    nearly only the noise decides."""
    rounds = answer(pair, DecodingOptions(rule="gumbel", temperature=60.0, seed=2, gamma=1, max_tokens=50, analyse=False))
    known = {int(token) for token in np.array(pair[1].target_ids)}
    drafted = [current for current in rounds if current.proposals and current.emitted[0].id in known]
    agreed = [current.proposals[0].id == current.emitted[0].id for current in drafted]
    assert len(agreed) > 10
    return float(np.mean(agreed))


@pytest.mark.parametrize("rule", ["gumbel", "rejection"])
def test_a_target_token_outside_of_the_draft_vocabulary_is_recorded(rule: Any, pairs: Callable[[str], Pair]) -> None:
    """Such tokens are in the text, so the target's own output is not restricted to the draft vocabulary."""
    for name, is_reduced in ((EAGLE, True), (FULL, False)):
        pair = pairs(name)
        ids = pair[1].target_ids
        known = set(range(len(pair[0].vocabulary)) if ids is None else np.array(ids).tolist())
        options = DecodingOptions(rule=rule, temperature=5.0, seed=3, gamma=2, max_tokens=30, analyse=False)
        rounds = [current for current in answer(pair, options) if current.finish is None]
        expected = [bool(current.rejected) and current.emitted[-1].id not in known for current in rounds]
        assert [current.outside_draft_vocabulary for current in rounds] == expected
        assert any(expected) == is_reduced and any(current.rejected for current in rounds)


def test_noise_is_that_of_the_targets_ids(pairs: Callable[[str], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin takes the noise of the next id."""
    assert share_of_agreement(pairs(EAGLE)) > 0.8

    def of_next_id(noise: RoundNoise, rows: Any, first: int = 0) -> mx.array:
        turned = type(rows)(mx.roll(rows.logits, 1, axis=-1), rows.inverse_temperature)
        return (noise.shared_and_margins(turned, first)[0] - 1) % rows.vocab_size

    monkeypatch.setattr(RoundNoise, "shared", of_next_id)
    assert share_of_agreement(pairs(EAGLE)) < 0.3


# The probe


def written(target: LoadedModel, seed: int = 0) -> tuple[list[int], int]:
    """A text that no head was made for: the rows differ, and a head below is made to predict them."""
    generator = np.random.default_rng(seed)
    return [*PROMPT, *generator.integers(0, len(target.vocabulary), head_probe.ROWS + 1).tolist()], len(PROMPT) - 1


def taught(pair: Pair, text: tuple[list[int], int], reading: Any) -> StateHead[Any]:
    """The head with an output layer of its own that predicts the text from its outputs, if read in this way."""
    target, head = pair
    tokens, first = text
    declared = head.reading
    head.read_as(reading)
    taps = tap(target.model, head.config.taps)
    target.model(mx.array([tokens]))
    states = head.advance(head.fuse(taps.take()[:-1]), mx.array(tokens[1:]), [KVCache() for _ in range(head.cache_count)])
    outputs = np.array(states if head.reading.chain_normed else head.norm(states)).astype(np.float64)[first:-1]
    wanted = np.zeros((len(outputs), len(target.vocabulary)))
    wanted[np.arange(len(outputs)), tokens[first + 2 :]] = 6.0
    weights = np.linalg.lstsq(outputs, wanted, rcond=1e-3)[0].astype(np.float32)
    head.metadata.rows = lambda hidden: hidden @ mx.array(weights)
    head.metadata.target_ids = None
    head.bind = lambda target: None  # type: ignore[method-assign]
    head.read_as(declared)
    return head


@pytest.fixture
def fresh(pairs: Callable[[str], Pair], tmp_path: Path) -> Callable[[str], Pair]:
    """The pairs, with a head of their own for each test."""

    def pair(name: str) -> Pair:
        target, _ = pairs(name)
        head = (
            load_eagle3(eagle_files.write_head(tmp_path / "head", name), target)
            if name == EAGLE
            else load_mtp(Path(target.path), target)
        )
        head.bind(target.model)
        return target, head

    return pair


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (HYBRID, {}, ""),
        (HYBRID, {"normed_state": False}, "its state is that before the target's final norm"),
        (HYBRID, {"embedding_first": False}, "the state comes first"),
        (HYBRID, {"plus_one": frozenset()}, "its norms are as stored"),
        (HYBRID, {"plus_one": frozenset({"layer"})}, "its norms are plus one inside the layer only"),
        (HYBRID, {"plus_one": frozenset({"layer", "inputs"})}, "its norms are plus one before the layer, inside the layer only"),
        (EAGLE, {}, ""),
        (EAGLE, {"tap_shift": 1}, "it reads layers 2, 4, 5 instead of 1, 3, 4"),
        (EAGLE, {"norm_before_residual": True}, "its residual stream starts after the norm"),
    ],
)
def test_the_probe_finds_the_reading_that_a_head_was_made_for(
    name: str, changes: dict[str, Any], words: str, fresh: Callable[[str], Pair]
) -> None:
    pair = fresh(name)
    target, head = pair
    text, planted = written(target), replace(head.reading, **changes)
    verdict = probe(taught(pair, text, planted), target, text)
    assert verdict.words == words and verdict.rows == head_probe.ROWS
    assert replace(head.reading, chain_normed=planted.chain_normed) == planted
    if words:
        assert verdict.chosen - verdict.declared > 3 * verdict.error
        assert words in verdict.warning and f"{verdict.chosen:.2f} instead of {verdict.declared:.2f}" in verdict.warning
    else:
        assert not verdict.warning and verdict.other < verdict.chosen
        assert f"log-probability {verdict.chosen:.2f} a token" in verdict.words_of_result


@pytest.mark.parametrize("name", [HYBRID, FULL, STEP, EAGLE])
def test_a_head_that_knows_nothing_is_read_as_declared(name: str, fresh: Callable[[str], Pair]) -> None:
    """Otherwise the reading with the flattest distributions would win."""
    target, head = fresh(name)
    declared = head.reading
    verdict = probe(head, target)
    assert (verdict.words, verdict.chain_words, head.reading) == ("", "", declared)
    assert "probably made for another model" in verdict.warning


def test_values_that_speak_for_a_reading_make_less_evidence_enough(fresh: Callable[[str], Pair]) -> None:
    """The last norm was converted, and its weights are near 1."""
    _, head = fresh(HYBRID)
    assert head.favoured is None
    head.metadata.kept["layers.0.norm"] = head.metadata.kept["layers.0.norm"] + 1
    assert head.favoured == replace(head.reading, plus_one=frozenset({"layer", "inputs"}))


def test_a_verdict_is_kept_with_the_digests(fresh: Callable[[str], Pair], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, head = fresh(HYBRID)
    made = Verdict("the state comes first", "a chain continues before its norm", -3.0, -1.0, -2.0, 0.2, 0.5, 64)
    monkeypatch.setattr(head_probe, "probe", lambda head, target: made)
    assert settle(head, target) == made.warning
    monkeypatch.setattr(head_probe, "probe", lambda head, target: pytest.fail("probed again"))
    _, again = fresh(HYBRID)
    assert settle(again, target) == made.warning
    assert not again.reading.embedding_first and not again.reading.chain_normed
    assert f"{head.sha256}|{target.sha256}" in json.loads((data_folder() / "head_readings.json").read_text())


# As drafters


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def built(name: str, target: LoadedModel) -> LoadedDrafter:
    kind = DRAFTERS.get(name) or BY_PATH[type_stated(json.loads((Path(name) / "config.json").read_text()))]
    return builder(kind)(name, target, lambda: pytest.fail("loaded as a model"))


def test_heads_are_chosen_by_name_and_by_folder(home: Path, tmp_path: Path, pairs: Callable[[str], Pair]) -> None:
    target, _ = pairs(HYBRID)
    other, _ = pairs(EAGLE)
    folder = str(eagle_files.write_head(tmp_path / "head", "speculators"))
    for name, wanted in ((MTP, target), (folder, other)):
        made = built(name, wanted)
        assert made.drafter is not None and made.drafter.name == name and made.renewed() is not made.drafter
        assert made.drafter.capabilities.samples and made.drafter.tree_reason() == "" and made.sha256
    with pytest.raises(DraftlightError, match="promises an MTP head"):
        built(MTP, loaded(write_promise(tmp_path / "promise", HYBRID)))
    with pytest.raises(DraftlightError, match="computes no MTP heads of this architecture"):
        built(MTP, loaded(write_gguf(tmp_path / "other.gguf")))


def test_a_head_is_checked_before_it_is_loaded(tmp_path: Path, pairs: Callable[[str], Pair]) -> None:
    target, _ = pairs(EAGLE)
    hybrid, _ = pairs(HYBRID)
    folder = eagle_files.write_head(tmp_path / "head", "authors")
    reason, warning = unloaded_pair(target, folder)
    assert not reason and "do not name its target" in warning
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"target_hidden_size": 80}))
    assert "a hidden size of 80" in unloaded_pair(target, folder)[0]
    mtp = write_drafter(tmp_path / "mtp", HYBRID)
    assert unloaded_pair(hybrid, mtp)[0] == "" and "no MTP heads of this architecture" in unloaded_pair(target, mtp)[0]
