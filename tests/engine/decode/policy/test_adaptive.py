"""Claims about the adaptive policy: it drafts where that is faster, as long as pays, and says by which figures it decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode import decoding
from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.policy import adaptive, estimates
from engine.decode.policy.adaptive import FIRST_PAUSE, LONGEST_PAUSE, MOST_SAMPLED, AdaptivePolicy
from engine.decode.policy.costs import MachineCosts
from engine.decode.policy.estimates import DECAY, HIGHEST, Acceptance, Cost, Extra, speed
from engine.drafters import NGram
from engine.drafters.draft import Draft, DrafterCapabilities, DraftPlan, DraftTree, Estimate
from engine.rounds.tree_theory import tree_bound
from engine.target.distribution import OneHot
from engine.types import Outlook, Round
from engine.values.tree_shape import TreeShape, chances_by_rank
from tests.engine.small_models import PROMPT, round_of, tiny_llama

PLAIN = 50.0
SAMPLER = DrafterCapabilities(samples=True)
COPIER = DrafterCapabilities(samples=False, copies=True, sets_own_length=True)


class Known(MachineCosts):
    """What earlier answers and measurements would have shown of a drafter."""

    def __init__(self, extra: Extra | None, alpha: float | None = None) -> None:
        super().__init__(rows={} if extra is None else {1: PLAIN})
        self._known_extra, self._known_alpha = extra, alpha

    def extra(self, drafter: str, samples: bool) -> Extra | None:
        return self._known_extra

    def alpha(self, drafter: str, temperature: float) -> float | None:
        return self._known_alpha


def policy(extra: Extra | None = None, alpha: float | None = None, kind: DrafterCapabilities = SAMPLER) -> AdaptivePolicy:
    return AdaptivePolicy({"d": kind}, "auto", Known(extra, alpha))


def plan_of(chooser: AdaptivePolicy, copies: Sequence[float] = ()) -> DraftPlan:
    return chooser.plan({"d": Estimate(tuple(copies))}, 1000)


def drafted(chances: Sequence[float] = ()) -> Draft:
    return Draft(DraftTree.copied(0, [0] * len(chances), 1), chances)


@dataclass
class Machine:
    """Rounds of scripted acceptance and cost, without a clock.

    Attributes:
        alpha: acceptance rate by the number of the round.
        extra: cost of proposals in plain rounds.
        noise: standard deviation of a round's time, as a share of it.
    """

    alpha: Callable[[int], float]
    extra: Extra
    noise: float = 0.05
    seed: int = 3

    def run(self, chooser: AdaptivePolicy, rounds: int) -> tuple[float, list[int]]:
        """Returns the tokens in the time of a plain round, and the proposals of each round."""
        generator = np.random.default_rng(self.seed)
        tokens, spent, lengths = 0, 0.0, []
        for index in range(rounds):
            plan = plan_of(chooser)
            length = plan.length if plan.drafter else 0
            accepted = min(int(generator.geometric(1 - self.alpha(index))) - 1, length)
            time = 1 + self.extra(length)
            tokens, spent = tokens + accepted + 1, spent + time
            told = PLAIN * time * max(0.5, generator.normal(1, self.noise))
            chooser.update(replace(round_of(accepted, length, told), index=index), drafted())
            lengths.append(length)
        return tokens / spent, lengths

    def best_fixed(self) -> float:
        """Returns the best speed of any length, none included, at an alpha that does not change, by the closed form."""
        alpha = self.alpha(0)
        speeds = [sum(alpha**power for power in range(gamma + 1)) / (1 + self.extra(gamma)) for gamma in range(1, 9)]
        return max(1.0, *speeds)


def dear(gamma: Any, passes: Any = None) -> Any:
    return 0.35 * gamma


def flat(gamma: Any, passes: Any = None) -> Any:
    return 0.15 * gamma


def stepped(gamma: Any, passes: Any = None) -> Any:
    """The first row more is dear, those after it are not, as where a product of a matrix takes the place of one of a vector."""
    return 0.0 if gamma == 0 else 0.5 + 0.03 * gamma


def mean_speed(make: Callable[[], AdaptivePolicy], machine: Machine, rounds: int = 200) -> float:
    return float(np.mean([replace(machine, seed=seed).run(make(), rounds)[0] for seed in range(4)]))


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("extra", [dear, flat, stepped])
@pytest.mark.parametrize("alpha", [0.02, 0.15, 0.3, 0.6, 0.85])
def test_it_is_never_slower_than_plain_and_near_the_best_fixed_length(alpha: float, extra: Extra, measured: bool) -> None:
    """Learning takes tries, and 200 rounds are one answer: what it loses on the way is part of the claim.

    One figure for the cost of a proposal cannot tell a step from a slope. So where nothing was measured and costs have a step, it
    drafts less than would pay.
    """
    machine = Machine(lambda index: alpha, extra)
    found = mean_speed(lambda: policy(extra if measured else None), machine)
    assert found > 0.96
    assert found > (0.96 if measured or extra is not stepped else 0.75) * machine.best_fixed()


def test_a_twin_that_never_rests_is_slower_than_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "MARGIN", 1e9)
    assert Machine(lambda index: 0.05, dear).run(policy(dear), 200)[0] < 0.85


def with_costs_thought_too_low() -> float:
    """Returns the speed of short answers where a first proposal really costs half a round, and a tenth of one was measured."""

    def really(gamma: int) -> float:
        return 0.4 + 0.1 * gamma if gamma else 0.0

    def run(seed: int) -> float:
        return Machine(lambda index: 0.2, really, noise=0.07, seed=seed).run(
            policy(lambda many, passes=None: 0.1 * many, 0.2), 60
        )[0]

    return float(np.mean([run(seed) for seed in range(12)]))


def test_costs_that_were_thought_too_low_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_costs_thought_too_low() > 0.93
    monkeypatch.setattr(Cost, "learn", lambda self, proposals, relative, passes=None: None)
    assert with_costs_thought_too_low() < 0.87


def with_plain_rounds_thought_too_dear() -> float:
    """Returns the share of plain rounds where drafting is a loss, though a plain round was measured at twice its time."""
    costs = Known(lambda many, passes=None: 0.1 * many, 0.2)
    costs.rows[1] *= 2
    chooser = AdaptivePolicy({"d": SAMPLER}, "auto", costs)
    return float(np.mean([not length for length in Machine(lambda index: 0.2, dear, noise=0.02).run(chooser, 120)[1]]))


def test_where_drafting_gains_little_a_plain_round_is_measured_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_plain_rounds_thought_too_dear() > 0.5
    monkeypatch.setattr(adaptive, "LITTLE_FASTER", 0.0)
    assert with_plain_rounds_thought_too_dear() < 0.2


def tries(lengths: list[int]) -> list[int]:
    """Returns the rounds without proposals between two with some, from the first on."""
    with_some = [index for index, length in enumerate(lengths) if length]
    return [after - before - 1 for before, after in pairwise(with_some) if after - before > 1]


def test_tries_become_rarer_while_they_are_in_vain() -> None:
    _, lengths = Machine(lambda index: 1e-9, dear).run(policy(dear), 900)
    pauses = [pause for pause in tries(lengths) if pause >= FIRST_PAUSE]
    assert pauses == [16, 32, 64] + [LONGEST_PAUSE] * (len(pauses) - 3) and len(pauses) > 6
    assert sum(map(bool, lengths)) < 20


@pytest.mark.parametrize(("alpha", "tried"), [(0.1, (1, 2)), (0.25, (3, 12)), (0.5, (8, 32))])
def test_an_answer_begins_with_what_earlier_ones_showed_and_goes_by_its_own(alpha: float, tried: tuple[int, int]) -> None:
    """Where all of them are rejections it rests, the sooner the less was expected; where they speak for drafting it drafts."""

    def lengths(own: float) -> list[int]:
        return Machine(lambda index: own, flat, noise=0.01).run(policy(flat, alpha), 40)[1]

    rests = lengths(1e-9)
    assert rests[0] and not rests[-1] and tried[0] <= sum(map(bool, rests)) <= tried[1]
    assert all(lengths(0.9)[12 if alpha < 0.2 else 6 :]) or alpha < 0.2


def test_it_recovers_when_drafting_pays_again() -> None:
    _, lengths = Machine(lambda index: 0.05 if index < 300 else 0.9, dear).run(policy(dear), 600)
    assert np.mean([bool(length) for length in lengths[100:300]]) < 0.05
    assert np.mean([bool(length) for length in lengths[450:]]) > 0.95, "at most 128 rounds until the next try, and a few more"


def flutters() -> int:
    """Returns how often it begins to rest where drafting is about as fast as not drafting."""
    _, lengths = Machine(lambda index: 0.35, dear, noise=0.1).run(policy(dear), 2000)
    return sum(bool(before) and not after for before, after in pairwise(lengths))


def test_it_does_not_flutter_where_both_are_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = flutters()
    monkeypatch.setattr(adaptive, "MARGIN", 0.0)
    monkeypatch.setattr(adaptive, "FIRST_PAUSE", 1)
    monkeypatch.setattr(adaptive, "LONGEST_PAUSE", 4)
    assert steady < 60 < flutters()


def test_copies_are_as_long_as_pays_most() -> None:
    """Held against every length; the first need not pay by itself."""
    generator = np.random.default_rng(7)
    for _ in range(50):
        chances = generator.uniform(0.3, 0.97, 12)
        expected = [1.0] + [float(1 + np.cumprod(chances)[:length].sum()) / (1 + stepped(length)) for length in range(1, 13)]
        plan = plan_of(policy(stepped, kind=COPIER), chances.tolist())
        assert (plan.length if plan.drafter else 0) == int(np.argmax(expected))
        assert plan.drafter is None or plan.speed == pytest.approx(max(expected))
    assert plan_of(policy(stepped, kind=COPIER), [0.45, 0.9, 0.9]).length == 3
    assert plan_of(policy(stepped, kind=COPIER), [0.45]).drafter is None


def test_rows_that_are_dearer_than_measured_shorten_copies_within_an_answer() -> None:
    """In every third round a copy is right with 0.75 a token, in another third with 0.3. Rows really cost 0.07 of a plain round;
    0.02 was measured. One that knew everything would copy seven tokens and one: 1.66 tokens in the time of a plain round."""
    generator, speeds = np.random.default_rng(11), []
    for _ in range(12):
        chooser = policy(lambda many, passes=None: 0.02 * many, kind=COPIER)
        tokens, spent = 0, 0.0
        for index in range(40):
            chance, found = ((0.75, 63), (0.3, 63), (0.0, 0))[generator.integers(3)]
            plan = plan_of(chooser, [chance] * found)
            length = plan.length if plan.drafter else 0
            accepted = min(int(generator.geometric(1 - chance)) - 1, length) if length else 0
            time = (1 + 0.07 * length) * generator.normal(1, 0.05)
            chances = [chance] * length
            chooser.update(replace(round_of(accepted, length, PLAIN * time), index=index), drafted(chances))
            tokens, spent = tokens + accepted + 1, spent + time
        speeds.append(tokens / spent)
    assert np.mean(speeds) > 0.92 * 1.66 and min(speeds) > 1.0


def test_it_goes_on_while_the_drafter_is_sure_and_stops_when_it_is_not() -> None:
    chooser = policy(flat)
    plan = plan_of(chooser)
    assert chooser.should_expand(plan, [0.99, 0.98])
    assert not chooser.should_expand(plan, [0.5, 0.06])
    assert not chooser.should_expand(plan, [0.9] * 30), "chains have an end"


def test_no_proposal_is_ever_taken_to_cost_nothing() -> None:
    cost = Cost(flat)
    for _ in range(100):
        cost.learn(4, 0.7)
    assert cost.of(4) == pytest.approx(estimates.LEAST_FACTOR * flat(4))
    for _ in range(100):
        cost.learn(4, 1e6)
    assert cost.of(4) <= estimates.OUTLIER * (1 + flat(4)), "nor is a disturbed round believed"


def test_rounds_that_are_expected_to_cost_nothing_make_others_no_dearer() -> None:
    """A second row is often free and a third is not. A hundred rounds of one copy, 3 % longer than plain ones by noise, say
    nothing of what two copies cost."""
    rows = [0.0, 0.0, 0.16, 0.2, 0.26]
    cost = Cost(lambda proposals, passes=None: rows[proposals])
    for _ in range(100):
        cost.learn(1, 1.03)
    assert [cost.of(length) for length in range(5)] == pytest.approx(rows)
    for _ in range(200):
        cost.learn(3, 1.4)
        cost.learn(1, 1.03)
    assert cost.of(2) == pytest.approx(2 * rows[2], rel=0.01), "rounds of three take twice as long as was stored"


# The estimates, by their closed forms


@pytest.mark.parametrize(("accepted", "gamma"), [(2, 8), (0, 4), (1, 2), (3, 3)])
def test_alpha_is_the_share_of_judged_proposals(accepted: int, gamma: int) -> None:
    """Two of four accepted are supposed beforehand. Unjudged proposals say nothing."""
    acceptance, rounds = Acceptance(None), 30
    assert not acceptance.has_verdicts
    for _ in range(rounds):
        acceptance.learn(round_of(accepted, gamma, 60.0).proposals, samples=True)
    prior, seen = DECAY**rounds, (1 - DECAY**rounds) / (1 - DECAY)
    rejected = min(1, gamma - accepted)
    wanted = (2 * prior + accepted * seen) / (4 * prior + (accepted + rejected) * seen)
    assert acceptance.alpha == pytest.approx(min(wanted, HIGHEST)) and acceptance.has_verdicts


def test_copies_say_nothing_of_how_good_a_drafter_samples() -> None:
    acceptance, finished = Acceptance(0.5), round_of(3, 4, 60.0)
    copied = [replace(proposal, copied=True) for proposal in finished.proposals]
    acceptance.learn(copied, samples=True)
    assert acceptance.alpha == 0.5
    acceptance.learn(copied, samples=False)
    assert acceptance.alpha > 0.5


def test_chances_are_corrected_by_what_became_of_them() -> None:
    """A drafter that gave 0.9 to each of eight was right with the first and wrong with the second: that is one of two."""
    whole, judged = policy(flat), policy(flat)
    plan = plan_of(whole)
    assert whole.corrected(plan, 0.7) == pytest.approx(0.7), "an unknown drafter is believed"
    for index in range(200):
        whole.update(replace(round_of(1, 8, 60.0), index=index), drafted([0.9] * 8))
        judged.update(replace(round_of(1, 8, 60.0), index=index), drafted([0.9] * 2))
    assert whole.corrected(plan, 0.9) == judged.corrected(plan, 0.9) == pytest.approx(0.5, abs=0.01)
    assert whole.corrected(plan, 0.45) == pytest.approx(0.25, abs=0.01)


def test_speed_is_expected_tokens_in_the_time_of_a_plain_round() -> None:
    alpha = 0.6
    closed = [(1 - alpha ** (gamma + 1)) / (1 - alpha) / (1 + flat(gamma)) for gamma in range(1, 9)]
    assert speed([alpha] * 8, Cost(flat)) == pytest.approx(closed)


# What it says


def told(chooser: AdaptivePolicy, rounds: Sequence[Round]) -> list[Outlook | None]:
    found = []
    for index, finished in enumerate(rounds):
        found.append(plan_of(chooser).outlook)
        chooser.update(replace(finished, index=index), drafted())
    return found


def test_it_says_what_it_weighed() -> None:
    chooser, outlook = policy(dear), None
    for index in range(40):
        plan = plan_of(chooser)
        outlook = outlook if plan.drafter else plan.outlook
        finished = round_of(0, 1, 1.35 * PLAIN) if plan.drafter else round_of(0, 0, PLAIN)
        chooser.update(replace(finished, index=index), drafted())
    assert outlook is not None and outlook.next_try is not None and 0 < outlook.next_try <= FIRST_PAUSE
    assert outlook.gamma == 1 and outlook.cost == pytest.approx(1.35, abs=0.02)
    assert outlook.needed == pytest.approx(0.35, abs=0.02), "one proposal is worth its time from the alpha that it costs"
    assert outlook.alpha < 0.35
    drafting = told(policy(lambda many, passes=None: 0.02 * many), [round_of(4, 4, 1.08 * PLAIN)] * 9)[-1]
    assert drafting is not None and drafting.next_try is None and drafting.alpha > drafting.needed


def test_it_says_nothing_before_a_plain_round_has_shown_what_one_takes() -> None:
    found = told(policy(None), [round_of(2, 2, PLAIN), round_of(0, 0, PLAIN), round_of(2, 2, PLAIN)])
    assert found[0] is None and found[1] is None and found[2] is not None


def test_a_round_says_why_it_has_no_proposals_where_nothing_rests() -> None:
    chooser, said = policy(dear, 0.4), set()
    for index in range(60):
        plan = plan_of(chooser)
        assert plan.outlook is not None
        said.add((plan.drafter is None, plan.outlook.skipped))
        length = plan.length if plan.drafter else 0
        accepted = length if index % 2 else 0
        chooser.update(replace(round_of(accepted, length, (1 + dear(length)) * PLAIN), index=index), drafted())
    assert {(False, None), (True, "measured")} <= said <= {(False, None), (True, "measured"), (True, None)}
    last = chooser.plan({}, 0)
    assert last.drafter is None and last.outlook is not None and last.outlook.skipped == "last"


def test_a_drafter_that_has_nothing_to_copy_is_not_said_to_be_left_out() -> None:
    costs = MachineCosts(rows={rows: 40.0 + rows for rows in range(1, 17)})
    options = decoding.DecodingOptions(seed=3, temperature=1.5, gamma="auto", max_tokens=20, analyse=False, phase_every=0)
    rounds = list(DecodeLoop(DecodeContext(tiny_llama(1), PROMPT, NGram(), options, costs=costs)).rounds())
    silent = [round_ for round_ in rounds if not round_.proposals and round_.outlook is not None]
    assert len(silent) > 10 and {round_.outlook.skipped for round_ in silent if round_.outlook} == {None, "last"}
    assert [round_.outlook.skipped for round_ in rounds[-1:] if round_.outlook] == ["last"]


def test_no_chain_is_longer_than_its_estimate_supports() -> None:
    """The next token pays only while the chance of reaching it is worth its time at the speed of the plan."""
    chooser = policy(flat, 0.8)
    plan = plan_of(chooser)
    assert plan.max_sampled == MOST_SAMPLED and plan.speed > 1
    for chances in ([0.9], [0.9, 0.6], [0.9, 0.2], [0.5], [0.1]):
        reached = float(np.prod(chances))
        ahead = [reached * 0.8**step for step in range(1, MOST_SAMPLED - len(chances) + 1)]
        gains = np.cumsum(ahead) - plan.speed * 0.15 * np.arange(1, len(ahead) + 1)
        assert chooser.should_expand(plan, chances) == bool(gains.max() >= 0)


# Trees


def tree_policy(row: float, step: float, alpha: float, grows: bool) -> AdaptivePolicy:
    """A policy whose drafter grows trees of width 4. A row costs `row` plain rounds, a pass of the drafter `step`."""

    def extra(proposals: Any, passes: Any = None) -> Any:
        return row * proposals + step * (proposals if passes is None else passes)

    known = replace(SAMPLER, sets_own_length=True)
    return AdaptivePolicy({"d": known}, "auto", Known(extra, alpha), widths={"d": 4}, grows=grows)


@pytest.mark.parametrize(("row", "step", "alpha"), [(0.02, 0.05, 0.5), (0.1, 0.05, 0.5), (0.02, 0.3, 0.4), (0.05, 0.02, 0.8)])
def test_a_fixed_tree_is_the_fastest_of_its_kind(row: float, step: float, alpha: float) -> None:
    """Held against the bound over all shapes, computed by itself."""
    plan = plan_of(tree_policy(row, step, alpha, grows=False))
    costs = [1 + row * nodes for nodes in range(adaptive.NODES_PER_LEVEL * MOST_SAMPLED + 1)]
    best = tree_bound(chances_by_rank(alpha)[:4], costs, [step] * MOST_SAMPLED, MOST_SAMPLED)
    assert not plan.grows and plan.speed == pytest.approx(best.speed)
    assert plan.width == 1 or (plan.budget, plan.levels) == (best.nodes, best.levels)


def test_where_rows_are_dear_a_chain_is_drafted_and_where_they_are_cheap_a_tree() -> None:
    assert plan_of(tree_policy(0.3, 0.0, 0.7, grows=False)).width == 1
    cheap = plan_of(tree_policy(0.01, 0.1, 0.4, grows=False))
    assert cheap.width == 4 and cheap.budget > cheap.levels


def test_a_tree_grows_only_where_the_text_cannot_depend_on_it() -> None:
    assert plan_of(tree_policy(0.01, 0.1, 0.4, grows=True)).grows
    assert not plan_of(tree_policy(0.01, 0.1, 0.4, grows=False)).grows


def test_nodes_are_proposed_while_they_are_worth_their_rows() -> None:
    chooser = tree_policy(0.1, 0.0, 0.5, grows=True)
    plan = replace(plan_of(chooser), speed=2.0)
    assert chooser.tree_size(plan, [0.6, 0.1, 0.25, 0.21, 0.19, 0.05], 0) == 3, "a row costs 0.1 rounds, at 2 tokens each"


def test_a_level_is_expanded_while_its_children_are_worth_another_pass() -> None:
    """After nodes of 0.6 and 0.25 the first children alone give 0.6 x 0.5 + 0.25 x 0.5 less their rows."""
    for step, expanded in ((0.02, 2), (0.4, 0)):
        chooser = tree_policy(0.05, step, 0.5, grows=True)
        plan = replace(plan_of(chooser), speed=2.0)
        assert chooser.nodes_to_expand(plan, [0.6, 0.25, 0.02], [0.6, 0.25, 0.02], 1) == expanded


def test_verdicts_on_a_tree_correct_the_chances_of_all_its_choices() -> None:
    """At each of two positions the choices had 0.6 together; the target's token was among them at the first alone."""
    shape = TreeShape((0, 0, 2, 2))
    drafted = mx.array([5, 6, 7, 8])
    draft = Draft(DraftTree(1, drafted, shape, OneHot(drafted, 9), q_nodes=(0, 2)), (0.4, 0.2, 0.3, 0.3), steps=2)
    chooser = tree_policy(0.05, 0.05, 0.5, grows=True)
    plan, finished = plan_of(chooser), round_of(1, 2, 60.0)
    judged = (replace(finished.proposals[0], rank=1, parent=-1), replace(finished.proposals[1], rank=0, parent=0))
    for index in range(200):
        chooser.update(replace(finished, index=index, proposals=judged), draft)
    assert chooser.corrected(plan, 0.6) == pytest.approx(0.5, abs=0.01), "one of two, where 1.2 were estimated"


def test_an_accepted_second_choice_stands_for_a_wrong_first_one() -> None:
    accepted, rejected = round_of(1, 2, 60.0).proposals
    assert estimates.first_choices((replace(accepted, rank=1), rejected)) == [False, False]
    assert estimates.first_choices((accepted, rejected)) == [True, False]
