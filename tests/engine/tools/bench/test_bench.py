"""The benchmark: what is measured beside what, what the rows add up to, and mlx-lm's loops as peers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors
from scipy import stats

from engine.decode.decoding import decode
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.runtime.mlx_backend import MlxBackend
from engine.runtime.worker import Engine
from engine.tools.bench import peers
from engine.tools.bench.journal import state_of
from engine.tools.bench.measure import MeasuredAnswer, row_of, speculative_counts
from engine.tools.bench.prompts import read_prompts
from engine.tools.bench.report import Results, document, text_of
from engine.tools.bench.statistics import ALL, noise_of_plain, prompts_measured, repeated, summarise, whole_blocks
from engine.types import (
    BenchFinished,
    BenchMeasured,
    BenchSkipped,
    BenchStarted,
    DecodingOptions,
    Event,
    TaskFailed,
    TaskProgress,
)
from engine.values.requests.bench import BenchPrompt, BenchRequest, BenchRow, BenchSetting, BenchSetup, PeerToken
from tests.engine.fakes import PATIENCE
from tests.engine.families import config_of, tiny
from tests.engine.tiny_models import VOCABULARY, write_folder, write_model, write_pair

PROMPTS = (
    BenchPrompt("greeting", "chat", ("hello world", "and once more")),
    BenchPrompt("letters", "code", ("abababab",)),
    BenchPrompt("waves", "chat", ("hello hello hello",)),
)
CONTEXT = 600


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return dict(zip(("target", "draft"), write_pair(folder, CONTEXT), strict=True))


@pytest.fixture(scope="module")
def target(files: dict[str, str]) -> LoadedModel:
    return load(files["target"])


@pytest.fixture(scope="module")
def draft(files: dict[str, str]) -> LoadedModel:
    return load(files["draft"])


def benched(request: BenchRequest, watch: Callable[[Engine, int, Event], None] = lambda engine, task, event: None) -> list[Event]:
    """All events of a benchmark on an engine of its own."""
    engine = Engine()
    task_id = engine.perform(request)
    seen: list[Event] = []
    while not (seen and isinstance(seen[-1], (BenchFinished, TaskFailed))):
        assert engine.wait(PATIENCE)
        for event in engine.events():
            seen.append(event)
            watch(engine, task_id, event)
    assert engine.close(PATIENCE)
    return seen


def rows_of(events: list[Event]) -> list[BenchRow]:
    return [event.row for event in events if isinstance(event, BenchMeasured)]


def setup_of(events: list[Event]) -> BenchSetup:
    (setup,) = (event.setup for event in events if isinstance(event, BenchStarted))
    return setup


@pytest.fixture(scope="module")
def whole(files: dict[str, str]) -> tuple[BenchRequest, list[Event]]:
    """A whole benchmark of everything there is, on tiny models."""
    request = BenchRequest(
        prompts=PROMPTS[:2],
        target=files["target"],
        drafters=("none", "ngram", files["draft"]),
        rules=("rejection", "gumbel"),
        temperatures=(0.0, 0.8),
        gammas=(3, "auto"),
        max_tokens=8,
        seed=4,
    )
    return request, benched(request)


# A whole run on tiny models


def test_every_setting_is_measured_once_on_every_prompt(whole: tuple[BenchRequest, list[Event]]) -> None:
    request, events = whole
    match events[-1]:
        case BenchFinished(1, True, False, peak):
            assert peak is not None and peak >= max(row.peak_memory or 0 for row in rows_of(events)), "everything is counted"
        case other:
            raise AssertionError(other)
    rows = [row for row in rows_of(events) if not row.setting.is_baseline]
    ours = [row for row in rows if row.maker == "draftlight"]
    asked = {
        (prompt.id, BenchSetting("draftlight", drafter, rule, temperature, gamma))
        for prompt in request.prompts
        for drafter in request.drafters[1:]
        for rule in request.rules
        for temperature in request.temperatures
        for gamma in request.gammas
    }
    assert len(ours) == len(asked)
    assert {(row.prompt_id, row.setting) for row in ours} == asked
    theirs = {(row.drafter, row.rule, row.gamma) for row in rows if row.maker == "mlx-lm"}
    assert theirs == {("none", None, None), (request.drafters[2], "match", 3)}


def test_counts_add_up(whole: tuple[BenchRequest, list[Event]]) -> None:
    for row in rows_of(whole[1]):
        assert row.proposed == row.accepted + row.rejected + row.unjudged
        assert row.rejected <= row.rounds
        assert row.tokens <= row.accepted + row.rounds
        if all(finish == "length" for finish in row.finishes) and row.maker == "draftlight":
            assert row.tokens == row.accepted + row.rounds == 8 * row.turns
        assert row.tau == row.tokens / row.rounds
        assert row.alpha == (row.accepted / (row.accepted + row.rejected) if row.accepted + row.rejected else None)
        assert row.tokens_per_second == row.tokens / row.seconds
    assert any(row.accepted for row in rows_of(whole[1]))


def test_speed_up_is_against_the_plain_runs_on_both_sides(whole: tuple[BenchRequest, list[Event]]) -> None:
    rows = {row.order: row for row in rows_of(whole[1])}
    assert sorted(rows) == list(range(len(rows)))
    for order, row in rows.items():
        if row.setting.is_baseline:
            continue
        plain = [place for place, other in rows.items() if other.setting.is_baseline]
        before, after = rows[max(place for place in plain if place < order)], rows[min(place for place in plain if place > order)]
        assert after.order - before.order <= 4
        for other in (before, after):
            assert (other.prompt_id, other.temperature) == (row.prompt_id, row.temperature)
        assert row.plain_tokens == before.tokens + after.tokens
        slowest, fastest = max(before.seconds, after.seconds), min(before.seconds, after.seconds)
        assert 2 * fastest <= row.plain_seconds <= 2 * slowest + 1e-9
        assert row.speedup == pytest.approx(row.tokens / row.seconds / (row.plain_tokens / row.plain_seconds))


def test_the_plain_baseline_is_its_own_measure(whole: tuple[BenchRequest, list[Event]]) -> None:
    plain = [row for row in rows_of(whole[1]) if row.setting.is_baseline]
    assert plain
    for row in plain:
        assert (row.drafter, row.rule, row.gamma, row.speedup, row.tau) == ("none", None, None, 1.0, 1.0)
        assert (row.proposed, row.alpha, row.plain_tokens) == (0, None, row.tokens)


def test_every_setting_reads_the_same_conversation(whole: tuple[BenchRequest, list[Event]]) -> None:
    read: dict[tuple[str, float], set[tuple[int, int]]] = {}
    for row in rows_of(whole[1]):
        read.setdefault((row.prompt_id, row.temperature), set()).add((row.turns, row.prompt_tokens))
    assert all(len(found) == 1 for found in read.values())
    assert {turns for (prompt, _), found in read.items() for turns, _ in found if prompt == "greeting"} == {2}


def test_texts_are_the_plain_ones_where_they_have_to_be(whole: tuple[BenchRequest, list[Event]]) -> None:
    for row in rows_of(whole[1]):
        if row.setting.is_baseline:
            assert row.same_text is None
        elif row.temperature == 0 or (row.maker == "draftlight" and row.rule == "gumbel"):
            assert row.same_text is True
        else:
            assert row.same_text is None


def test_the_first_token_is_timed_apart(whole: tuple[BenchRequest, list[Event]]) -> None:
    for row in rows_of(whole[1]):
        assert (row.seconds_to_first_token is None) == (row.maker == "mlx-lm")
        assert row.seconds_to_first_token is None or row.seconds_to_first_token > 0


def test_progress_goes_from_nothing_to_all(whole: tuple[BenchRequest, list[Event]]) -> None:
    fractions = [event.fraction for event in whole[1] if isinstance(event, TaskProgress)]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < 0.1
    assert fractions[-1] <= 1


def test_unmeasured_settings_are_reported(whole: tuple[BenchRequest, list[Event]]) -> None:
    setup = setup_of(whole[1])
    assert any("ngram" in note and "draft models only" in note for note in setup.notes)
    assert any("gamma auto" in note for note in setup.notes)
    assert [drafter.name for drafter in setup.drafters] == list(whole[0].drafters[1:])


def test_the_document_holds_every_row_and_where_it_comes_from(whole: tuple[BenchRequest, list[Event]]) -> None:
    request, events = whole
    results = Results(request, setup=setup_of(events), rows=rows_of(events), complete=True)
    read = json.loads(text_of(document(results)))
    assert (read["format"], read["complete"], read["seed"]) == ("draftlight.bench/1", True, 4)
    named = "prompt_id category drafter rule temperature gamma tokens seconds tokens_per_second rounds proposed accepted rejected"
    for row in read["rows"] + read["peers"]:
        assert set(row) >= {*named.split(), "unjudged", "alpha", "tau", "speedup"}
    assert {row["maker"] for row in read["rows"]} == {"draftlight"}
    assert {row["maker"] for row in read["peers"]} == {"mlx-lm"}
    assert len(read["rows"]) + len(read["peers"]) == len(results.rows)
    assert len(read["target"]["sha256"]) == 64 and "path" not in read["target"]
    assert [len(drafter["sha256"] or "") for drafter in read["drafters"]] == [0, 64]
    assert (read["options"]["analyse"], read["options"]["phase_every"], read["options"]["gammas"]) == (False, 0, [3, "auto"])
    assert read["versions"]["mlx"] and read["hardware"]["cores"]
    assert "abababab" not in json.dumps(read["prompts"])
    assert {entry["category"] for entry in read["summary"]} == {"chat", "code", ALL}


# Ends


def test_a_stopped_benchmark_keeps_its_rows(files: dict[str, str]) -> None:
    request = BenchRequest(PROMPTS, files["target"], ("ngram",), max_tokens=400, peers=False)

    def stop_after_the_first_row(engine: Engine, task_id: int, event: Event) -> None:
        if isinstance(event, BenchMeasured):
            engine.stop(task_id)

    events = benched(request, stop_after_the_first_row)
    assert isinstance(events[-1], BenchFinished) and not events[-1].complete
    assert 1 <= len(rows_of(events)) < 12
    assert all(finish in ("length", "eos") for row in rows_of(events) for finish in row.finishes)


def test_what_the_model_cannot_read_is_skipped_with_the_reason(files: dict[str, str]) -> None:
    long = "hello " * CONTEXT
    prompts = (BenchPrompt("long", "chat", (long,)), BenchPrompt("later", "chat", ("hello", long)), PROMPTS[1])
    request = BenchRequest(prompts, files["target"], ("ngram",), ("gumbel",), (0.0,), max_tokens=4, peers=False)
    events = benched(request)
    assert isinstance(events[-1], BenchFinished) and events[-1].complete
    assert {(row.prompt_id, row.turns) for row in rows_of(events)} == {("later", 1), ("letters", 1)}
    skipped = [event.message for event in events if isinstance(event, BenchSkipped)]
    assert [message.split(" is not")[0] for message in skipped] == ["long", "turn 2 of later"]
    assert all("600 tokens" in message for message in skipped)


def test_a_drafter_that_does_not_fit_fails_before_anything_is_measured(files: dict[str, str]) -> None:
    events = benched(BenchRequest(PROMPTS, files["target"], ("ngram", "nowhere")))
    assert isinstance(events[-1], TaskFailed) and events[-1].message.startswith("There is no drafter nowhere. Choose from none, ")
    assert rows_of(events) == []


@pytest.mark.parametrize("name", ["ngram", "ngram-mod", "draft"])
def test_runs_share_no_cache_or_lookup_state(name: str, files: dict[str, str], target: LoadedModel) -> None:
    """A drafter that remembers an earlier answer to the same prompt would copy it."""
    backend = MlxBackend()
    loaded = backend.drafter(files.get(name, name), target, lambda step, fraction: None)
    assert loaded.renewed() is not loaded.drafter
    assert loaded.renewed().capabilities.samples == loaded.has_distribution


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompts", ()),
        ("drafters", ("ngram", "")),
        ("rules", ("gumbel", "gumbel")),
        ("rules", ("guess",)),
        ("temperatures", (-1.0,)),
        ("temperatures", (math.nan,)),
        ("gammas", (0,)),
        ("max_tokens", 0),
        ("seed", -1),
    ],
)
def test_impossible_requests_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field.removesuffix("s")):
        replace(BenchRequest(PROMPTS), **{field: value})  # type: ignore[arg-type]


# Peers


def peer_options(temperature: float = 0.0, **options: Any) -> DecodingOptions:
    return DecodingOptions(temperature=temperature, seed=5, max_tokens=24, gamma=3, **options)


def peer_tokens(target: LoadedModel, draft: LoadedModel | None, temperature: float = 0.0, **options: Any) -> list[PeerToken]:
    return list(peers.answer(target, draft, [5, 7, 9, 11, 5, 7], peer_options(temperature, **options), lambda: None))


def test_peers_emit_the_tokens_of_mlx_lm(target: LoadedModel, draft: LoadedModel) -> None:
    prompt = mx.array([5, 7, 9, 11, 5, 7])
    wanted = [int(token) for token, _ in generate_step(prompt, target.model, max_tokens=24)]
    ends = [place + 1 for place, token in enumerate(wanted) if token in target.eos_ids]
    wanted = wanted[: ends[0] if ends else None]
    plain, speculative = peer_tokens(target, None), peer_tokens(target, draft)
    assert [token.id for token in plain] == [token.id for token in speculative] == wanted
    assert not any(token.from_draft for token in plain)
    assert any(token.from_draft for token in speculative)
    for tokens in (plain, speculative):
        assert [token.seconds for token in tokens] == sorted(token.seconds for token in tokens)


def test_peers_repeat_themselves_under_one_seed(target: LoadedModel, draft: LoadedModel) -> None:
    for model in (None, draft):
        first, second = ([token.id for token in peer_tokens(target, model, 0.8)] for _ in range(2))
        assert first == second


def test_peers_draw_under_the_same_filters(target: LoadedModel) -> None:
    likeliest, hot = peer_tokens(target, None), {"temperature": 5.0}
    assert [token.id for token in peer_tokens(target, None, **hot)] != [token.id for token in likeliest]
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert [token.id for token in peer_tokens(target, None, **hot, **narrow)] == [token.id for token in likeliest]
    wide = peer_tokens(target, None, **hot, top_k=10**6)
    assert [token.id for token in wide] == [token.id for token in peer_tokens(target, None, **hot)], "as many as there are"


@pytest.mark.parametrize("context", [3, 20])
def test_peers_have_the_same_repetition_penalty(context: int, target: LoadedModel, draft: LoadedModel) -> None:
    """It counts the prompt, which mlx-lm's loops have not read themselves, and which holds what the target would say."""
    prompt = [147, 130, 60, 9, 81, 7, 12]
    options = peer_options(repetition_penalty=1.5, repetition_context=context)

    def of_mlx_lm(before: list[int], read: list[int]) -> list[int]:
        """What `generate_step` says where it has read the second part of the prompt itself."""
        cache = make_prompt_cache(target.model)
        if before:
            target.model(mx.array([before]), cache=cache)
        processors = make_logits_processors(repetition_penalty=1.5, repetition_context_size=context)
        loop = {"max_tokens": 24, "logits_processors": processors, "prompt_cache": cache}
        return [int(token) for token, _ in generate_step(mx.array(read), target.model, **loop)]

    wanted = of_mlx_lm([], prompt)
    assert wanted != of_mlx_lm(prompt[:-1], prompt[-1:]), "so it makes a difference"
    assert [token.id for round_ in decode(target, prompt, None, options) for token in round_.emitted] == wanted
    for drafter in (None, draft, target):
        assert [token.id for token in peers.answer(target, drafter, prompt, options, lambda: None)] == wanted


