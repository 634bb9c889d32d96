"""`prove`: a sound engine passes, every planted or real defect is noticed, and the statistics say what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p
from scipy import stats

from engine import acceptance
from engine.drafters import DraftModel, NGram, NGramMod
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.runtime.worker import Engine
from engine.tools.proof import checks as run
from engine.tools.proof import decodes as one_seed
from engine.tools.proof import goodness_of_fit, judges
from engine.tools.proof import known_answers as noise_checks
from engine.tools.proof.contexts import Rows
from engine.tools.proof.decodes import SETTING, decodes, filtered
from engine.tools.proof.job import concluded, level_for
from engine.tools.proof.judges import (
    LIKELIEST,
    CheckSetting,
    SimulatedRounds,
    coupling_on_full_rows,
    process_of,
    round_checks,
    same_as_decoding,
    synthetic_setting,
)
from engine.types import (
    PLANTS,
    RULES,
    SEED_LIMIT,
    Emitted,
    Plant,
    ProofReport,
    ProveRequest,
    Rule,
    TaskFailed,
    TaskFinished,
)
from engine.values import statistics
from engine.values.errors import DraftlightError
from engine.values.requests.prove import DESCRIPTIONS, FALSE_ALARM, NEEDS_DISTRIBUTION, Finding
from tests.crossings import crossed
from tests.engine.fakes import PATIENCE
from tests.engine.families import config_of, tiny
from tests.engine.tabular import distribution, pair
from tests.engine.tiny_models import VOCABULARY, write_model

TINY = run.Amount(contexts=2, texts=100, seeds=2, decodes=4, prompts=1, tokens=12, gammas=(2, "auto"))
LEAST = run.Amount(contexts=1, texts=50, seeds=1, decodes=1, prompts=1, tokens=4, gammas=(2,))
"""For what a report says, whatever was found."""
LEVEL = 1e-6


def nothing() -> None:
    """A tick."""


def quiet(step: str, fraction: float) -> None:
    """A report to nobody."""


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges few rounds singly, where that is not what a test is about."""
    monkeypatch.setattr(judges, "REAL_ROUNDS", 4)


def table_rows(drafter: str = "good", temperature: float = 1.0, top_p: float = 1.0, vocab_size: int = 12) -> Rows:
    """Conditionals of the tabular pair as if they were consecutive positions."""
    tables = pair(drafter, vocab_size, seed=3)
    p = distribution(tables.target, temperature, top_p).reshape(-1, vocab_size)[:9]
    q = distribution(tables.draft, temperature, top_p).reshape(-1, vocab_size)[:8]
    unfiltered = distribution(tables.draft, temperature).reshape(-1, vocab_size)[:8]
    return Rows(p, q, unfiltered, drafter == "one-hot", mx.array(np.log(np.maximum(p, 1e-9)).astype(np.float32)))


def failures(findings: list[Finding], level: float = LEVEL) -> list[str]:
    checks = [concluded(finding, level) for finding in findings]
    return [f"{check.name} ({check.rule}): {check.p_value}" for check in checks if not check.passed]


# The statistics


@pytest.mark.parametrize("freedom", [1, 3, 40, 500, 3000])
def test_tails_equal_scipys(freedom: int) -> None:
    for deviations in (-0.6, 0, 2, 5, 9):
        value = max(0.1, freedom + deviations * np.sqrt(2 * freedom))
        assert statistics.chi_square_tail(value, freedom) == pytest.approx(stats.chi2.sf(value, freedom), rel=1e-6)
        for shift in (0.5, 30, 400):
            wanted = stats.ncx2.sf(value, freedom, shift)
            assert statistics.non_central_tail(value, freedom, shift) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_a_table_equals_scipys_where_nothing_is_merged() -> None:
    counts, law = np.array([40, 60, 100, 20]), np.array([0.2, 0.25, 0.45, 0.1])
    found = goodness_of_fit.table(counts, law)
    wanted = stats.chisquare(counts, 220 * law)
    assert (found.statistic, found.p_value) == (pytest.approx(wanted.statistic), pytest.approx(wanted.pvalue))


