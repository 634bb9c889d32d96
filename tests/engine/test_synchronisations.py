"""How often the host waits for the device in a round, as on a GPU: there everything of a round stays in one lazy graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.sample_utils import make_sampler

from engine.drafters.base import Drafter
from engine.drafters.block import BlockDrafter
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.draft_model import DraftModel
from engine.drafters.feature_head import FeatureHead
from engine.drafters.ngram import NGram
from engine.drafters.sampler import Sampler
from engine.types import DecodingOptions, Round, Rule
from tests import synchronisations
from tests.crossings import crossed
from tests.engine.block_files import PACKAGED, random_block, written
from tests.engine.drafters.test_feature_head import CONFIG, random_head
from tests.engine.small_models import PROMPT, tiny_llama
from tests.lazy_graph import as_on_a_gpu
from tests.synchronisations import counted

TARGET, DRAFT = tiny_llama(0, layers=4), tiny_llama(1)


@pytest.fixture(name="as_on_a_gpu")
def _as_on_a_gpu() -> Iterator[None]:
    with as_on_a_gpu():
        yield


def drafter(name: str) -> Drafter | None:
    made: dict[str, Callable[[], Drafter | None]] = {
        "none": lambda: None,
        "ngram": NGram,
        "draft model": lambda: DraftModel(DRAFT),
        "head": lambda: FeatureHead(random_head(CONFIG), TARGET),
        "block": lambda: BlockDrafter(random_block(), TARGET),
        "block behind a head": lambda: BlockDrafter(random_block(paired=True), TARGET),
    }
    return made[name]()


def rounds_and_waits(drafter: Drafter | None, **options: Any) -> list[tuple[Round, int]]:
    asked = DecodingOptions(**{"seed": 3, "max_tokens": 12, "phase_every": 0, **options})
    return synchronisations.rounds_and_waits(TARGET, PROMPT * 3, drafter, asked)


SETTINGS = (("match", 0.8, False), ("rejection", 0.8, True), ("gumbel", 0.8, True), ("block", 0.8, False), ("match", 0.0, True))


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize(
    ("name", "setting"),
    crossed(["none", "ngram", "draft model", "head", "block", "block behind a head"], SETTINGS, together=1, times=2),
)
def test_a_round_of_a_fixed_gamma_waits_once(name: str, setting: tuple[Rule, float, bool]) -> None:
    rule, temperature, analyse = setting
    found = rounds_and_waits(drafter(name), rule=rule, temperature=temperature, gamma=4, analyse=analyse)
    assert {waits for _, waits in found} == {1}


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize(("rule", "temperature"), [("match", 0.8), ("rejection", 0.8), ("gumbel", 0.8), ("gumbel", 0.0)])
def test_a_round_with_a_tree_waits_once(rule: Rule, temperature: float) -> None:
    found = rounds_and_waits(drafter("draft model"), rule=rule, temperature=temperature, gamma=4, budget=8, width=3)
    assert all(current.is_tree for current, _ in found[:-1])
    assert {waits for _, waits in found} == {1}


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_copy_among_the_candidates_of_a_selector_is_no_further_wait(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["dflash 2"])
    found = rounds_and_waits(BlockDrafter(tmp_path, TARGET), rule="gumbel", temperature=0.8, gamma=4)
    assert {waits for _, waits in found} == {1}


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("name", ["ngram", "draft model", "head", "block", "block behind a head"])
def test_a_round_of_an_automatic_gamma_waits_once_more_for_each_draft_step_that_it_weighs(name: str) -> None:
    for rule in ("gumbel", "rejection"):
        for current, waits in rounds_and_waits(drafter(name), rule=rule, gamma="auto"):
            drawn = sum(not proposal.copied for proposal in current.proposals)
            assert 1 <= waits <= 1 + drawn + (name != "ngram"), "nothing may be proposed of the last level of a tree"


def test_so_often_does_mlx_lm_wait() -> None:
    """The same count of a loop that was written by others: once for each token of the plain loop and each round of the other."""
    sampler = make_sampler(0.8)
    with counted() as count:
        tokens = list(generate_step(mx.array(PROMPT), TARGET, max_tokens=20, sampler=sampler))
    assert count.waits == pytest.approx(len(tokens), abs=2)
    with counted() as count:
        steps = speculative_generate_step(mx.array(PROMPT), TARGET, DRAFT, num_draft_tokens=3, max_tokens=20, sampler=sampler)
        rounds = sum(not from_draft for _, _, from_draft in steps)
    assert count.waits == pytest.approx(rounds, abs=2)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_drafter_that_looks_at_what_it_drew_is_noticed() -> None:
    class Looking(DraftModel):
        def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
            draft = super().propose(plan, sampler)
            np.asarray(draft.tree.drafted)
            return draft

    assert {waits for _, waits in rounds_and_waits(Looking(DRAFT), gamma=3)} == {2}