def test_a_trimmed_head_is_spread_onto_the_targets_ids(target: LoadedModel) -> None:
    """The target as its own draft, its columns in another order and without some."""
    width = len(target.vocabulary)
    ids = mx.array(np.random.default_rng(0).permutation(width)[: width - 20].astype(np.int32))

    class Trimmed:
        layers = target.model.layers

        def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
            return target.model(tokens, cache=cache)[:, :, ids]

    wrapped = peers.OnTargetIds(replace(target, model=Trimmed(), target_ids=ids), width)
    whole, spread = target.model(mx.array([[5, 7]])), wrapped(mx.array([[5, 7]]))
    assert spread.shape == whole.shape
    kept = np.array(ids)
    np.testing.assert_array_equal(np.array(spread)[..., kept], np.array(whole)[..., kept])
    assert np.isneginf(np.delete(np.array(spread), kept, axis=-1)).all()
    speculative = peer_tokens(target, replace(target, model=Trimmed(), target_ids=ids))
    assert [token.id for token in speculative] == [token.id for token in peer_tokens(target, None)]
    assert sum(token.from_draft for token in speculative) > len(speculative) / 2


@pytest.mark.parametrize(
    ("drafted", "gamma", "most", "counts"),
    [
        ("tttt", 0, 4, (4, 0, 0, 0, 0)),
        ("ddt" + "t" + "dt", 2, 20, (3, 6, 3, 2, 1)),
        ("dddt" + "dd", 3, 6, (2, 5, 5, 0, 0)),  # length ends the second round, which drafts only what remains
        ("t" + "d", 3, 20, (2, 6, 1, 1, 4)),  # an end of text hides the rest of its round
        ("", 3, 20, (0, 0, 0, 0, 0)),
    ],
)
def test_rounds_of_mlx_lm_follow_from_its_tokens(drafted: str, gamma: int, most: int, counts: tuple[int, ...]) -> None:
    assert speculative_counts([PeerToken(1, letter == "d", 0.0) for letter in drafted], gamma, most) == counts


