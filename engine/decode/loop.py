"""The decode loop: draft, verify, judge, commit, until the answer ends.

One round is one forward pass of the target. Drafting, verifying and judging build one lazy graph that is evaluated once (under an
adaptive policy each sampled token is also evaluated before the next). Only then does the host know the accepted tokens, roll the
caches back, queue the drafter's next step and report. The analysis for display is deferred: the outcome of a round carries a
function for it, so that another thread can run it and the next token does not wait.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial

import mlx.core as mx

from engine.acceptance import RoundNoise
from engine.decode.answer import Answer, Appended
from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.decode.policy.fixed import FixedPolicy
from engine.decode.recording.record import AnalysisInputs, EvaluatedRound, to_record, with_analysis
from engine.decode.target_session import Scored, TargetSession, chains_reason
from engine.decode.timer import RoundTimer
from engine.decode.verification import Verification, verify
from engine.drafters.base import Drafter
from engine.drafters.draft import Draft, DraftContext, DraftPlan, DraftTree
from engine.drafters.sampler import Sampler
from engine.machine.host import computes_on_host
from engine.models.loaded import LoadedModel
from engine.models.pair_check import target_reason
from engine.noise.source import NoiseSource
from engine.target.distribution import Shaper
from engine.types import INVARIANT_RULES, SEED_LIMIT, Round
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import DraftlightError

CLEAR_CACHE_EVERY = 256
"""Interval, in rounds, at which MLX's pool of freed buffers is released, as in mlx-lm."""


