"""Claims about passes that are queued ahead: only without a drafter, dropped where one joins, and timed where they belong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.decode import decoding, run_control
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.drafters import Drafter, DraftModel, DraftPlan, NGram
from engine.target import prompt_cache
from tests.engine.small_models import PROMPT, OnAClock, emitted_ids, tiny_llama


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> OnAClock:
    """A model whose passes alone take time."""
    made = OnAClock(tiny_llama(1))
    monkeypatch.setattr(run_control, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


@pytest.mark.parametrize("drafter", [None, NGram(), DraftModel(tiny_llama(2, layers=1))])
@pytest.mark.parametrize("phase_every", [0, 3])
def test_passes_are_queued_ahead_without_a_drafter_only(
    phase_every: int, drafter: Drafter | None, target: OnAClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is the same, and each pass counts for the round that it is of, though all of it goes by in the round that queues
    it, as most of it does on the CPU back-end."""
    monkeypatch.setattr(AdaptivePolicy, "plan", lambda policy, estimates, room: DraftPlan(None))
    options = decoding.DecodingOptions(
        seed=3, gamma="auto", temperature=1.5, max_tokens=20, analyse=False, phase_every=phase_every
    )
    rounds = list(decoding.decode(target, PROMPT, drafter, options))
    assert emitted_ids(rounds) == emitted_ids(list(decoding.decode(tiny_llama(1), PROMPT, None, options)))
    staged = [round_.milliseconds.verify is not None for round_ in rounds]
    assert any(staged) == bool(phase_every)
    assert [round_.queued for round_ in rounds] == [drafter is None and index > 0 and not staged[index] for index in range(20)]
    for round_ in rounds:
        times = round_.milliseconds
        assert times.total == pytest.approx(20 + 2 * round_.rows)
        assert times.verify is None or times.judge == pytest.approx(0), "nor is it part of a stage of the round before"


@pytest.mark.parametrize("follower", [NGram(), DraftModel(tiny_llama(2, layers=1)), None])
def test_a_pass_that_was_queued_is_dropped_where_a_drafter_comes(
    follower: Drafter | None, target: OnAClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, used = prompt_cache.show_newest, list[int]()
    monkeypatch.setattr(prompt_cache, "show_newest", lambda cache: (used.append(1), shown(cache)))
    options = decoding.DecodingOptions(seed=3, max_tokens=20, analyse=False, phase_every=0)
    control, ended = decoding.Control(), 0.0
    for round_ in decoding.decode(target, PROMPT, None, options, control=control):
        joins = round_.index == 4 and follower is not None
        assert bool(used) is (round_.index > 0 and (follower is None or round_.index < 4))
        used.clear()
        assert round_.milliseconds.total == pytest.approx(20 + 2 * round_.rows)
        assert round_.started == pytest.approx(ended + 22 * joins), "the pass that was queued in vain counts for no round"
        ended = round_.started + round_.milliseconds.total
        if round_.index == 3:
            control.update(drafter=follower)


def test_a_pass_that_was_queued_in_vain_counts_for_the_last_round(target: OnAClock) -> None:
    options = decoding.DecodingOptions(seed=3, max_tokens=40, analyse=False, phase_every=0)
    text = emitted_ids(list(decoding.decode(target, PROMPT, None, options)))
    last = next(place for place, token in enumerate(text) if place > 8 and token not in text[:place])
    rounds = list(decoding.decode(target, PROMPT, None, options, eos_ids=[text[last]]))
    assert [round(each.milliseconds.total, 6) for each in rounds] == [22.0] * last + [44.0] and rounds[-1].finish == "eos"