# Statistics


def answer(tokens: int = 100, seconds: float = 1.0, rounds: int = 100, accepted: int = 0, rejected: int = 0) -> MeasuredAnswer:
    return MeasuredAnswer(tuple(range(tokens)), "", 9, seconds, 0.1, rounds, accepted + rejected, accepted, rejected, 0, "length")


SETTING = BenchSetting("draftlight", "ngram", "gumbel", 0.8, 4)
PLAIN = BenchSetting("draftlight", "none", None, 0.8, None)


def row(prompt: str = "a", category: str = "chat", seconds: float = 1.0, accepted: int = 0, rejected: int = 0) -> BenchRow:
    own = answer(seconds=seconds, rounds=50, accepted=accepted, rejected=rejected)
    return row_of(SETTING, BenchPrompt(prompt, category, ("x",)), 1, [own], ([answer()], [answer()]), None)


def test_a_steady_drift_of_the_machine_cancels() -> None:
    """Each run is slower than the one before; every setting between two plain runs decodes as fast as plainly."""
    before, *between, after = (replace(answer(seconds=1.0 + 0.3 * run), middle=50.0 + 2 * run) for run in range(5))
    for own in between:
        assert row_of(SETTING, PROMPTS[0], 1, [own], ([before], [after]), None).speedup == pytest.approx(1.0)
    unweighted = row_of(SETTING, PROMPTS[0], 1, [replace(between[0], middle=0.0)], ([before], [after]), None)
    assert unweighted.speedup == pytest.approx(1.6 / 1.3)