def test_a_count_without_probability_is_impossible() -> None:
    assert goodness_of_fit.table(np.array([50, 50, 1]), np.array([0.5, 0.5, 0.0])).p_value == 0
    assert goodness_of_fit.rates(np.array([1]), np.array([9]), np.array([0.0])).p_value == 0
    assert goodness_of_fit.rates(np.array([8]), np.array([9]), np.array([1.0])).p_value == 0


def test_rates_are_tested_by_the_squares_of_their_standard_scores() -> None:
    """The first kind is large enough to count by itself, the other two are pooled."""
    successes, trials, chances = np.array([60, 3, 2]), np.array([100, 30, 60]), np.array([0.5, 0.2, 0.1])
    found = goodness_of_fit.rates(successes, trials, chances)
    pooled = (3 + 2 - 30 * 0.2 - 60 * 0.1) ** 2 / (30 * 0.2 * 0.8 + 60 * 0.1 * 0.9)
    assert (found.statistic, found.freedom) == (pytest.approx((60 - 50) ** 2 / 25 + pooled), 2)


def test_deviations_of_the_stated_size_are_noticed_as_often_as_stated() -> None:
    """The deviation that is hardest to notice: spread like the law. 1,000 tables, 99 % of them, give or take 4 deviations."""
    generator, law, samples, level = np.random.default_rng(0), np.full(10, 0.1), 4000, 1e-4
    size = goodness_of_fit.table(np.full(10, samples // 10), law).notices(level)
    assert size is not None
    shifted = law * (1 + 2 * size * np.resize([1, -1], 10))
    noticed = [goodness_of_fit.table(generator.multinomial(samples, shifted), law).p_value < level for _ in range(1000)]
    assert 0.977 <= np.mean(noticed) <= 1.0


def test_the_false_alarm_is_shared_among_the_statistical_checks() -> None:
    found = goodness_of_fit.table(np.array([500, 500]), np.array([0.5, 0.5]))
    findings = [Finding("a", "", "", 1, found), Finding("b", "", "", 1, True), Finding("c", "", "", 1, found)]
    assert level_for(findings) == FALSE_ALARM / 2
    assert concluded(findings[1], 1.0).passed


# Played rounds


@pytest.mark.parametrize(("drafter", "rule"), crossed(["good", "bad", "one-hot", "disjoint"], RULES, together=1))
def test_sound_rules_pass(rule: str, drafter: str) -> None:
    for top_p in (1.0, 0.6):
        setting = CheckSetting("table", (table_rows(drafter, top_p=top_p),), auto=top_p < 1)
        findings = [*round_checks(setting, rule, 2000, 1, None, nothing), same_as_decoding(setting, rule, 1)]  # type: ignore[arg-type]
        assert failures(findings) == []


@pytest.mark.parametrize("plant", PLANTS)
def test_every_planted_defect_is_noticed_and_only_under_the_rules_it_breaks(plant: Plant) -> None:
    setting = CheckSetting("table", (table_rows(top_p=0.6),), auto=plant == "dropped-draw")
    noticed = {rule: failures(list(round_checks(setting, rule, 3000, 1, plant, nothing))) for rule in RULES}
    # What is taken back was drawn, so rates of acceptance are off under match and gumbel too, though no token of the text is.
    broken = {"stale-noise": {"block"}, "dropped-draw": set(RULES)}.get(plant, {"rejection", "block"})
    assert {rule for rule, failed in noticed.items() if failed} == broken
    if plant == "dropped-draw":
        assert {text.split(" (")[0] for text in noticed["match"] + noticed["gumbel"]} == {"acceptance of judged positions"}
    assert plant in DESCRIPTIONS


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_synthetic_rows_pass_a_sound_rule(rule: Rule) -> None:
    assert failures(list(round_checks(synthetic_setting(), rule, 5000, 0, None, nothing))) == []


@pytest.mark.parametrize("plant", ["residual-from-p", "stale-noise", "dropped-draw"])
def test_synthetic_rows_show_defects_that_a_pairs_rows_hide(plant: Plant) -> None:
    """With as many texts as --quick plays, and at its level."""
    assert failures(list(round_checks(synthetic_setting(), "block", 5000, 0, plant, nothing)))


def test_a_sampler_that_stops_elsewhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounds that are compared one by one are drafted by the sampler that decoding uses."""
    for rule in RULES:
        assert same_as_decoding(synthetic_setting(), rule, 1).outcome
    monkeypatch.setattr(Sampler, "should_continue", lambda sampler: False)
    assert not same_as_decoding(synthetic_setting(), "rejection", 1).outcome


def test_full_rows_agree_at_the_rate_of_the_closed_form() -> None:
    rows = table_rows()
    for setting in (rows, replace(rows, q=np.sort(rows.q, axis=1))):
        finding = coupling_on_full_rows(CheckSetting("table", (setting,)), 200, 1, nothing)
        assert failures([finding]) == []
        assert "measured" in finding.detail and "theory predicts" in finding.detail


def test_whole_rows_drawn_with_two_noises_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.noise.source import NoiseSource

    argmax, calls = NoiseSource.argmax, iter(range(10**6))

    def alternating(source: NoiseSource, logits: mx.array, scale: float, positions: list[int]) -> mx.array:
        return argmax(source, logits, scale, positions, ("shared", "draft")[next(calls) % 2])

    monkeypatch.setattr(NoiseSource, "argmax", alternating)
    assert failures([coupling_on_full_rows(CheckSetting("table", (table_rows(),)), 200, 1, nothing)])


def test_rows_are_cut_without_losing_mass() -> None:
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.full(1000, 0.1), 9), generator.dirichlet(np.full(1000, 0.1), 8)
    process = process_of([Rows(p, q, q, False, mx.array(p.astype(np.float32)))])
    assert process.vocab_size == LIKELIEST + 1
    assert process.p.sum(axis=1) == pytest.approx(1)
    assert process.q.sum(axis=1) == pytest.approx(1)


def test_rounds_with_other_noise_than_decodings_are_noticed() -> None:
    whole = SimulatedRounds(process_of([table_rows()]), "rejection", "shared-noise")
    positions = np.arange(0, 400, 8)
    played = whole.round(1, positions, np.zeros(len(positions), dtype=np.int64))
    alone = [whole.real_round(1, int(position))[1:] for position in positions]
    assert alone != list(zip(played.accepted.tolist(), played.token.tolist(), strict=True))


# Noise


def noise_findings(seed: int = 5) -> list[Finding]:
    logits = [mx.array(np.random.default_rng(0).normal(size=(3, 301)).astype(np.float32)).astype(mx.bfloat16)]
    return list(noise_checks.known_answers(301, logits, seed, nothing))


def test_the_noise_gives_the_known_answers() -> None:
    assert failures(noise_findings()) == []
    assert len(noise_findings()) == 5


@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("threefry", "hash against published answers"),
        ("TABLE_SHA256", "noise table against its checksum"),
        ("words", "noise words against mx.random.split"),
        ("gumbel", "Gumbel noise and coins against numpy"),
        ("gumbel_argmax", "tokens drawn from real logits against numpy"),
    ],
)
def test_other_noise_is_noticed(broken: str, noticed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = noise_checks.reference
    sound = getattr(reference, broken)

    def mirrored(*arguments: object) -> object:
        made = sound(*arguments)
        return made[::-1] if isinstance(made, (tuple, np.ndarray)) else made

    stand_in: object = "00" if broken == "TABLE_SHA256" else mirrored

    class Broken:
        def __getattr__(self, name: str) -> object:
            return stand_in if name == broken else getattr(reference, name)

    monkeypatch.setattr(noise_checks, "reference", Broken())
    assert noticed in [finding.name for finding in noise_findings() if not finding.outcome]


# Whole decodes and texts, on tiny models


@pytest.fixture(scope="module")
def target(tiny_pair: tuple[str, str]) -> LoadedModel:
    return load(tiny_pair[0])


@pytest.fixture(scope="module")
def drafter(tiny_pair: tuple[str, str]) -> DraftModel:
    return DraftModel(load(tiny_pair[1]), "draft")


@pytest.mark.usefixtures("few_rounds")
def test_a_pair_whose_caches_forget_passes_every_check(tmp_path: Path) -> None:
    """Recurrent layers and sliding windows in one model."""
    name = "recurrent_gemma"

    def made(role: str, seed: int) -> LoadedModel:
        model = tiny(name, seed, vocab_size=VOCABULARY)
        return load(str(write_model(tmp_path / role, model, config_of(name) | {"vocab_size": VOCABULARY})))

    drafter = DraftModel(made("draft", 1))
    amount = replace(LEAST, tokens=6, gammas=(2, "auto"))
    findings = list(run.prove(made("target", 0), drafter, amount, 1, None, quiet, [NGram()]))
    assert failures(findings) == []


def test_a_sound_pair_passes_every_check(target: LoadedModel, drafter: DraftModel) -> None:
    fractions: list[float] = []
    others = [NGram(), NGramMod()]
    report: Callable[[str, float], None] = lambda step, fraction: fractions.append(fraction)  # noqa: E731
    findings = list(run.prove(target, drafter, TINY, SEED_LIMIT - 1, None, report, others))
    assert failures(findings) == []
    same = [finding for finding in findings if finding.name == "same text as without a drafter"]
    assert [finding.setting.split(",")[0] for finding in same] == ["ngram"] * 2 + ["ngram-mod"] * 2 + ["draft"] * 4
    assert all(" 0 tokens proposed" not in finding.detail for finding in same)
    assert all("auto" in finding.setting or "trees" in finding.setting for finding in same)
    assert {finding.rule for finding in findings} == {"", *RULES}
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < 0.1 < 0.9 < fractions[-1] <= 1


@pytest.mark.usefixtures("few_rounds")
def test_a_plant_is_noticed_on_a_pair(target: LoadedModel, drafter: DraftModel) -> None:
    findings = run.prove(target, drafter, replace(TINY, texts=500), 3, "residual-from-p", quiet)
    assert any(not concluded(finding, LEVEL).passed for finding in findings)


@pytest.mark.usefixtures("few_rounds")
def test_a_drafter_without_probabilities_passes_every_check(target: LoadedModel) -> None:
    assert failures(list(run.prove(target, NGram(), TINY, 3, None, quiet))) == []


def test_without_a_drafter_noise_and_plain_decoding_are_checked(target: LoadedModel) -> None:
    plain = list(run.prove(target, None, TINY, 3, None, quiet))
    assert failures(plain) == []
    assert {finding.rule for finding in plain} == {"", "plain"}
    assert all(finding.samples > 0 for finding in plain)


@pytest.mark.parametrize("plant", NEEDS_DISTRIBUTION)
def test_a_defect_of_draws_cannot_be_planted_in_copies(plant: Plant, target: LoadedModel) -> None:
    with pytest.raises(DraftlightError, match="Choose a draft model"):
        next(run.prove(target, NGram(), TINY, 3, plant, quiet))


def test_a_drafter_that_proposes_nothing_cannot_be_checked(target: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NGram, "propose", lambda drafter, plan, sampler: sampler.draft())
    with pytest.raises(DraftlightError, match="ngram proposed nothing"):
        list(run.prove(target, NGram(), TINY, 3, None, quiet))


def test_a_decode_with_a_broken_rule_is_noticed(
    target: LoadedModel, drafter: DraftModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accepting(p: object, q: object, proposals: object, noise: object) -> object:
        """Takes every proposal."""
        return replace(sound(p, q, proposals, noise), accepted=mx.array(2))  # type: ignore[type-var]

    sound = acceptance.JUDGES["rejection"]
    monkeypatch.setitem(acceptance.JUDGES, "rejection", accepting)
    monkeypatch.setattr(one_seed, "RULES", ("gumbel", "rejection"))
    monkeypatch.setattr(one_seed, "drafts_trees", lambda target, drafter: False)
    failed = failures(list(decodes(target, drafter, 0, 70, 1, nothing)))
    assert [text.split(":")[0] for text in failed] == ["decoded tokens against forward passes (rejection)"]


def test_the_law_of_decodes_is_filtered_as_mlx_lm_filters() -> None:
    likely = np.random.default_rng(0).dirichlet(np.full(200, 0.3), 20)
    for row in likely:
        log_row = mx.array(np.log(row + 1e-30).astype(np.float32))[None]
        theirs = apply_top_p(log_row, SETTING.top_p)
        theirs = apply_top_k(apply_min_p(theirs, SETTING.min_p), SETTING.top_k)
        assert np.array_equal(filtered(row), np.array(theirs)[0] > -np.inf)


def test_texts_that_differ_are_noticed_with_their_margin(
    target: LoadedModel, drafter: DraftModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under rejection the text depends on the drafter."""
    monkeypatch.setattr(one_seed, "INVARIANT_RULES", ("gumbel", "rejection"))
    findings = list(one_seed.invariance(target, [drafter], 1, 24, (3,), 5, nothing))
    assert [finding.outcome for finding in findings if "trees" not in finding.setting] == [True, False]
    assert "margin" in findings[2].detail


@pytest.mark.parametrize("side", ["plain", "drafted"])
@pytest.mark.parametrize(("border", "passes"), [(2e-4, True), (0.05, False), (None, False)])
def test_divergence_at_a_filter_border_passes_and_others_fail(
    side: str, border: float | None, passes: bool, target: LoadedModel, drafter: DraftModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The margin is large in all of them, and the target's logits are float32."""

    def decoded(model: object, prompt: object, used: object, *rest: object, **named: object) -> Iterator[SimpleNamespace]:
        mine = border if (used is None) == (side == "plain") else 0.7
        last = Emitted(3 if used is None else 4, "", b"", "plain", margin=0.5, border=mine)
        yield from (SimpleNamespace(emitted=(token,), proposals=()) for token in (replace(last, id=1), replace(last, id=2), last))

    monkeypatch.setattr(one_seed, "decode", decoded)
    findings = list(one_seed.invariance(target, [drafter], 1, 3, (3,), 5, nothing))
    assert [finding.outcome for finding in findings if "trees" not in finding.setting] == [passes, passes]
    assert (f"token 3, border {border}" if passes else "token 3, ") in findings[0].detail


# Through the engine thread


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    made = Engine()
    yield made
    assert made.close(PATIENCE)


def end_of(engine: Engine, task_id: int) -> TaskFinished | TaskFailed:
    while True:
        assert engine.wait(PATIENCE)
        for event in engine.events():
            if isinstance(event, (TaskFinished, TaskFailed)) and event.task_id == task_id:
                return event


@pytest.mark.usefixtures("few_rounds")
def test_the_engine_thread_reports_plain_values(
    engine: Engine, tiny_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(run.AMOUNTS, "quick", LEAST)
    request = ProveRequest(*tiny_pair, seed=2, effort="quick")
    end = end_of(engine, engine.perform(request))
    assert isinstance(end, TaskFinished)
    assert isinstance(end.report, ProofReport)
    assert end.report.passed
    assert end.report.false_alarm == FALSE_ALARM
    assert (end.report.seed, end.report.note, end.report.plant) == (2, "", None)
    assert all(check == check and isinstance(check.samples, int) for check in end.report.checks)


def test_an_unusable_requested_drafter_fails(engine: Engine, tiny_pair: tuple[str, str]) -> None:
    end = end_of(engine, engine.perform(ProveRequest(tiny_pair[0], "nowhere", effort="quick")))
    assert isinstance(end, TaskFailed)


@pytest.mark.usefixtures("few_rounds")
def test_an_unusable_default_drafter_is_replaced(
    engine: Engine, tiny_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(run.AMOUNTS, "quick", LEAST)
    end = end_of(engine, engine.perform(ProveRequest(tiny_pair[0], effort="quick")))
    assert isinstance(end, TaskFinished) and end.report is not None
    assert end.report.drafter == "ngram"
    assert "using ngram instead of head" in end.report.note


def test_a_stopped_task_ends_without_a_report(engine: Engine, tiny_pair: tuple[str, str]) -> None:
    task_id = engine.perform(ProveRequest(tiny_pair[0], "ngram", effort="thorough"))
    engine.stop(task_id)
    end = end_of(engine, task_id)
    assert end == TaskFinished(task_id, None)


@pytest.mark.parametrize(("field", "value"), [("seed", -1), ("effort", "some"), ("plant", "weeds")])
def test_impossible_requests_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        ProveRequest(**{field: value})  # type: ignore[arg-type]
