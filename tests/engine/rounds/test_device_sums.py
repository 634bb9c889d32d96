"""What a device works out of a round is what numpy finds in its logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import mlx.core as mx
import numpy as np
import pytest

from engine import host, theory
from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.outcome import RoundOutcome
from engine.drafters import DraftModel, NGram
from engine.drafters.base import Drafter
from engine.rounds import analysis, device_sums
from engine.rounds.device_sums import DeviceSums, Sums, likeliest
from engine.rounds.record import analysed
from engine.types import RULES, DecodingOptions, Expected, Proposal, Round
from tests.engine.tabular import TabularModel
from tests.lazy_graph import as_on_a_gpu

WIDTH = 6_001
PROMPT = [1, 2, 3, 1, 2]
FILTERS: dict[str, Any] = {"top_k": 40, "top_p": 0.9, "min_p": 0.002}


CONTEXTS = 4


def tables(width: int = WIDTH, spread: float = 2.0, apart: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Logits of target and drafter after each two tokens, as a language model's: a few likely tokens above many."""
    generator = np.random.default_rng(width)
    target = generator.normal(0.0, spread, (CONTEXTS, CONTEXTS, width))
    for row in target.reshape(-1, width):
        row[generator.integers(width, size=30)] += generator.exponential(3.0, 30)
        row[:CONTEXTS] += 8.0  # so that the text stays among them
    return target, target + generator.normal(0.0, apart, target.shape)


def rounds(
    kind: str,
    seed: int = 5,
    told: tuple[np.ndarray, np.ndarray] | None = None,
    **options: Any,
) -> list[Round]:
    """Of an answer."""
    return [outcome.whole() for outcome in outcomes(kind, seed, told, **options)]


def outcomes(
    kind: str, seed: int = 5, told: tuple[np.ndarray, np.ndarray] | None = None, **options: Any
) -> Iterator[RoundOutcome]:
    """The same before they are analysed."""
    target, draft = (TabularModel(table) for table in (told or tables()))
    makers: dict[str, Callable[[], Drafter | None]] = {"model": lambda: DraftModel(draft), "ngram": NGram, "none": lambda: None}
    asked = DecodingOptions(**{"seed": seed, "temperature": 0.8, "gamma": 4, "max_tokens": 24, "phase_every": 0, **options})
    yield from DecodeLoop(DecodeContext(target, PROMPT, makers[kind](), asked)).outcomes()


def figures(part: Any) -> dict[str, Any]:
    """What the analysis told of a token or a proposal: numbers, and ids."""
    names = ("p", "q", "acceptance", "entropy", "margin", "border", "target_draw", "coupled_draw", "independent_draw")
    found = {name: getattr(part, name) for name in names if hasattr(part, name)}
    for name in ("target_top", "draft_top"):
        for place, candidate in enumerate(getattr(part, name, ())):
            found |= {f"{name} {place}": candidate.id, f"chance of {name} {place}": candidate.probability}
    return found


def same(first: Any, second: Any) -> None:
    told, other = figures(first), figures(second)
    assert told.keys() == other.keys()
    for name, value in told.items():
        if isinstance(value, float) and other[name] is not None:
            assert value == pytest.approx(other[name], rel=2e-4, abs=2e-5), name
        else:
            assert value == other[name], name


ON_THE_CPU = pytest.mark.skipif(not host.computes_on_host(), reason="a GPU leaves nothing to numpy")