def test_equal_text_means_every_turn() -> None:
    same = [answer(5), answer(6)]
    assert row_of(SETTING, PROMPTS[0], 1, same, (same, same), same).same_text is True
    assert row_of(SETTING, PROMPTS[0], 1, [answer(5), answer(7)], (same, same), same).same_text is False
    assert row_of(SETTING, PROMPTS[0], 1, same, (same, same), None).same_text is None


@pytest.mark.parametrize(
    ("tokens", "found"),
    [([], (0, 0)), ([1, 2, 3], (0, 0)), ([1, 2, 3, 4, 5], (0, 2)), ([1] * 7, (3, 4)), ([1, 2, 3, 4, 1, 2, 3, 4, 1], (2, 6))],
)
def test_repetition(tokens: list[int], found: tuple[int, int]) -> None:
    assert repeated(tokens) == found


def test_speed_ups_are_averaged_as_ratios() -> None:
    (figures,) = summarise([row("a", seconds=0.5), row("b", seconds=2.0)])
    assert figures.speedup == pytest.approx(1.0)
    assert figures.tokens_per_second == pytest.approx(200 / 2.5)
    assert figures.plain_tokens_per_second == pytest.approx(100)


def test_alpha_and_tau_are_ratios_of_sums() -> None:
    (figures,) = summarise([row("a", accepted=50, rejected=50), row("b", accepted=9, rejected=1)])
    assert figures.alpha == pytest.approx(59 / 110)
    assert figures.tau == pytest.approx(2.0)


