"""Claims about auto as a drafter: it uses whichever of its members gains most, says which, and shows in no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from engine.decode import loop
from engine.decode.decoding import DecodingOptions, decode
from engine.decode.policy.adaptive import MOST_SAMPLED, AdaptivePolicy
from engine.decode.policy.costs import MachineCosts
from engine.decode.policy.estimates import Extra
from engine.drafters import DraftModel, NGram
from engine.drafters.automatic import Automatic
from engine.drafters.draft import Draft, DrafterCapabilities, DraftPlan, DraftTree, Estimate
from engine.lens.outlook_words import explanation
from engine.rounds.codec import round_from_json, round_to_json
from engine.rounds.metrics import summarise, violations
from engine.types import Round
from tests.engine.decode.policy.test_automatic_length import SIMILAR, Case
from tests.engine.small_models import PROMPT, emitted_ids, round_of, tiny_llama
from tests.engine.test_distribution_of_text import FALSE_ALARM

TARGET, SMALL = tiny_llama(1), tiny_llama(2, layers=1)
OPTIONS = DecodingOptions(max_tokens=60, gamma="auto", seed=5, analyse=False)


pytestmark = pytest.mark.usefixtures("steady_clock")


def three() -> Automatic:
    return Automatic([NGram(), DraftModel(TARGET, "same"), DraftModel(SMALL, "small")])


# The choice, by a script


class Known(MachineCosts):
    """Costs and acceptance rates that a test says: a proposal costs 0.05 plain rounds and its step."""

    def __init__(self, steps: Mapping[str, float], alphas: Mapping[str, float] = MappingProxyType({})) -> None:
        super().__init__(rows={1: 50.0})
        self.shares, self.known = steps, alphas

    def extra(self, drafter: str, samples: bool) -> Extra:
        return lambda gamma, passes=None: (0.05 + self.shares.get(drafter, 0.0)) * gamma

    def alpha(self, drafter: str, temperature: float) -> float | None:
        return self.known.get(drafter)


SAMPLER = DrafterCapabilities(samples=True)
COPIER = DrafterCapabilities(samples=False, copies=True, sets_own_length=True)


def drafted_by(name: str | None) -> Draft:
    return Draft(DraftTree.plain(0, 1), proposer=name)


class Contest:
    """Rounds with scripted alphas and costs of members that sample, and now and then a copy that is sure."""

    def __init__(self, alphas: Callable[[int], Mapping[str, float]], steps: Mapping[str, float], copies: float = 0.0) -> None:
        self.alphas, self.steps, self.copies = alphas, steps, copies

    def run(self, rounds: int, members: Sequence[str] | None = None, seed: int = 3) -> tuple[float, list[str]]:
        """Tokens in the time of a plain round, and who proposed."""
        names = list(members or (*self.steps, "copies"))
        costs = Known(self.steps)
        policy = AdaptivePolicy({name: COPIER if name == "copies" else SAMPLER for name in names}, "auto", costs)
        tokens, spent, who = 0, 0.0, []
        for index in range(rounds):
            generator = np.random.default_rng((seed, index))  # a round has the same luck, whoever proposes
            estimates = {name: Estimate() for name in names}
            copied = bool(generator.random() < self.copies)
            if copied and "copies" in estimates:
                estimates["copies"] = Estimate((0.95,) * 8)
            plan = policy.plan(estimates, 64)
            name, gamma = plan.drafter, plan.length
            alpha = 0.95 if name == "copies" else self.alphas(index)[name] if name is not None else 0.0
            accepted = min(int(generator.geometric(1 - alpha)) - 1, gamma) if gamma else 0
            time = 1 + (costs.extra(name, True)(gamma) if name is not None else 0.0)
            finished = round_of(accepted, gamma, 50 * time * generator.normal(1, 0.05))
            policy.update(replace(finished, index=index, proposer=name), drafted_by(name))
            tokens, spent = tokens + accepted + 1, spent + time
            who.append(name or "nobody")
        return tokens / spent, who


@pytest.mark.parametrize(
    ("alphas", "steps", "best"),
    [
        ({"head": 0.6, "model": 0.7}, {"head": 0.05, "model": 0.4}, "head"),
        ({"head": 0.3, "model": 0.8}, {"head": 0.05, "model": 0.1}, "model"),
        ({"head": 0.05, "model": 0.1}, {"head": 0.3, "model": 0.6}, "nobody"),
    ],
)
@pytest.mark.parametrize("copies", [pytest.param(0.0, marks=pytest.mark.full), 0.25])
def test_it_is_as_fast_as_the_best_member_and_uses_that(
    alphas: Mapping[str, float], steps: Mapping[str, float], best: str, copies: float
) -> None:
    contest = Contest(lambda index: alphas, steps, copies)
    runs = [contest.run(250, seed=seed) for seed in range(6)]
    speed, who = float(np.mean([speed for speed, _ in runs])), [name for _, names in runs for name in names]
    singles = [float(np.mean([contest.run(250, [name], seed)[0] for seed in range(6)])) for name in (*steps, "copies")]
    assert speed > 0.97 * max(*singles, 1.0)
    others = [name for name in who if name != "copies"]
    assert Counter(others).most_common(1)[0][0] == best
    assert abs(who.count("copies") / len(who) - copies) < 0.07
    if copies and best != "nobody":
        assert speed > max(singles), "copies and draws together are faster than either"


@pytest.mark.parametrize(("unread", "first"), [(0, "model"), (400, "head"), (2000, "head")])
def test_a_long_prompt_is_not_read_for_a_little_gain(unread: int, first: str) -> None:
    policy = AdaptivePolicy({"head": SAMPLER, "model": SAMPLER}, "auto", Known({"head": 0.1, "model": 0.08}))
    estimates = {"head": Estimate(), "model": Estimate(unread=unread)}
    chosen = []
    for index in range(21):
        chosen.append(policy.plan(estimates, 64).drafter)
        accepted, gamma, time = (0, 0, 50.0) if chosen[-1] is None else (1, 2, 60.0)
        policy.update(replace(round_of(accepted, gamma, time), index=index, proposer=chosen[-1]), drafted_by(chosen[-1]))
    assert chosen[0] == first
    assert ("model" in chosen) == (not unread)


def test_a_model_that_is_far_better_is_worth_a_long_prompt() -> None:
    costs = Known({"head": 0.05, "model": 0.05}, {"head": 0.2, "model": 0.9})
    policy = AdaptivePolicy({"head": SAMPLER, "model": SAMPLER}, "auto", costs)
    assert policy.plan({"head": Estimate(), "model": Estimate(unread=2000)}, 64).drafter == "model"


def test_it_changes_over_when_another_does_better() -> None:
    alphas = ({"head": 0.8, "model": 0.2}, {"head": 0.1, "model": 0.8})
    _, who = Contest(lambda index: alphas[index >= 200], {"head": 0.1, "model": 0.1}).run(500)
    assert Counter(who[100:200]).most_common(1)[0][0] == "head"
    assert Counter(who[350:]).most_common(1)[0] == ("model", who[350:].count("model")) and who[350:].count("model") > 120


# In decoding


@pytest.mark.parametrize("gamma", ["auto", 3])
def test_the_text_is_the_plain_one_wherever_it_depends_on_no_drafter(gamma: Any) -> None:
    for rule, temperature in (("match", 0.8), ("gumbel", 0.8), ("block", 0.0)):
        options = OPTIONS.replace(rule=rule, gamma=gamma, temperature=temperature, max_tokens=40)
        rounds = list(decode(TARGET, PROMPT, three(), options))
        assert emitted_ids(rounds) == emitted_ids(list(decode(TARGET, PROMPT, None, options)))
        assert {round_.drafter for round_ in rounds} == {"auto"}
        assert all((round_.proposer is None) == (not round_.proposals) for round_ in rounds)
        assert not violations(rounds)


def test_rounds_say_who_proposed_and_what_was_weighed() -> None:
    rounds = list(decode(TARGET, PROMPT, three(), OPTIONS.replace(temperature=0.0, max_tokens=120)))
    proposers = {round_.proposer for round_ in rounds if round_.proposals}
    assert len(proposers) > 1 and proposers <= {"ngram", "same", "small"}
    for round_ in rounds:
        assert round_from_json(round_to_json(round_)) == round_
        if round_.proposer == "ngram":
            assert all(proposal.copied for proposal in round_.proposals)
    told = [round_ for round_ in rounds if round_.outlook is not None]
    assert told and all(round_.outlook.drafter in explanation(round_) or round_.outlook.copies for round_ in told)
    assert summarise(rounds).predicted_tau is not None


def test_a_model_that_was_left_behind_catches_up_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at first and again after it was left behind; being the target, it then proposes what that says."""
    turns = iter([*["same"] * 3, *[None] * 45, *["same"] * 100])
    monkeypatch.setattr(AdaptivePolicy, "plan", lambda self, estimates, room: DraftPlan(next(turns), min(2, max(1, room))))
    rounds = list(decode(TARGET, PROMPT, three(), OPTIONS.replace(temperature=0.0, gamma=2, max_tokens=90)))
    asked = [round_ for round_ in rounds if round_.proposals]
    assert len(asked) > 12 and all(round_.accepted == len(round_.proposals) for round_ in asked)