class DecodeLoop:
    """Decodes one answer: target, drafter, rule, draft-length policy and text.

    Other threads control it through `control`; their changes take effect between two rounds.
    """

    def __init__(self, context: DecodeContext) -> None:
        model, options, drafter = context.model, context.options, context.drafter
        loaded = model if isinstance(model, LoadedModel) else None
        tokenizer, eos_ids = context.tokenizer, context.eos_ids
        if loaded is not None:
            if (reason := target_reason(loaded)) is not None:
                raise DraftlightError(reason)
            tokenizer = loaded.tokenizer if tokenizer is None else tokenizer
            eos_ids = loaded.eos_ids if eos_ids is None else eos_ids
        seed = secrets.randbelow(SEED_LIMIT) if options.seed is None else options.seed
        self._options = options.replace(seed=seed)
        self._drafter = drafter
        self._control, self._clock, self._costs = context.control, context.clock, context.costs
        prompt, given, continues = context.prompt_tokens, context.given, context.control.continues
        context_length = loaded.context_length if loaded else None
        self._answer = Answer(prompt, given, options, tokenizer, frozenset(eos_ids or ()), context_length, continues)
        self._target = TargetSession(model, context.cache, options.kv_bits, context.clock)
        self._target.require_prompt(self._answer.tokens)
        if drafter is not None:
            self._target.require_rollback()
        self._width = self._tree_width()
        self._shaper = Shaper(self._options, _known_ids(loaded, self._target.vocab_size))
        self._noise = NoiseSource(seed, self._target.vocab_size)
        self._policy = self._new_policy()
        self._index = 0
        self._started = 0.0

    # An answer

    def rounds(self) -> Generator[Round, None, None]:
        """Decodes like `outcomes`, and yields complete rounds: each is analysed before the next one begins."""
        with contextlib.closing(self.outcomes()) as outcomes:
            for outcome in outcomes:
                yield outcome.whole_at_once(self._clock)

    def outcomes(self) -> Generator[RoundOutcome, None, None]:
        """Reads the prompt, then decodes until the answer ends; yields nothing if reading was cancelled.

        However it ends, except with an error, the drafter's cache is left exact. After an error the content of both caches is
        unknown.
        """
        try:
            if self._read_prompt():
                self._started = self._clock()
                yield from self._decoded()
        finally:
            mx.clear_cache()  # the next answer may not come for a long time

    def _decoded(self) -> Generator[RoundOutcome, None, None]:
        """Yields the outcomes of the rounds after the prompt."""
        sound = False
        try:
            # Text that may begin a stop text is held back, and only a round can release it: if there is some, a stop takes effect
            # one round later. `sound` is False during a round, so that it stays False after an error.
            while self._apply_changes() or self._answer.text.holds_back:
                outcome = self._step()
                is_last = outcome.round.finish is not None
                sound = True
                yield outcome
                del outcome  # frees the arrays of the round
                sound = False
                if is_last:
                    break
            sound = True
        except GeneratorExit:
            sound = True
            raise
        finally:
            self._control.waits()
            # After an error the content of the caches is unknown; their owner drops them.
            if sound:
                self._target.mark()
                if self._drafter is not None:
                    self._drafter.finish()

    def _read_prompt(self) -> bool:
        """Makes target and drafter read the prompt. Returns False if that was cancelled."""

        def proceed(done: int, total: int) -> bool:
            """Passes progress on to the control (tokens read, tokens to read); returns False after a stop."""
            self._control.on_prefill(done, total)
            return not self._control.stopped

        if self._drafter is not None and not self._start(self._drafter):
            return False
        self._target.follow_with(self._drafter)
        return self._target.read_prompt(self._answer.tokens, self._drafter, proceed)

    def _start(self, drafter: Drafter) -> bool:
        """Starts a drafter on the text so far. Returns False if that was cancelled."""

        def proceed(done: int, total: int) -> bool:
            """Returns False after a stop."""
            return not self._control.stopped

        context = DraftContext(self._target.target, self._answer.tokens, self._target.read, self._options.kv_bits)
        return drafter.start(context, proceed)

    def _apply_changes(self) -> bool:
        """Applies requested changes. Returns False if the answer must end.

        A new drafter is used once it has caught up with the text. If a stop interrupts that, the old one stays.
        """
        if self._control.stopped:
            return False
        changes = self._control.take_changes()
        options, drafter = self._options, changes.get("drafter", self._drafter)
        assert not isinstance(drafter, str), "`on_changes` puts drafters in the place of names"
        options = options.replace(rule=changes.get("rule", options.rule), gamma=changes.get("gamma", options.gamma))
        has_caught_up = True
        if drafter is not None and drafter is not self._drafter:
            self._target.require_rollback()
            self._target.drop_prefetched()
            has_caught_up = self._start(drafter)
            drafter = drafter if has_caught_up else self._drafter
        if options != self._options or drafter is not self._drafter:
            # Estimates for one drafter or rule do not hold for another.
            if drafter is not self._drafter and self._drafter is not None:
                self._drafter.finish()
            self._options, self._drafter = options, drafter
            self._width = self._tree_width()
            self._target.follow_with(drafter)
            self._policy = self._new_policy()
        return has_caught_up

    # A round

    def _step(self) -> RoundOutcome:
        """Decodes one round and returns its outcome."""
        options = self._options
        timer = RoundTimer(self._clock, self._is_staged(self._index))
        was_prefetched = self._target.has_prefetched

        noise = RoundNoise(self._noise, len(self._answer.tokens))
        plan, draft = self._draft(noise)
        proposals, is_plain = draft.tree, not draft.tree.size
        if not is_plain:
            timer.drafted(proposals.drafted)

        self._target.time_communication(timer.is_staged)
        scored = self._target.score(proposals)
        if timer.is_staged or computes_on_host():
            self._control.waits()  # other threads may compute while this one waits for the device
            mx.async_eval(scored.logits)  # the CPU back-end takes few operations at a time, and blocks the caller for the rest
        timer.verified(scored.logits)
        if timer.is_staged:
            timer.communication = self._target.take_communication()

        p = self._shaper.shape(scored.logits, self._answer.tokens, proposals.drafted, lazy=is_plain, before=proposals.before)
        if p.is_known:
            self._control.resumes()
        verification = verify(options, p, proposals, noise)
        arrays = verification.arrays(options.analyse)
        can_prefetch = self._drafter is None and self._answer.room >= 2 and not self._is_staged(self._index + 1)
        if can_prefetch and isinstance(verification, Verification):
            timer.prefetching = self._target.prefetch(verification.judgement.token, arrays)
        self._control.waits()
        mx.eval(*arrays)  # the only synchronisation
        self._control.resumes()
        timer.judged()

        verdict = verification.evaluated(options)
        appended = self._answer.append(verdict.emitted, self._control.stopped)
        if appended.finish is not None:  # there is no next round, and this one has waited for its pass
            timer.prefetching = 0.0
            self._clock.pop_carry_over()
        self._commit(verdict.path[: len(appended.kept)], appended, scored)
        outcome = self._report(plan, draft, verdict, appended, timer, was_prefetched)
        self._policy.update(outcome.round, draft)
        self._index += 1
        if self._index % CLEAR_CACHE_EVERY == 0:
            mx.clear_cache()
        return outcome

    def _commit(self, path: Sequence[int], appended: Appended, scored: Scored) -> None:
        """Removes rejected nodes from the caches, and queues the drafter's next step before the round is reported."""
        self._target.commit(path)
        self._noise.forget_before(len(self._answer.tokens))
        if self._drafter is not None:
            self._drafter.commit(path, appended.kept, scored.hidden_states_of(path))
            # In a staged round, a step that was queued earlier would not be timed.
            if appended.finish is None and self._policy.is_drafting and not self._is_staged(self._index + 1):
                self._drafter.prefetch()

    def _report(
        self,
        plan: DraftPlan,
        draft: Draft,
        verdict: EvaluatedRound,
        appended: Appended,
        timer: RoundTimer,
        was_prefetched: bool,
    ) -> RoundOutcome:
        """Returns the round for observers, with the inputs of its analysis."""
        emitted, described = to_record(verdict, appended.kept, self._answer.text)
        finished = Round(
            index=self._index,
            position=verdict.position,
            drafter=self._drafter.name if self._drafter is not None else NO_DRAFTER,
            rule=verdict.rule,
            proposals=described,
            emitted=emitted,
            expected=(),
            milliseconds=timer.milliseconds(),
            rows=draft.tree.size + 1,
            cache_length=len(self._answer.tokens) - 1,
            started=(timer.began - self._started) * 1e3,
            text=appended.text,
            finish=appended.finish,
            drafter_statistics=draft.statistics,
            outlook=plan.outlook,
            proposer=draft.proposer,
            queued=was_prefetched,
            outside_draft_vocabulary=self._is_outside_vocabulary(verdict, draft),
        )
        if not self._options.analyse:
            return RoundOutcome(finished)
        inputs, text_of = AnalysisInputs.of(verdict, self._shaper.greedy), self._answer.text.text_of
        return RoundOutcome(finished, partial(with_analysis, finished, inputs, self._options, text_of))

    def _is_outside_vocabulary(self, verdict: EvaluatedRound, draft: Draft) -> bool:
        """Returns whether the drafter could not have sampled the token in place of the rejected proposal."""
        if self._drafter is None or not verdict.has_rejected or verdict.is_copied(verdict.accepted):
            return False
        return not self._drafter.members[draft.proposer or self._drafter.name].has_token(verdict.token)

    def _is_staged(self, index: int) -> bool:
        """Returns whether the phases of a round are evaluated one by one, so that each can be timed."""
        every = self._options.phase_every
        return every > 0 and index % every == every - 1

    # Drafting

    def _draft(self, noise: RoundNoise) -> tuple[DraftPlan, Draft]:
        """Returns the plan of the round, and the tree that the drafter proposes: the root alone in a plain round."""
        plan, statistics, vocab_size = DraftPlan(None), None, self._target.vocab_size
        if self._drafter is not None:
            room = self._answer.room - 1  # the round's own token needs room, too
            estimates = self._drafter.estimates(room) if room >= 1 else {}
            plan = self._policy.plan(estimates, room)
            if plan.drafter is not None:
                if isinstance(self._options.budget, int):
                    width = 1 if self._drafter.members[plan.drafter].tree_reason() else self._width
                    plan = replace(plan, budget=self._options.budget, width=width)
                    plan = plan if width > 1 else replace(plan, length=min(plan.length, plan.budget))
                tokens, rule = self._answer.tokens, self._options.rule
                policy = self._policy if isinstance(self._policy, AdaptivePolicy) else None
                sampler = Sampler(self._shaper, rule, noise, tokens, vocab_size, plan, policy)
                return plan, self._drafter.propose(plan, sampler)
            statistics = next(iter(estimates.values())).statistics if len(estimates) == 1 else None
        return plan, Draft(DraftTree.plain(self._answer.newest, vocab_size), statistics=statistics)

    def _tree_width(self) -> int:
        """Returns the maximum number of children of a node; 1 if trees are not asked for or cannot be judged or read."""
        options = self._options
        if not options.asks_for_trees or chains_reason(options, self._drafter, self._target.target):
            return 1
        possible = options.top_k if options.temperature > 0 and options.top_k else options.width
        return min(options.width, possible)

    def _new_policy(self) -> FixedPolicy | AdaptivePolicy:
        """Returns the policy for the current drafter and options."""
        gamma, members = self._options.gamma, {} if self._drafter is None else self._drafter.members
        if gamma != "auto" and len(members) <= 1:
            return FixedPolicy(gamma)
        capabilities = {name: member.capabilities for name, member in members.items()}
        widths: dict[str, int] = {}
        if self._options.budget == "auto" and self._width > 1:
            widths = {name: self._width for name, member in members.items() if not member.tree_reason()}
        keeps_text = self._options.rule in INVARIANT_RULES or self._options.temperature == 0
        return AdaptivePolicy(capabilities, gamma, self._costs, self._options.temperature, widths, keeps_text)


def _known_ids(loaded: LoadedModel | None, vocab_size: int) -> mx.array | None:
    """Returns (vocab,) bool, True for ids in the tokenizer; None if it has all ids that the model can output."""
    if loaded is None:
        return None
    known = [entry is not None for entry in loaded.vocabulary][:vocab_size]
    known += [False] * (vocab_size - len(known))
    return None if all(known) else mx.array(known)