def test_two_prompts_have_no_interval_and_categories_come_before_all() -> None:
    figures = summarise([row("a", "chat"), row("b", "chat"), row("c", "code")])
    assert [(entry.category, entry.prompts) for entry in figures] == [("chat", 2), ("code", 1), (ALL, 3)]
    assert figures[0].speedup_interval is None and figures[2].speedup_interval is not None


def test_settings_stand_in_one_order_in_every_category() -> None:
    shorter = replace(SETTING, gamma=2)
    measured = [("a", "chat", SETTING), ("a", "chat", shorter), ("b", "code", shorter), ("b", "code", SETTING)]
    plain = ([answer()], [answer()])
    rows = [row_of(setting, BenchPrompt(name, kind, ("x",)), 1, [answer()], plain, None) for name, kind, setting in measured]
    assert [entry.setting for entry in summarise(rows)] == 3 * [SETTING, shorter]


def test_intervals_equal_scipys() -> None:
    generator = np.random.default_rng(1)
    speeds = np.exp(generator.normal(0.3, 0.4, size=25))
    accepted = generator.integers(5, 60, size=25)
    rejected = generator.integers(5, 40, size=25)
    rows = [
        row(str(place), seconds=1 / speeds[place], accepted=int(accepted[place]), rejected=int(rejected[place]))
        for place in range(25)
    ]
    (figures,) = summarise(rows)
    wanted = stats.ttest_1samp(np.log(speeds), 0).confidence_interval(0.95)
    assert figures.speedup_interval == (pytest.approx(math.exp(wanted.low)), pytest.approx(math.exp(wanted.high)))
    wanted = stats.bootstrap(
        (accepted, accepted + rejected),
        lambda parts, wholes, axis: parts.sum(axis=axis) / wholes.sum(axis=axis),
        n_resamples=20_000,
        method="percentile",
        paired=True,
        rng=2,
    ).confidence_interval
    assert figures.alpha_interval == (pytest.approx(wanted.low, rel=0.03), pytest.approx(wanted.high, rel=0.03))