class Fickle(AdaptivePolicy):
    """Who drafts depends on the last verdict as much as it can."""

    last: Round | None = None

    def plan(self, estimates: Mapping[str, Estimate], room: int) -> DraftPlan:
        wanted: str | None = "draft"
        if self.last is not None and self.last.rejected:
            wanted = "ngram" if estimates["ngram"].chances and self.last.proposer != "ngram" else None
        return DraftPlan(wanted, min(MOST_SAMPLED, room), MOST_SAMPLED, is_adaptive=True)

    def update(self, finished: Round, draft: Draft) -> None:
        self.last = finished
        super().update(finished, draft)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_text_follows_the_target_however_drafters_take_turns(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    single = SIMILAR["draft model"]
    whos: list[str | None] = []

    def make(p: tuple[float, ...], q: tuple[float, ...]) -> tuple[Any, Any]:
        target, drafter = single.make(p, q)
        drafter.name = "draft"
        return target, Automatic([NGram(), drafter])

    class Watched(Fickle):
        def update(self, finished: Round, draft: Draft) -> None:
            whos.append(finished.proposer)
            super().update(finished, draft)

    monkeypatch.setattr(loop, "AdaptivePolicy", Watched)
    case = Case(single.p, (0.4, 0.2, 0.4), make)
    assert case.p_value(case.text(rule)) > FALSE_ALARM
    assert set(whos) == {"ngram", "draft", None} and sum(one != other for one, other in pairwise(whos)) > 60
