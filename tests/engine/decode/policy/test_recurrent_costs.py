"""Claim: the adaptive policy drafts less where taking tokens back is dear, as with recurrent layers, which read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.decode import run_control
from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.policy.estimates import Cost
from engine.target.prompt_cache import make_prompt_cache
from engine.target.recurrent_cache import RecurrentCache
from engine.types import DecodingOptions
from tests.engine.families import VOCAB, Scripted
from tests.engine.family_checks import Family
from tests.engine.small_models import PROMPT, OnAClock, emitted_ids, same_up_to_near_ties


@pytest.fixture(scope="module")
def recurrent() -> Family:
    return Family("lfm2", 250)


def mean_gamma(family: Family, milliseconds: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Proposals a round, once it has learned, where taking tokens back takes so long.

    The drafter is wrong at two tokens of five. A replay is lazy: the next pass takes its time. Where last bits lead the text
    elsewhere, the drafter would be wrong from there on: it then gets that text.
    """
    target = OnAClock(family.model)

    class OfTarget(run_control.Clock):
        def __call__(self) -> float:
            return target.now - self._away

    layers = sum(isinstance(layer, RecurrentCache) for layer in make_prompt_cache(family.model))
    wrong = np.random.default_rng(5).random(len(PROMPT) + family.length) < 0.4
    wanted = family.greedy
    with monkeypatch.context() as patch:
        sound = RecurrentCache._read_again

        def dear(cache: RecurrentCache, *arguments: Any) -> None:
            target.owed += milliseconds / 1e3 / layers
            sound(cache, *arguments)

        patch.setattr(RecurrentCache, "_read_again", dear)
        options = DecodingOptions(temperature=0, gamma="auto", max_tokens=family.length, phase_every=0)
        for _ in range(5):
            text = [(token + bool(flip)) % VOCAB for token, flip in zip([*PROMPT, *wanted], wrong, strict=True)]
            context = DecodeContext(target, PROMPT, Scripted(text, len(text)), options, clock=OfTarget())
            rounds = list(DecodeLoop(context).rounds())
            if same_up_to_near_ties(rounds, wanted):
                return float(np.mean([len(current.proposals) for current in rounds[len(rounds) // 2 : -1]]))
            wanted = emitted_ids(rounds)
    raise AssertionError("every text is another one")


def test_drafts_are_shorter_where_recurrent_layers_read_again(recurrent: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    free, dear = mean_gamma(recurrent, 0, monkeypatch), mean_gamma(recurrent, 60, monkeypatch)
    assert dear < free - 1
    monkeypatch.setattr(Cost, "learn", lambda self, proposals, relative, passes=None: None)
    assert mean_gamma(recurrent, 60, monkeypatch) > free - 1, "this test would not notice that it is not counted"