def test_a_prompt_that_was_cut_off_does_not_count() -> None:
    """The fast setting was spared the prompt that both are slow on."""
    other = replace(SETTING, drafter="head")
    rows = [row("easy", seconds=0.5), replace(row("easy", seconds=0.5), drafter="head"), row("hard", seconds=2.0)]
    fair = summarise(whole_blocks(rows, (SETTING, other)))
    assert [figures.speedup for figures in fair] == [pytest.approx(2.0)] * 2
    assert prompts_measured(rows, (SETTING, other)) == {0.8: (1, 1)}
    assert len(whole_blocks(rows[2:], (SETTING, other))) == 1, "something is better than nothing"
    assert [figures.speedup for figures in summarise(rows)] == [pytest.approx(1.0), pytest.approx(2.0)], "without it they differ"


def test_the_noise_of_the_machine_is_the_spread_of_plain_runs() -> None:
    def plain(seconds: float) -> BenchRow:
        own = [answer(seconds=seconds)]
        return row_of(PLAIN, PROMPTS[0], 0, own, (own, own), None)

    assert noise_of_plain([plain(1.0), plain(1.5), plain(1.2), row()]) == pytest.approx(1.5)
    assert noise_of_plain([plain(1.0)]) is None
    (figures,) = summarise([plain(1.0), plain(1.5)])
    assert (figures.prompts, figures.speedup, figures.speedup_interval) == (1, pytest.approx(1.0), None)


# Prompts


def lines(path: Path, *entries: object) -> Path:
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries), encoding="utf-8")
    return path


def entry(name: str, category: str = "chat", **others: object) -> dict[str, object]:
    return {"id": name, "category": category, "turns": ["hello"], **others}


def test_a_limit_takes_the_categories_in_turn(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "p.jsonl", entry("a"), entry("b"), "", entry("c"), entry("d", "code", source="us"), entry("e", "code")
    )
    assert [prompt.id for prompt in read_prompts(path)] == ["a", "d", "b", "e", "c"]
    assert [prompt.id for prompt in read_prompts(path, 3)] == ["a", "d", "b"]