@ON_THE_CPU
@pytest.mark.parametrize("filters", [{}, FILTERS], ids=["unfiltered", "filtered"])
@pytest.mark.parametrize("kind", ["model", "ngram", "none"])
@pytest.mark.parametrize(
    ("rule", "temperature"), [*((rule, 0.8) for rule in RULES), ("gumbel", 0.0), ("block", 0.0), ("match", 1.7)]
)
def test_a_round_is_told_alike_by_a_device_and_by_numpy(
    rule: str, temperature: float, kind: str, filters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_numpy = rounds(kind, rule=rule, temperature=temperature, **filters)
    made = []
    row = analysis.row
    monkeypatch.setattr(analysis, "row", lambda *given: made.append(given) or row(*given))
    with as_on_a_gpu():
        by_device = rounds(kind, rule=rule, temperature=temperature, **filters)
    assert not made, "the host looked at all logits of a row"
    assert [current.text for current in by_device] == [current.text for current in by_numpy]
    for told, other in zip(by_device, by_numpy, strict=True):
        told_alike(told, other)
    if kind == "model":
        assert any(current.expected for current in by_device)


def told_alike(told: Round, other: Round) -> None:
    for token, twin in zip((*told.emitted, *told.proposals), (*other.emitted, *other.proposals), strict=True):
        assert token.id == twin.id
        same(token, twin)
    for found, exact in zip(told.expected, other.expected, strict=True):
        assert found.match == pytest.approx(exact.match, abs=1e-5)
        assert found.rejection == pytest.approx(exact.rejection, abs=1e-5)
        assert found.gumbel == pytest.approx(exact.gumbel, abs=1.1e-4)


@pytest.mark.parametrize("filters", [{}, FILTERS], ids=["unfiltered", "filtered"])
@pytest.mark.parametrize("rule", RULES)
def test_a_round_is_told_alike_of_sums_and_of_the_rows_behind_them(rule: str, filters: dict[str, Any]) -> None:
    """On whatever device this runs, a GPU too: each round once of what the device has summed up, and once of its logits."""
    with as_on_a_gpu():
        incomplete: list[Any] = [outcome.complete for outcome in outcomes("model", rule=rule, **filters)]
    assert len(incomplete) > 3
    for complete in incomplete:
        round_, sight, options, text_of = complete.args
        assert sight.sums is not None
        # What rejection compared its coins with is no sum that is shown.
        of_rows = replace(sight, sums=None, acceptance=sight.acceptance if rule == "rejection" else None)
        told_alike(complete(), analysed(round_, of_rows, options, text_of))


@ON_THE_CPU
def test_a_sum_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above notices a hundredth of any sum: that is more than twice what it allows."""
    on_host = DeviceSums.on_host

    def damaged(name: str) -> Callable[[DeviceSums], Sums]:
        def damaging(sums: DeviceSums) -> Sums:
            made = on_host(sums)
            return Sums({**made.arrays, name: made.arrays[name] * 0.99})

        return damaging

    for name, what in (("p_masses", "gumbel"), ("match", "match"), ("rejection", "rejection"), ("entropy", "entropy")):
        exact = rounds("model", rule="gumbel", temperature=1.7)
        monkeypatch.setattr(DeviceSums, "on_host", damaged(name))
        monkeypatch.setattr(theory, "GATHERED_TOLERANCE", 1.0)
        with as_on_a_gpu():
            told = rounds("model", rule="gumbel", temperature=1.7)
        monkeypatch.undo()
        found, right = (
            [token.entropy for current in each for token in current.emitted]
            if what == "entropy"
            else [getattr(closed, what) for current in each for closed in current.expected]
            for each in (told, exact)
        )
        assert max(abs(one - other) for one, other in zip(found, right, strict=True)) > 4e-5, name


def sums_of(p: np.ndarray, q: np.ndarray) -> Sums:
    """Of probabilities, (rows, vocab) each."""
    known = mx.concatenate([likeliest(mx.array(side, mx.float32), device_sums.LIKELIEST)[0] for side in (p, q)], axis=-1)
    made = device_sums._together(mx.array(p, mx.float32), mx.array(q, mx.float32), known)
    return DeviceSums(made).on_host()


LITTLE = 1.5 * theory.GATHERED_TOLERANCE
"""On the CPU some of it is what MLX's sums in float32 are off by."""


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def lies_between(p: np.ndarray, q: np.ndarray, rounding: float = 2e-6) -> float:
    """Each row's exact closed form does; the largest difference of the bounds."""
    sums = sums_of(p, q)
    widest = 0.0
    for index in range(len(p)):
        exact = theory.gumbel_probability(p[index], q[index])
        arrays = {name: array[index] for name, array in sums.arrays.items()}
        first = np.unique(arrays["known"], return_index=True)[1]
        known = arrays["p_known"][first].astype(np.float64), arrays["q_known"][first].astype(np.float64)
        groups = arrays["p_masses"] * device_sums.MASS_UNIT, arrays["q_masses"] * device_sums.MASS_UNIT
        rest = float(arrays["p_rest"]), float(arrays["q_rest"])
        lower, upper = theory.gumbel_bounds(known, rest, groups, *(arrays[name].view(np.float32) for name in ("least", "most")))
        assert lower - rounding <= exact <= upper + rounding
        widest = max(widest, upper - lower)
        told = sums.expected(index, lambda: Expected(-1.0, -1.0, -1.0))
        assert (told.gumbel < 0) == (upper - lower > theory.GATHERED_TOLERANCE)
        if told.gumbel >= 0:
            assert exact == pytest.approx(told.gumbel, abs=theory.GATHERED_TOLERANCE)
            assert told.match == pytest.approx(theory.match_probability(p[index], q[index]), rel=1e-4)
            assert told.rejection == pytest.approx(theory.rejection_probability(p[index], q[index]), rel=3e-4)
    return widest


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("apart", [0.0, 0.05, 0.7, 4.0, 30.0])
def test_the_exact_closed_form_lies_between_the_bounds(spread: float, apart: float) -> None:
    """Against the sorted sum over all tokens in float64, from distributions that agree to such that hardly meet; some tokens have
    no probability on one side, or on both."""
    generator = np.random.default_rng(7)
    logits = generator.normal(0.0, spread, (6, 20_000))
    sides = [logits, logits + generator.normal(0.0, apart, logits.shape)]
    sides[0][:, ::7] = sides[1][:, ::5] = -np.inf
    assert lies_between(softmax(sides[0]), softmax(sides[1])) <= LITTLE


@pytest.mark.parametrize("apart", [0.05, 0.3, 1.0])
def test_few_different_ratios_leave_little_open(apart: float) -> None:
    """Logits in bfloat16: many tokens have one ratio, in the middle of its group."""
    generator = np.random.default_rng(3)
    logits = 25.0 - np.log(np.arange(1, 20_001)) + generator.normal(0.0, 0.5, (3, 20_000))
    p, q = (
        (side.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
        for side in (logits, logits + generator.normal(0.0, apart, logits.shape))
    )
    assert lies_between(softmax(p), softmax(q)) <= LITTLE


@pytest.mark.parametrize("units", [0.4, 0.501, 0.6, 1.51, 2.51])
def test_masses_that_are_rounded_alike_are_no_silent_fault(units: float) -> None:
    """A flat tail, each token of which is rounded up, or down to nothing: what is added or lost makes the bounds wider."""
    tail = np.full((1, 100_000), units * device_sums.MASS_UNIT)
    heads = np.array([[0.7, 0.2, 0.1]]), np.array([[0.2, 0.3, 0.5]])
    p, q = (np.concatenate([head * (1 - tail.sum()), tail], axis=-1) for head in heads)
    lies_between(p, q)
    lies_between(q, np.concatenate([heads[0], np.zeros_like(tail)], axis=-1))


def test_where_groups_leave_too_much_open_rows_are_asked() -> None:
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.ones(300), (2, 1))
    sums = sums_of(p, q)
    nothing = np.zeros_like(sums.arrays["p_masses"])
    asked = Expected(0.1, 0.2, 0.3)
    assert sums.expected(0, lambda: asked) != asked
    assert Sums({**sums.arrays, "p_masses": nothing, "q_masses": nothing}).expected(0, lambda: asked) is asked


@pytest.mark.parametrize("top_p", [0.9, 0.999])
def test_a_border_of_top_p_keeps_its_digits_among_large_logits(top_p: float) -> None:
    """Against float64: what is below a token near the border is little, and no difference of two sums."""
    generator = np.random.default_rng(4)
    logits = np.concatenate([generator.normal(106.0, 1.0, 40), generator.normal(94.0, 1.0, 4_000)]).astype(np.float32)[None]
    listed, values = likeliest(mx.array(logits), 64)
    arrays = {
        "unfiltered_values": np.asarray(values),
        "unfiltered_rest": np.asarray(device_sums._rest(mx.array(logits), listed)),
    }
    options = DecodingOptions(top_p=top_p, seed=1)
    a_round = rounds("none", max_tokens=1)[0]
    found = 0
    for token in np.argsort(-logits[0])[:40]:
        own = Sums({**arrays, "unfiltered_token": logits[0, token]})
        border = own.border(0, a_round, options, lambda: pytest.fail("the row is asked"))
        exact = analysis.border(logits[0].astype(np.float64), int(token), options)  # type: ignore[arg-type]
        assert (border is None) == (exact is None)
        if border is not None and exact is not None:
            assert border == pytest.approx(exact, abs=2e-5)
            found += exact > 0
    assert found


@pytest.mark.parametrize("width", [3, 16, 64, 1_000, 1_087, 20_000])
def test_the_likeliest_are_those_that_sorting_finds(width: int) -> None:
    generator = np.random.default_rng(width)
    for coarse in (False, True):
        logits = generator.normal(size=(3, width)).astype(np.float32)
        if coarse:  # many are equal, as in bfloat16
            logits = np.round(logits * 2) / 2
        logits[1, generator.integers(width, size=width // 2)] = -np.inf
        logits[2, 1:] = -np.inf
        ids, values = (np.asarray(found) for found in likeliest(mx.array(logits), 16))
        count = min(16, width)
        assert ids.shape == values.shape == (3, count)
        assert np.array_equal(values, np.sort(logits, axis=-1)[:, ::-1][:, :count])
        assert np.array_equal(np.take_along_axis(logits, ids, axis=-1), values)
        assert all(len(set(row.tolist())) == count for row in ids)


@ON_THE_CPU
def test_of_tokens_that_are_equally_likely_the_lowest_ids_are_told() -> None:
    """More of them than the host gets: then it looks at the row."""
    target, draft = tables(900, apart=0.0)
    target[..., 100:200] = 20.0
    draft[:] = target
    options = {"rule": "match", "gamma": 2, "max_tokens": 8}
    by_numpy = rounds("model", told=(target, draft), **options)
    with as_on_a_gpu():
        by_device = rounds("model", told=(target, draft), **options)
    tops = [
        [[one.id for one in each.target_top] for current in told for each in current.proposals] for told in (by_numpy, by_device)
    ]
    assert tops[0] == tops[1]
    assert any(top == [100, 101, 102, 103, 104] for top in tops[0])


@ON_THE_CPU
def test_a_border_among_more_tokens_than_the_host_gets_is_found_in_the_row() -> None:
    """Under top-p, hundreds of tokens are nearly as likely as the one that was drawn."""
    target, draft = np.random.default_rng(1).normal(0.0, 0.2, (2, CONTEXTS, CONTEXTS, 3_000))
    options: dict[str, Any] = {"rule": "match", "top_p": 0.5, "temperature": 1.0}
    by_numpy = rounds("model", told=(target, draft), **options)
    asked = []
    border = analysis.border
    with as_on_a_gpu(), patch.object(analysis, "border", lambda *given: asked.append(given) or border(*given)):
        by_device = rounds("model", told=(target, draft), **options)
    assert asked
    borders = [[token.border for current in told for token in current.emitted] for told in (by_numpy, by_device)]
    assert borders[0] == pytest.approx(borders[1])


@ON_THE_CPU
def test_rows_without_a_finite_logit_behind_the_rejected_proposal_break_nothing() -> None:
    target, draft = tables(500, apart=3.0)
    target[1, 1] = np.nan
    draft[..., 1] += 3.0  # so that it is often proposed twice, and rows behind that are not numbers
    ended = []
    for seed in range(12):
        told: list[Any] = []
        for device in (False, True):
            try:
                with as_on_a_gpu() if device else nullcontext():
                    made = rounds("model", seed=seed, told=(target, draft), rule="rejection", max_tokens=8)
            except Exception as error:
                told.append(str(error))
            else:
                told.append([replace_unknown(proposal) for current in made for proposal in current.proposals])
        assert told[0] == told[1]
        ended.append(isinstance(told[0], str))
    assert not all(ended)


def replace_unknown(proposal: Proposal) -> tuple[int, bool]:
    """Its id, and whether its p is known."""
    return replace(proposal).id, proposal.p is not None
