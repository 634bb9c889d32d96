"""Draft policy that maximises tokens per millisecond: it chooses the drafter and the draft length, or plain decoding."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.decode.policy.costs import MachineCosts
from engine.decode.policy.estimates import DECAY, OUTLIER, Acceptance, Cost, speed
from engine.drafters.draft import Draft, DrafterCapabilities, DraftPlan, Estimate
from engine.rounds.tree_theory import TreeBound
from engine.types import MAX_GAMMA, Gamma, Outlook, Round, Skipped
from engine.values.tree_shape import chances_by_rank, likeliest_tree

MOST_SAMPLED = 8
"""Maximum number of tokens sampled in one round. Longer chains rarely pay; copies are not counted."""
NODES_PER_LEVEL = 4
"""Maximum number of nodes of a tree whose size the policy chooses, for each level that may be sampled. Along a copy that pays by
itself it may have MAX_GAMMA."""
FIRST_SAMPLED = 2
"""The same before the first verdict on a drafter, so that a bad drafter does not delay the answer."""
MARGIN = 0.03
"""Hysteresis: relative speed difference at which drafters are switched or paused, so that timing noise does not decide."""
FIRST_PAUSE, LONGEST_PAUSE = 16, 128
"""Back-off of a drafter that does not pay: rounds before the first retry, and their maximum; each failed try doubles them."""
FIRST_TRY = 4
"""Rounds before the second of several drafters is tried; twice as many before the third."""
STORED_PLAIN = 0.25
"""Pseudo-count, in plain rounds, of a stored round time: this text may be longer, or the machine busy."""
LITTLE_FASTER = 1.25
"""If the estimated speed-up of drafting is below this, a plain round is measured now and then."""
CATCHING_UP, HORIZON = 2.0, 32
"""Maximum cost, in plain rounds, of reading missed tokens for a try; and the number of rounds in which that must pay off."""
READING = 0.1
"""Cost of reading a token, in draft steps: many are read in one pass."""


@dataclass
class _BackOff:
    """Rounds until the next try, with exponential back-off."""

    wait: int
    pause: int

    def rest(self) -> None:
        """Begins a pause after a failed try, and doubles the next one."""
        self.wait, self.pause = self.pause, min(2 * self.pause, LONGEST_PAUSE)


class _Candidate:
    """One drafter: its estimates, and its next try if it is not in use.

    There are three kinds. A drafter that samples (a draft model) is estimated by its acceptance rate until it has sampled. A
    drafter that copies (n-gram) knows the probabilities of its copies before the round. A head does both: it is estimated by its
    acceptance rate, and by the probabilities of its copies in rounds that begin with one.

    Attributes:
        is_blind: whether rounds are planned by its acceptance rate alone, unless it has found copies.
        width: maximum number of children of a node of its trees; 1 if it drafts chains.
        first_sampled: maximum number of tokens that it may sample before the first verdict.
    """

    def __init__(self, known: DrafterCapabilities, acceptance: Acceptance, cost: Cost, width: int = 1) -> None:
        self.known, self.acceptance, self.cost, self.width = known, acceptance, cost, width
        self.first_sampled = FIRST_SAMPLED
        self.is_blind = known.samples or not known.copies
        self.back_off = _BackOff(0, FIRST_PAUSE)

    @property
    def most_sampled(self) -> int:
        """Maximum number of tokens that it may sample in a round."""
        return MOST_SAMPLED if self.acceptance.has_verdicts else self.first_sampled

    @property
    def most_nodes(self) -> int:
        """Maximum number of nodes of a tree."""
        return NODES_PER_LEVEL * self.most_sampled

    def speeds(self, length: int, catching_up: float = 0.0) -> list[float]:
        """Returns the expected speeds with 1 to `length` proposals, by its acceptance rate."""
        return speed([self.acceptance.alpha] * length, self.cost, catching_up)

    def best_tree(self, depth: int) -> TreeBound:
        """Returns the tree of at most `depth` levels with the highest expected speed, by its acceptance rate."""
        sizes, levels, tokens = _likeliest_trees(depth, self.width, round(self.acceptance.alpha, 2))
        speeds = (1 + tokens) / (1 + self.cost.of_all(sizes, levels))
        best = int(speeds.argmax())
        return TreeBound(float(speeds[best]), int(sizes[best]), int(levels[best]))

    def speed(self, length: int | None) -> float:
        """Returns its expected speed at `length`, or at the best length or tree if that is None."""
        if length:
            return self.speeds(length)[-1]
        return max(self.speeds(MOST_SAMPLED)) if self.width == 1 else self.best_tree(MOST_SAMPLED).speed


@functools.cache
def _likeliest_trees(depth: int, width: int, alpha: float) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
    """Returns numbers of nodes and levels and expected numbers of accepted tokens: of the likeliest trees of each size, for each
    limit of their depth."""
    chances = chances_by_rank(alpha)
    shapes = [likeliest_tree(NODES_PER_LEVEL * depth, limit, width, rank_chances=chances)[0] for limit in range(1, depth + 1)]
    sizes = np.concatenate([np.arange(1, shape.size + 1) for shape in shapes])
    levels = np.concatenate([np.maximum.accumulate(shape.depths[1:]) for shape in shapes])
    return sizes, levels, np.concatenate([np.cumsum(shape.reach_chances(chances)) for shape in shapes])


class AdaptivePolicy:
    """Chooses drafter and length of each round to maximise the expected number of tokens per millisecond.

    The decision uses a drafter's acceptance rate, the cost of its proposals in plain rounds, the speed that follows from both,
    and the back-off of drafters that do not pay. Figures come from this answer and, initially, from earlier ones. The
    probabilities of copies are known before anything is sampled. Plain decoding has the speed 1: a drafter that falls below is
    paused (`_compare`), and while all are paused, rounds have no proposals.

    The choice depends on past rounds and on the tokens sampled in this one, never on a future verdict, so every rule stays exact.
    Under match and gumbel the text does not depend on the choice; under rejection and block it may differ between two runs,
    because their rounds do.

    Example of a first answer, without stored figures: Round 0 samples at most two tokens, based on the priors, and its time does
    not count. Round 1 has no proposals, to measure a plain round; so has round 2 if round 0 had a rejection, because then the
    time of round 1 does not count. After that, every drafted round updates the cost, and up to eight tokens may be sampled.

    Args:
        drafters: the candidates, by name.
        gamma: if it is a number, drafters are compared at that length, and every round has proposals.
        costs: known costs and acceptance rates on this machine.
        temperature: of the answer; acceptance rates are stored per temperature.
        widths: maximum number of children of a node, by name of a drafter whose trees the policy chooses; others draft chains.
        grows: whether the tokens drawn so far may decide the shape of a tree, because the text does not depend on it.

    Attributes:
        is_drafting: whether a drafter will probably sample in the round after the current one.
    """

    def __init__(
        self,
        drafters: Mapping[str, DrafterCapabilities],
        gamma: Gamma = "auto",
        costs: MachineCosts | None = None,
        temperature: float = 1.0,
        widths: Mapping[str, int] | None = None,
        grows: bool = False,
    ) -> None:
        costs, widths = costs or MachineCosts(), widths or {}
        self._fixed = None if gamma == "auto" else gamma
        self._grows = grows
        self._drafters = {
            name: _Candidate(
                known, Acceptance(costs.alpha(name, temperature)), Cost(costs.extra(name, known.samples)), widths.get(name, 1)
            )
            for name, known in drafters.items()
        }
        losing = []
        for name, candidate in self._drafters.items():
            # Until answers have shown more, what was measured when the drafter was first used decides.
            depth = None if candidate.acceptance.has_verdicts else costs.depth(name)
            candidate.first_sampled = depth or FIRST_SAMPLED
            if depth == 0 and self._fixed is None:
                candidate.back_off.wait = FIRST_PAUSE
                losing.append(name)
        ranked = sorted((name for name in self._blind if name not in losing), key=lambda name: -self._speed(name))
        self._current = next(iter(ranked), None)
        for place, name in enumerate(ranked):
            self._drafters[name].back_off.wait = FIRST_TRY * place
        # Decaying sums over plain rounds, of their milliseconds and of 1.
        self._plain_rounds = STORED_PLAIN if 1 in costs.rows else 0.0
        self._plain_time = self._plain_rounds * costs.rows.get(1, 0.0)
        self._plain = _BackOff(FIRST_TRY if self._plain_rounds else 1, FIRST_TRY)
        self._has_begun = self._rolled_back = False

    @property
    def _blind(self) -> list[str]:
        return [name for name, candidate in self._drafters.items() if candidate.is_blind]

    def _speed(self, name: str) -> float:
        return self._drafters[name].speed(self._fixed)

    # Before and during a round

    @property
    def is_drafting(self) -> bool:
        """Whether a drafter will probably sample in the round after the current one."""
        return self._current is not None and not self._measures_plain(after=1)  # read before `update` counts the round

    def plan(self, estimates: Mapping[str, Estimate], room: int) -> DraftPlan:
        """Returns the plan of a round in which at most `room` tokens may be proposed."""
        if room < 1:
            return DraftPlan(None, outlook=self._outlook(None, skipped="last"))
        if self._measures_plain():
            return DraftPlan(None, outlook=self._outlook(None, skipped="measured"))
        turn = self._select_proposer(estimates)
        plans = [plan for name, estimate in estimates.items() if (plan := self._plan_of(name, estimate, name == turn, room))]
        best = max(plans, key=lambda plan: plan.speed, default=None)
        return DraftPlan(None, outlook=self._outlook(None)) if best is None else best

    def _plan_of(self, name: str, estimate: Estimate, has_turn: bool, room: int) -> DraftPlan | None:
        """Returns the plan with one drafter; None if it has nothing that pays.

        Args:
            has_turn: whether it may sample without known probabilities. A try goes ahead even if a plain round seems faster.
        """
        candidate = self._drafters[name]
        most = candidate.most_sampled if has_turn and candidate.known.samples else 0
        chances = [candidate.acceptance.corrected(chance) for chance in estimate.chances[:room]]
        # Fixed length: copies count with their probabilities, the rest with the acceptance rate.
        if self._fixed is not None:
            if not chances and not has_turn:
                return None
            length = min(self._fixed, room)
            chances = (chances + [candidate.acceptance.alpha] * length)[:length]
            return DraftPlan(name, length, speed=speed(chances, candidate.cost)[-1])
        # Copies that pay. A head may continue after them by sampling, so its length stays open.
        if chances and (best := max(speeds := speed(chances, candidate.cost))) > 1:
            length = MAX_GAMMA if candidate.known.samples else speeds.index(best) + 1
            plan = DraftPlan(name, min(length, room), most, is_adaptive=True, speed=best, outlook=self._outlook(name, chances[0]))
            return replace(plan, width=candidate.width, grows=True) if self._grows and candidate.width > 1 else plan
        if not has_turn:
            return None
        # By the acceptance rate. The length is open up to the sampling limit, or up to MAX_GAMMA if copies may follow.
        longest = min(most or MOST_SAMPLED, room)
        speeds = candidate.speeds(longest, self._catching_up(name, estimate) / HORIZON)
        best = max(speeds)
        if not candidate.known.sets_own_length:
            length = speeds.index(best) + 1
        else:
            length = longest if most and not candidate.known.copies else min(MAX_GAMMA, room)
        plan = DraftPlan(name, length, most, is_adaptive=True, speed=best, outlook=self._outlook(name))
        return plan if candidate.width == 1 else self._with_tree(plan, longest)

    def _with_tree(self, plan: DraftPlan, depth: int) -> DraftPlan:
        """Returns the plan with a tree of at most `depth` levels, or unchanged if no tree is wider than a chain."""
        candidate = self._sampling(plan)
        tree = candidate.best_tree(depth)
        if self._grows:
            return replace(plan, budget=candidate.most_nodes, width=candidate.width, grows=True, speed=tree.speed)
        if tree.nodes == tree.levels:
            return plan
        fixed = replace(plan, levels=tree.levels, budget=tree.nodes, width=candidate.width, speed=tree.speed)
        return replace(fixed, rank_chances=chances_by_rank(candidate.acceptance.alpha))

    def _select_proposer(self, estimates: Mapping[str, Estimate]) -> str | None:
        """Returns the drafter that may sample without known probabilities: one that is due for a try, or the one in use. The
        first call chooses the one in use."""
        if not self._has_begun and self._current is not None:
            # Reading a long prompt first may cost a drafter more than it gains.
            worth = {name: self._speed(name) - self._catching_up(name, estimates[name]) / HORIZON for name in self._blind}
            self._current = max(self._blind, key=lambda name: (worth[name], name == self._current))
        self._has_begun = True
        due = (name for name in self._blind if name != self._current and self._drafters[name].back_off.wait <= 0)
        return next((name for name in due if self._catching_up(name, estimates[name]) <= CATCHING_UP), self._current)

    def _catching_up(self, name: str, estimate: Estimate) -> float:
        """Returns the cost, in plain rounds, of reading the tokens that a drafter has not read."""
        cost = self._drafters[name].cost
        return READING * estimate.unread * (cost.of(2) - cost.of(1))

    def _sampling(self, plan: DraftPlan) -> _Candidate:
        assert plan.drafter is not None, "nobody samples in a plain round"
        return self._drafters[plan.drafter]

    def should_expand(self, plan: DraftPlan, chances: Sequence[float], is_copy: bool = False) -> bool:
        """Returns whether another token pays after those for which the drafter reported these probabilities: whether the expected
        gain is worth its time at the plan's speed. The cost may jump at one row and not at those after it, so the answer is yes
        if any longer draft pays.

        Args:
            is_copy: whether the last token is a copy. Copies rarely end after one, so the next is assumed to be as likely.
        """
        candidate = self._sampling(plan)
        drafted = len(chances)
        reached = math.prod(map(candidate.acceptance.corrected, chances))
        following = candidate.acceptance.corrected(chances[-1]) if is_copy else candidate.acceptance.alpha
        gained, spent = 0.0, candidate.cost.of(drafted)
        for length in range(drafted + 1, max(drafted + 1, MOST_SAMPLED) + 1):
            reached *= following
            gained += reached
            if gained >= max(1.0, plan.speed) * (candidate.cost.of(length) - spent):
                return True
        return False

    def corrected(self, plan: DraftPlan, chance: float) -> float:
        """Returns the acceptance probability of a token that is estimated to be right with this one."""
        return self._sampling(plan).acceptance.corrected(chance)

    def nodes_to_expand(self, plan: DraftPlan, reached: Sequence[float], level: Sequence[float], steps: int) -> int:
        """Returns how many nodes of a growing tree's deepest level to expand: those whose first child is expected to be worth a
        row of the target, if all expected children are worth another pass of the drafter. Arguments as in
        `engine.drafters.draft.Expansion`."""
        ranks = chances_by_rank(self._sampling(plan).acceptance.alpha)[: plan.width]
        branches = [chance * ranks[0] ** step for chance in level for step in range(1, MOST_SAMPLED - steps + 1)]
        size, _ = self._best_size(plan, [*reached, *branches], steps)
        least = sorted([*reached, *branches], reverse=True)[size - 1] if size else math.inf
        wanted = max(1, sum(chance * ranks[0] >= least for chance in level))
        children = [chance * rank for chance in level[:wanted] for rank in ranks]
        gains = [self._best_size(plan, *grown)[1] for grown in ((reached, steps), ([*reached, *children], steps + 1))]
        return wanted if gains[1] > gains[0] else 0

    def tree_size(self, plan: DraftPlan, reached: Sequence[float], steps: int) -> int:
        """Returns how many nodes of a tree are worth their rows of the target, the likeliest ones."""
        return self._best_size(plan, reached, steps)[0]

    def _best_size(self, plan: DraftPlan, reached: Sequence[float], steps: int) -> tuple[int, float]:
        """Returns the number of nodes with the largest gain, and the gain: the expected number of accepted tokens less the tokens
        that the plan's speed gives in the time that proposing them takes."""
        cost, rate = self._sampling(plan).cost, max(1.0, plan.speed)
        best, gain, tokens = 0, -rate * cost.of(0, steps), 0.0
        for size, chance in enumerate(sorted(reached, reverse=True)[: plan.budget], start=1):
            tokens += chance
            if (value := tokens - rate * cost.of(size, steps)) > gain:
                best, gain = size, value
        return best, gain

    def _measures_plain(self, after: int = 0) -> bool:
        """Returns whether the next round has no proposals in order to measure a plain round: either no plain round is known, or
        drafting gains so little that an error could make it a loss. `after`: rounds that `update` has not counted yet."""
        if self._fixed is not None or self._plain.wait > after:
            return False
        return not self._plain_rounds or (self._current is not None and self._speed(self._current) < LITTLE_FASTER)

    def _outlook(self, name: str | None, copied: float | None = None, skipped: Skipped | None = None) -> Outlook | None:
        """Returns the figures behind a decision; None before the time of a plain round is known.

        Args:
            name: the drafter that it is about; None is the best of those that sample.
            copied: probability of the first copy, if it has found copies.
        """
        about = name or self._current or max(self._blind or self._drafters, key=self._speed, default=None)
        if about is None or self._fixed is not None or not self._plain_rounds:
            return None
        candidate = self._drafters[about]
        shown = about if len(self._drafters) > 1 else ""
        if copied is not None:
            return Outlook(1, 1 + candidate.cost.of(1), copied, _needed(candidate.cost, 1), copies=True, drafter=shown)
        wait = candidate.back_off.wait if candidate.is_blind and about != self._current else None
        alpha = candidate.acceptance.alpha
        if candidate.width > 1:
            tree = candidate.best_tree(MOST_SAMPLED)
            shape, cost = likeliest_tree(tree.nodes, tree.levels, candidate.width)[0], candidate.cost.of(tree.nodes, tree.levels)
            needed = _least_rate(lambda rate: sum(shape.reach_chances(chances_by_rank(rate))) >= cost)
            return Outlook(tree.nodes, 1 + cost, alpha, needed, wait, drafter=shown, skipped=skipped)
        speeds = candidate.speeds(MOST_SAMPLED)
        best = speeds.index(max(speeds)) + 1
        needed = _needed(candidate.cost, best)
        return Outlook(best, 1 + candidate.cost.of(best), alpha, needed, wait, drafter=shown, skipped=skipped)

    # After a round

    def update(self, finished: Round, draft: Draft) -> None:
        """Learns from a round. The first round of an answer has one-time costs, so its time does not count."""
        name = draft.proposer or (next(iter(self._drafters)) if finished.proposals else None)
        if finished.index and name is None and not self._rolled_back:
            self._learn_plain(finished.milliseconds.total)
        # After a rejection, recurrent layers read the kept tokens again in the next pass: a cost of drafting, not of a plain
        # round. With other models, this occasionally discards one plain round.
        self._rolled_back = finished.accepted < len(finished.proposals)
        for other, each in self._drafters.items():
            if other != name:
                each.back_off.wait -= 1
                if other != self._current:
                    each.acceptance.fade()
        self._plain.wait -= 1
        if name is None:
            return
        candidate = self._drafters[name]
        if finished.index and self._plain_rounds:
            relative = finished.milliseconds.total * self._plain_rounds / self._plain_time
            candidate.cost.learn(len(finished.proposals), relative, _passes(draft))
        candidate.acceptance.learn(finished.proposals, candidate.known.samples)
        if draft.chances:
            candidate.acceptance.correct(*_followed(finished, draft))
        if candidate.is_blind and not (candidate.known.samples and finished.proposals[0].copied):
            self._compare(name, finished.accepted == len(finished.proposals))

    def _learn_plain(self, time: float) -> None:
        if self._plain_rounds >= 2:
            time = min(time, OUTLIER * self._plain_time / self._plain_rounds)
        self._plain_time = self._plain_time * DECAY + time
        self._plain_rounds = self._plain_rounds * DECAY + 1
        if self._plain.wait <= 0:
            self._plain.rest()

    def _compare(self, name: str, all_accepted: bool) -> None:
        """Switches to the drafter that has just sampled, keeps it, or pauses it."""
        candidate, gained = self._drafters[name], self._speed(name)
        least = 0.0 if self._fixed is not None else 1.0
        if name != self._current:
            rival = least if self._current is None else max(least, self._speed(self._current))
            if gained > (1 + MARGIN) * rival:
                if self._current is not None:
                    self._drafters[self._current].back_off = _BackOff(FIRST_PAUSE, FIRST_PAUSE)
                self._current = name
                candidate.back_off = _BackOff(0, FIRST_PAUSE)
            elif not all_accepted:  # else it is retried at once: one verdict that could not be better says too little
                candidate.back_off.rest()
        elif gained < (1 - MARGIN) * least:
            candidate.back_off.rest()
            others = [other for other in self._blind if other != name and self._speed(other) > (1 + MARGIN) * least]
            self._current = max(others, key=self._speed, default=None)


def _followed(finished: Round, draft: Draft) -> tuple[int, float]:
    """Returns how many accepted proposals had an estimated chance, and the sum of the chances at all judged positions."""
    children, known, node = draft.tree.shape.children, len(draft.chances), 0
    followed, estimated = 0, 0.0
    for proposal in (*finished.proposals[: finished.accepted], None):
        estimated += sum(draft.chances[child - 1] for child in children[node] if child <= known)
        if proposal is not None:
            node = children[node][proposal.rank]
            followed += node <= known
    return followed, estimated


def _passes(draft: Draft) -> int | None:
    """Returns the number of the drafter's passes for a draft; None for a chain, which takes one for each proposal."""
    if draft.steps is not None or draft.tree.is_chain:
        return draft.steps
    return max(draft.tree.shape.depths)


def _needed(cost: Cost, length: int) -> float:
    """Returns the acceptance rate at which rounds of `length` proposals are as fast as plain ones; 1 if there is none."""
    return _least_rate(lambda rate: speed([rate] * length, cost)[-1] >= 1)


def _least_rate(pays: Callable[[float], bool]) -> float:
    """Returns the acceptance rate from which drafting pays; 1 if there is none."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
