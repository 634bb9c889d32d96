"""Checks of the judges on real rows: what they emit follows p, and they accept as often as the closed forms say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from engine import theory
from engine.noise import NoiseSource
from engine.proof.contexts import Rows, Tick
from engine.proof.goodness_of_fit import mean, rates, table
from engine.proof.process import PROPOSALS, SPAN, TOKENS, Played, Process, SimulatedRounds, process_of
from engine.requests.prove import Finding
from engine.statistics import ChiSquare
from engine.types import RULES, Plant, Rule

REAL_ROUNDS = 24
"""Rounds of each rule that are also judged one by one with the noise of a decode."""
CLASSES = 3
"""Joint tables tell apart so many of the likeliest tokens at each position, and the rest."""
SEEDS_APART = 100_000


@dataclass(frozen=True)
class CheckSetting:
    """Rows of several contexts under the same options, and whether the drafter chooses its length."""

    label: str
    contexts: tuple[Rows, ...]
    auto: bool = False


def made_up() -> CheckSetting:
    """Rows of no model, on which defects of the two ratio rules show that a pair's own rows may hide: q is nearly sure and p is
    not, so drafts are long, rejections leave much to draw again, and what is unlikely is drawn often enough."""
    p, q = np.array([0.3, 0.6, 0.1]), np.array([0.02, 0.95, 0.03])
    rows = Rows(np.tile(p, (PROPOSALS + 1, 1)), np.tile(q, (PROPOSALS, 1)), np.tile(q, (PROPOSALS, 1)), False, mx.zeros((0, 3)))
    return CheckSetting("made-up rows, auto", (rows,), auto=True)


def played_rounds(setting: CheckSetting, rule: Rule, draws: int, seed: int, plant: Plant | None, tick: Tick) -> Iterator[Finding]:
    """All checks of one rule under one setting, on `draws` texts."""
    process = process_of(setting.contexts, plant)
    played = SimulatedRounds(process, rule, plant, setting.auto).play(seed + SEEDS_APART * RULES.index(rule), draws, tick)
    for position in range(TOKENS):
        where = f"{setting.label}, token {position + 1}"
        yield Finding("emitted tokens against p", rule, where, draws, _emitted(process, played, position), "total variation")
    yield Finding("three tokens together, in bins", rule, setting.label, draws, _jointly(process, played), "total variation")
    yield _accepted_count(setting.label, played) if rule == "block" else _coupling(setting.label, rule, process, played)


def same_as_decoding(setting: CheckSetting, rule: Rule, seed: int) -> Finding:
    """Rounds played many at once, one by one with the noise and the draws that `decode` uses: equal to the token."""
    whole = SimulatedRounds(process_of(setting.contexts), rule, auto=setting.auto)
    positions = SPAN * np.arange(REAL_ROUNDS)
    played = whole.round(seed, positions, np.zeros(REAL_ROUNDS, dtype=np.int64))
    drafts = [row[:length].tolist() for row, length in zip(played.proposals, played.length, strict=True)]
    together = list(zip(drafts, played.accepted.tolist(), played.token.tolist(), strict=True))
    alone = [whole.real_round(seed, int(position)) for position in positions]
    unequal = sum(one != other for one, other in zip(together, alone, strict=True))
    detail = "" if not unequal else f"{unequal} rounds differ"
    return Finding("rounds as in decoding", rule, setting.label, REAL_ROUNDS, unequal == 0, detail=detail)


def whole_rows_coupled(setting: CheckSetting, seeds: int, seed: int, tick: Tick) -> Finding:
    """Draft and target drawing from whole rows with the same noise agree as often as the closed form says."""
    agreed, trials, chances = [], [], []
    for number, rows in enumerate(setting.contexts):
        if rows.one_hot:
            continue
        with np.errstate(divide="ignore"):
            log_p, log_q = mx.array(np.log(rows.p).astype(np.float32)), mx.array(np.log(rows.q).astype(np.float32))
        count = len(rows.q)
        equal = np.zeros(count, dtype=np.int64)
        for draw in range(seeds):
            tick()
            source = NoiseSource(seed + SEEDS_APART * number + draw, rows.p.shape[1])
            positions = list(range(count))
            target, draft = source.argmax(log_p[:count], 1.0, positions), source.argmax(log_q, 1.0, positions)
            equal += np.array(target == draft)
        agreed.append(equal)
        trials.append(np.full(count, seeds))
        chances.append([theory.gumbel_probability(p, q) for p, q in zip(rows.p[:count], rows.q, strict=True)])
    successes, tried, wanted = np.concatenate(agreed), np.concatenate(trials), np.concatenate(chances)
    detail = f"measured {successes.sum() / tried.sum():.4f}, theory predicts {(tried * wanted).sum() / tried.sum():.4f}"
    outcome = rates(successes, tried, wanted)
    return Finding(
        "coupling on the whole vocabulary", "gumbel", setting.label, int(tried.sum()), outcome, "acceptance rate", detail
    )


def _emitted(process: Process, played: Played, position: int) -> ChiSquare:
    law = process.p[position]
    return table(np.bincount(played.texts[:, position], minlength=len(law)), law)


def _jointly(process: Process, played: Played) -> ChiSquare:
    """All tokens of the texts at once: their law is the product, since positions are independent."""
    law, cells = np.ones(1), np.zeros(len(played.texts), dtype=np.int64)
    for position in range(TOKENS):
        row = process.p[position]
        classes = np.full(len(row), CLASSES)
        classes[np.argsort(-row, kind="stable")[:CLASSES]] = np.arange(min(CLASSES, len(row)))
        law = np.outer(law, np.bincount(classes, weights=row, minlength=CLASSES + 1)).ravel()
        cells = cells * (CLASSES + 1) + classes[played.texts[:, position]]
    return table(np.bincount(cells, minlength=len(law)), law)


def _coupling(label: str, rule: Rule, process: Process, played: Played) -> Finding:
    form = {"match": 0, "gumbel": 1, "rejection": 2}[rule]
    chances = np.array([theory.expected(p, q)[form] for p, q in zip(process.p[:-1], process.q, strict=True)])
    trials = np.bincount(played.position, minlength=PROPOSALS)
    successes = np.bincount(played.position[played.stood], minlength=PROPOSALS)
    judged = int(trials.sum())
    detail = f"measured {successes.sum() / judged:.4f}, theory predicts {(trials * chances).sum() / judged:.4f}"
    outcome = rates(successes, trials, chances)
    return Finding("acceptance of judged positions", rule, label, judged, outcome, "acceptance rate", detail)


def _accepted_count(label: str, played: Played) -> Finding:
    detail = f"measured {played.accepted.mean():.4f} per round, sum of acceptances {played.expected.mean():.4f}"
    outcome = mean(played.accepted - played.expected)
    return Finding("accepted count", "block", label, len(played.accepted), outcome, "accepted count", detail)