def test_the_prompts_that_come_along_are_sound() -> None:
    prompts = read_prompts()
    assert len({prompt.category for prompt in prompts}) >= 5
    assert any(len(prompt.turns) > 1 for prompt in prompts)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ("{", "line 2: not JSON"),
        ([1], "line 2: not an object"),
        (entry(""), "line 2: id"),
        (entry("b", category=3), "line 2: category"),  # type: ignore[arg-type]
        (entry("b", turns=[]), "line 2: turns"),
        (entry("b", turns="hello"), "line 2: turns"),
        (entry("a"), "line 2: the id 'a' is used twice"),
    ],
)
def test_broken_prompts_are_named(tmp_path: Path, broken: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read_prompts(lines(tmp_path / "p.jsonl", entry("a"), broken))


def test_files_that_hold_no_prompts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, named in ((tmp_path / "none", "cannot be read"), (tmp_path / "binary", "UTF-8"), (tmp_path, "cannot be read")):
        with pytest.raises(ValueError, match=named):
            read_prompts(path)
    with pytest.raises(ValueError, match="contains no prompts"):
        read_prompts(lines(tmp_path / "empty.jsonl", "", ""))
    with pytest.raises(ValueError, match="limit"):
        read_prompts(limit=0)


def test_setups_and_rows_are_plain_values(whole: tuple[BenchRequest, list[Event]]) -> None:
    """Another process takes them from a pipe, without MLX."""
    setup = setup_of(whole[1])
    assert setup == replace(setup)
    assert not any(isinstance(value, mx.array) for row in rows_of(whole[1]) for value in astuple(row))


def test_a_benchmark_of_few_bits_gives_every_run_such_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mlx-lm's loops keep full precision, which is said."""
    wide = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    folder = write_folder(tmp_path, **wide)
    kinds = []
    sound = MlxBackend.make_cache

    def make_cache(backend: MlxBackend, target: Any, kv_bits: int | None = None) -> Any:
        made = sound(backend, target, kv_bits)
        kinds.append({type(layer).__name__ for layer in made})
        return made

    monkeypatch.setattr(MlxBackend, "make_cache", make_cache)
    events = benched(
        BenchRequest(PROMPTS[1:2], str(folder), ("ngram",), ("gumbel",), (0.0,), (3,), max_tokens=8, peers=True, kv_bits=8)
    )
    assert kinds and all(kind == {"QuantizedKVCache"} for kind in kinds)
    assert all(row.same_text is not False for row in rows_of(events) if row.maker == "draftlight")
    assert "mlx-lm is measured with keys and values in full precision." in setup_of(events).notes


def tiny_pair_of(family: str, folder: Path) -> tuple[str, str]:
    """The folders of two tiny models of a family with the vocabulary of the tests' tokenizer."""
    described = config_of(family) | {"vocab_size": VOCABULARY}
    models = (tiny(family, seed, vocab_size=VOCABULARY) for seed in (0, 1))
    target, draft = (write_model(folder / f"{family}-{seed}", model, described) for seed, model in enumerate(models))
    return str(target), str(draft)


def test_trees_are_measured_and_are_part_of_what_a_journal_goes_on_with(tmp_path: Path) -> None:
    target, draft = tiny_pair_of("llama", tmp_path)
    request = BenchRequest(PROMPTS[1:2], target, (draft,), ("gumbel",), (0.8,), (2,), max_tokens=8, peers=False)
    request = replace(request, budget=6, width=3)
    events = benched(request)
    (row,) = (row for row in rows_of(events) if row.drafter != "none")
    assert row.proposed > 2 * row.rounds, "more than a chain of two has"
    assert row.same_text and "Trees of at most 6 proposals, 3 for a position." in Results(request).conditions()
    setup = setup_of(events)
    assert state_of(request, setup) != state_of(replace(request, budget=None), setup)
    with pytest.raises(ValueError, match="budget must be"):
        replace(request, budget=0)


@pytest.mark.parametrize("name", ["lfm2", "cohere2"])
def test_a_model_whose_layers_forget_is_measured_where_mlx_lm_cannot_speculate(name: str, tmp_path: Path) -> None:
    """Recurrent layers and windows of 16: every answer is the plain one, and mlx-lm's plain loop stands beside it."""
    target, draft = tiny_pair_of(name, tmp_path)
    request = BenchRequest(PROMPTS[1:2], target, (draft,), ("gumbel",), (0.0,), (3,), max_tokens=24)
    events = benched(request)
    assert isinstance(events[-1], BenchFinished), events[-1]
    rows = rows_of(events)
    assert {(row.maker, row.drafter != "none") for row in rows} == {
        ("draftlight", False),
        ("draftlight", True),
        ("mlx-lm", False),
    }
    assert all(row.same_text for row in rows if row.maker == "draftlight" and row.drafter != "none")
    assert any("cannot take tokens back from the target's sliding windows" in note for note in setup_of(events).notes)
