"""A published head is measured on its first use: at which depths, in which words, and with which effect on an answer's start."""

from __future__ import annotations

from pathlib import Path

from engine.decode.measuring import DEPTHS, depth_words, measure_depths
from engine.decode.policy.adaptive import FIRST_SAMPLED, AdaptivePolicy
from engine.decode.policy.costs import MachineCosts, StoredCosts
from engine.drafters import FeatureHead
from engine.drafters.draft import DrafterCapabilities, Estimate
from engine.models.mtp_model import load_mtp
from engine.types import Gamma
from tests.engine.head_rounds import loaded
from tests.engine.mtp_files import write_published

HEAD = DrafterCapabilities(samples=True, sets_own_length=True)


def test_every_depth_is_measured(tmp_path: Path) -> None:
    target = loaded(write_published(tmp_path / "own", "qwen3_5"))
    head = load_mtp(tmp_path / "own", target)
    shares: list[float] = []
    speeds = measure_depths(target, FeatureHead(head, target), shares.append)
    assert len(speeds) == len(DEPTHS) and all(speed > 0 for speed in speeds)
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1


def test_the_numbers_are_told_in_a_sentence() -> None:
    told = depth_words((30.0, 41.24, 44.0, 39.96))
    assert "30.0 (no proposals in a round), 41.2 (at most 1), 44.0 (at most 2) and 40.0 (at most 3);" in told
    assert "it drafts at most 2 tokens a round at first" in told
    assert "it pauses at first" in depth_words((30.0, 29.0))


def sampled(speeds: tuple[float, ...] | None, gamma: Gamma = "auto", alpha: float | None = None) -> int | None:
    """Returns how many tokens the first round of an answer may sample; None if it is plain."""
    costs = MachineCosts(depths={} if speeds is None else {"mtp": speeds}, alphas={} if alpha is None else {"mtp at 1.0": alpha})
    plan = AdaptivePolicy({"mtp": HEAD}, gamma, costs).plan({"mtp": Estimate()}, 100)
    return None if plan.drafter is None else min(plan.length, plan.max_sampled)


def test_the_fastest_depth_is_that_of_the_first_round() -> None:
    assert [sampled((1, 2, 1, 1)), sampled((1, 2, 3, 1)), sampled((1, 2, 3, 4))] == [1, 2, 3]
    assert sampled(None) == FIRST_SAMPLED


def test_a_head_that_slows_its_target_begins_paused() -> None:
    """A number as gamma is obeyed, and what answers have shown since counts more."""
    slow = (4.0, 3.0, 2.0, 1.0)
    assert sampled(slow) is None
    assert sampled(slow, gamma=3) == 3
    assert sampled(slow, alpha=0.9) is not None
    assert not AdaptivePolicy({"mtp": HEAD}, "auto", MachineCosts(depths={"mtp": slow})).is_drafting


def test_speeds_are_kept_on_disk(tmp_path: Path) -> None:
    stored = StoredCosts(tmp_path / "costs.json")
    stored.of("target").depths["mtp"] = (1.0, 2.0)
    stored.save()
    assert StoredCosts(tmp_path / "costs.json").of("target").depth("mtp") == 1
