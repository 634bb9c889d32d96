"""The decode loop: propose, verify, judge, commit, until the answer ends.

One round is one forward pass of the target. Drafting, verifying and judging build one lazy graph that is evaluated once; only
then does the host learn what was accepted, roll the caches back, queue the drafter's next step and report. What is only shown of
a round can be left to another thread (`hand_over`), so that the next token does not wait for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from engine import near_ties
from engine.acceptance import JUDGES, Judgement, RoundNoise, greedy, likeliest, make_for_verdict
from engine.clock import Clock
from engine.drafter_kinds import NO_DRAFTER
from engine.drafters.base import (
    Drafter,
    DraftPen,
    Proceed,
    Proposals,
    begin_with,
    hearing,
    listener_of,
    sets_own_length,
    statistics_of,
)
from engine.errors import DraftlightError
from engine.host import computes_on_host, on_host
from engine.models.loaded import LoadedModel
from engine.models.pair_check import target_reason
from engine.noise import NoiseSource, check_drawn
from engine.noise_reference import Stream
from engine.rounds import device_sums
from engine.rounds.device_sums import DeviceSums
from engine.rounds.draft_length import AutoGamma, FixedGamma
from engine.rounds.drafter_choice import DrafterChoice
from engine.rounds.machine_costs import MachineCosts
from engine.rounds.other_draws import HostDraws, OtherDraws, later_draws, other_draws
from engine.rounds.record import EvaluatedRound, Sight, analysed, bare
from engine.rounds.text_stream import AnswerText
from engine.run_control import Control, HandOver
from engine.target import prompt_cache as caches
from engine.target.distribution import Distribution, Floats, Shaper
from engine.target.quantised_cache import make_quantised_cache
from engine.types import (
    INVARIANT_RULES,
    MAX_GAMMA,
    RATIO_RULES,
    SEED_LIMIT,
    DecodingOptions,
    DrafterStatistics,
    Finish,
    Milliseconds,
    Outlook,
    Round,
)
from engine.wording import amount

__all__ = ["Control", "DecodingOptions", "decode"]

CLEAR_CACHE_EVERY = 256
"""Rounds after which MLX's pool of freed buffers is given back, as mlx-lm does."""


def decode(
    model: LoadedModel | Callable[..., mx.array],
    prompt_tokens: Sequence[int],
    drafter: Drafter | None = None,
    options: DecodingOptions | None = None,
    *,
    tokenizer: Any = None,
    eos_ids: Iterable[int] | None = None,
    cache: list[Any] | None = None,
    control: Control | None = None,
    given: int = 0,
    clock: Clock | None = None,
    hand_over: HandOver | None = None,
    costs: MachineCosts | None = None,
) -> Generator[Round, None, None]:
    """Decodes one answer, a round at a time.

    Args:
        model: a LoadedModel, or a bare mlx-lm style module: a callable `(tokens (1, n), cache=...) -> logits (1, n, vocab)`
            that `make_prompt_cache` understands. A bare module has no EOS and no texts unless given.
        prompt_tokens: ids, chat template applied.
        drafter: whoever proposes; None decodes plainly.
        options: a seed of None is drawn here; use an explicit one to repeat an answer.
        tokenizer, eos_ids: override the model's.
        cache: a prompt cache whose content is a proper prefix of the prompt (one that keeps no count, as a purely recurrent
            model's, must be empty); extended in place. After the last round it holds all committed tokens but the newest. None
            is an empty one of `options.kv_bits`; one that is given stays of the kind it is.
        control: the handle for stopping and changing the run.
        given: how many of the last prompt tokens begin the answer. They count for its length, and its text goes on from theirs,
            so that a character may stand across the border.
        clock: of an answer that takes turns with others. An automatic gamma learns from its times too.
        hand_over: if given, rounds that are to be analysed are yielded bare, and before each this gets what completes it.
        costs: what rounds are known to take on this machine; an automatic gamma begins with that.

    Yields:
        one Round per forward pass. An answer that is cancelled between two rounds just ends: `control.stopped` tells.

    Raises:
        ValueError: impossible options, an empty prompt, ids outside the vocabulary, `stop` without a tokenizer.
        DraftlightError: the model can only draft, the prompt does not fit, the cache cannot be rolled back, the model yields no
            finite logit.
    """
    asked = options or DecodingOptions()
    steered, timed = control or Control(), clock or Clock()
    return _Run(model, prompt_tokens, drafter, asked, tokenizer, eos_ids, cache, steered, given, timed, hand_over, costs).rounds()


@dataclass(frozen=True)
class _Stages:
    """Clock readings within one round, seconds; drafted and verified only in rounds evaluated in stages. And what of the pass was
    communication, of a target that is split."""

    began: float
    judged: float
    drafted: float | None = None
    verified: float | None = None
    communication: float | None = None  # milliseconds


class _Run:
    """The state of one answer."""

    def __init__(
        self,
        model: LoadedModel | Callable[..., mx.array],
        prompt_tokens: Sequence[int],
        drafter: Drafter | None,
        options: DecodingOptions,
        tokenizer: Any,
        eos_ids: Iterable[int] | None,
        cache: list[Any] | None,
        control: Control,
        given: int,
        clock: Clock,
        hand_over: HandOver | None,
        costs: MachineCosts | None,
    ) -> None:
        self.hand_over = hand_over
        self.costs = costs
        loaded = model if isinstance(model, LoadedModel) else None
        if loaded is not None and (reason := target_reason(loaded)) is not None:
            raise DraftlightError(reason)
        self.target = model
        self.model: Any = loaded.model if loaded else model
        self.tokenizer = tokenizer if tokenizer is not None or loaded is None else loaded.tokenizer
        self.eos_ids = frozenset(eos_ids if eos_ids is not None else (loaded.eos_ids if loaded else ()))
        self.context_length: int | None = loaded.context_length if loaded else None
        self.options = options if options.seed is not None else options.replace(seed=secrets.randbelow(SEED_LIMIT))
        self.drafter = drafter
        self.statistics: DrafterStatistics | None = None
        self.chances: Sequence[float] = ()
        self.outlook: Outlook | None = None
        self.control = control
        self.clock = clock
        self.committed = [int(token) for token in prompt_tokens]
        self.prompt_length = len(self.committed)
        self.answer_start = self.prompt_length - given
        self.cache = cache if cache is not None else self._empty_cache(loaded)
        self.queues = caches.can_hide(self.cache)
        self.gamma = self._new_gamma()
        self.links: Any = getattr(self.model, "links", None)  # of a target that is split: what times its communication
        self.vocab_size = caches.logits_width(self.model)
        self.shaper = Shaper(self.options, _known_ids(loaded, self.vocab_size))
        assert self.options.seed is not None
        self.noise = NoiseSource(self.options.seed, self.vocab_size)
        if self.options.analyse and not computes_on_host():
            device_sums.prepare()
        self.text = AnswerText(self.tokenizer, self.options.stop, self.eos_ids, control.continues)
        self.text.begin(self.committed[self.answer_start :])
        self.index = 0
        self.started = 0.0
        self.queued: mx.array | None = None  # (1, vocab) logits of a plain pass that was queued for the next round
        self._check()

    def _empty_cache(self, loaded: LoadedModel | None) -> list[Any]:
        bits = self.options.kv_bits
        if bits is None:
            return caches.make_prompt_cache(self.model)
        return make_quantised_cache(self.model, bits, loaded.name if loaded else "The model")

    def _check(self) -> None:
        if not self.committed:
            raise ValueError("prompt_tokens must hold at least one token")
        wrong = next((token for token in self.committed if not 0 <= token < self.vocab_size), None)
        if wrong is not None:
            raise ValueError(f"prompt_tokens must be from 0 to {self.vocab_size - 1}, not {wrong}")
        if self.options.stop and self.tokenizer is None:
            raise ValueError("stop needs a tokenizer: without one there is no text to look for it in")
        if self.context_length is not None and self.prompt_length >= self.context_length:
            raise DraftlightError(
                f"The conversation is {amount(self.prompt_length, 'token')} long, but the model reads at most "
                f"{self.context_length:,}. "
                "Start a new chat or shorten the message."
            )
        if (caches.cache_length(self.cache) or 0) >= self.prompt_length:
            raise ValueError("cache must hold a proper prefix of the prompt")
        if caches.cache_length(self.cache) is None and not caches.is_empty(self.cache):
            raise ValueError("cache must be empty: it keeps no count of the tokens it has read")
        if self.drafter is not None:
            caches.require_rollback(self.cache, "target")

    def rounds(self) -> Generator[Round, None, None]:
        """Reads the prompt, then decodes until the answer ends; yields nothing if reading was cancelled.

        Whatever ends it but an error, the drafter's cache is left exact. After an error both caches are of unknown content.
        """
        try:
            if self._prefill():
                self.started = self.clock()
                yield from self._decoded()
        finally:
            mx.clear_cache()  # nobody may ask for the next answer for long

    def _decoded(self) -> Generator[Round, None, None]:
        """The rounds behind the prompt."""
        sound = False
        try:
            # Text that was held back can only be shown by a round, so a stop that finds some is served by one more.
            while self._apply_changes() or self.text.holds_back:
                current = self._round()
                sound = True
                yield current
                sound = False
                if current.finish is not None:
                    break
            sound = True
        except GeneratorExit:
            sound = True
            raise
        finally:
            self.control.waits()
            # After an error the caches are of unknown content; whoever owns them drops them.
            if sound:
                caches.mark(self.cache)
                if self.drafter is not None:
                    self.drafter.finish()

    def _prefill(self) -> bool:
        """Reads all but the last prompt token; the first round verifies from there. Returns False if cancelled."""
        read = caches.cache_length(self.cache) or 0

        def proceed(done: int, total: int) -> bool:
            """Passes progress on to the control (tokens read, tokens to read); False once a stop was asked for."""
            self.control.on_prefill(done, total)
            return not self.control.stopped

        heard: Proceed = proceed
        listener = listener_of(self.drafter)
        if listener is not None:
            listener.listen(self.target, self.committed)
            heard = hearing(listener, proceed, read)
        if not caches.read_prompt(self.model, self.cache, self.committed[read:-1], heard):
            return False
        caches.check_cache(self.cache, self.prompt_length - 1, "target")
        caches.mark(self.cache)
        caches.watch(self.cache)
        return self.drafter is None or begin_with(self.drafter, self.committed, self.options.kv_bits, self._proceed)

    def _proceed(self, done: int, total: int) -> bool:
        return not self.control.stopped

    def _apply_changes(self) -> bool:
        """Takes over what was requested. False once the answer is to end.

        A new drafter takes part once it has caught up. If a stop keeps it from that, the old one stays.
        """
        if self.control.stopped:
            return False
        changes = self.control.take_changes()
        options = self.options.replace(**{name: changes[name] for name in ("rule", "gamma") if name in changes})
        drafter = changes.get("drafter", self.drafter)
        has_caught_up = drafter is None or drafter is self.drafter or self._begin(drafter)
        if not has_caught_up:
            drafter = self.drafter
        if options != self.options or drafter is not self.drafter:
            # What the rounds said of one drafter says nothing of another, nor what they said under one rule of another rule.
            if drafter is not self.drafter and self.drafter is not None:
                self.drafter.finish()
            self.options, self.drafter = options, drafter
            self.gamma = self._new_gamma()
        return has_caught_up

    def _new_gamma(self) -> FixedGamma | AutoGamma | DrafterChoice:
        gamma = self.options.gamma
        members = getattr(self.drafter, "members", None)
        if members is not None:
            return DrafterChoice({name: self._lengths(member) for name, member in members.items()}, gamma)
        return self._lengths(self.drafter) if gamma == "auto" else FixedGamma(gamma)

    def _lengths(self, drafter: Drafter | None) -> AutoGamma:
        """What finds the length of its drafts, with what is known of it."""
        if drafter is None:
            return AutoGamma()
        draws = drafter.has_distribution
        if self.costs is None:
            return AutoGamma(draws=draws)
        alpha = self.costs.alpha(drafter.name, self.options.temperature)
        return AutoGamma(self.costs.extra(drafter.name, draws), draws, alpha)

    def _begin(self, drafter: Drafter) -> bool:
        """A drafter catches up with the committed tokens; whether it got there."""
        caches.require_rollback(self.cache, "target")
        if (listener := listener_of(drafter)) is not None:
            listener.listen(self.target, self.committed)
        self.queued = None  # rounds with a drafter begin with a pass of their own
        self.clock.take_waited()
        return begin_with(drafter, self.committed, self.options.kv_bits, self._proceed)

    def _room(self) -> int:
        """How many tokens may still be emitted."""
        left = self.options.max_tokens - (len(self.committed) - self.answer_start)
        return left if self.context_length is None else min(left, self.context_length - len(self.committed))

    def _limit(self) -> int:
        """How many proposals the rest of the answer has room for: one place is the round's own token."""
        is_free = self.options.gamma == "auto" and sets_own_length(self.drafter)
        return min(MAX_GAMMA if is_free else self.gamma.choose(), self._room() - 1)

    def _round(self) -> Round:
        staged, was_queued = self._is_staged(self.index), self.queued is not None
        position = len(self.committed)
        began = self.clock() - self.clock.take_waited()
        reach = near_ties.RANGE * self.shaper.inverse_temperature if self.options.analyse else 0.0
        noise = RoundNoise(self.noise, position, reach=reach)
        proposals = self._propose(noise)
        if proposals is None:
            noise = RoundNoise(self.noise, position, lazy=True)
        drafted = self._evaluated(proposals.tokens) if staged and proposals is not None else (began if staged else None)

        inputs = self._inputs(proposals)
        if self.links is not None:
            self.links.timed = staged
        logits, features = self._forward(inputs)
        if staged or computes_on_host():
            self.control.waits()
            mx.async_eval(logits)  # of many operations the CPU back-end takes a few, and has the caller wait until it has all
        verified = self._evaluated(logits) if staged else None
        communication = self.links.take() if self.links is not None and staged else None
        if not (self.shaper.greedy or self.shaper.filters) and (proposals is None or self.options.rule in INVARIANT_RULES):
            noise.prepare("shared", 0, int(inputs.shape[0]), logits, "verify")
        if proposals is not None and not self.shaper.greedy and self.options.rule in RATIO_RULES and computes_on_host():
            make_for_verdict(proposals.q, noise)

        drafted_ids = None if proposals is None else proposals.tokens
        p = self.shaper.shape(logits, self.committed, drafted_ids, lazy=proposals is None)
        if p.is_known:
            self.control.resumes()
        judgement = self._judge(p, proposals, noise)
        margins = self._margins(p, proposals, judgement, noise)
        others = self._other_draws(p, proposals, judgement, noise)
        sums = self._sums(p, proposals, judgement)
        arrays = self._looked_at(p, proposals, judgement, margins, others, sums)
        ahead = self._queue_plain(judgement, arrays)
        self.control.waits()
        mx.eval(*arrays)  # the one synchronisation
        self.control.resumes()
        judged = self.clock()

        later = others or self._later_draws(proposals, judgement, noise)
        verdict = self._verdict(position, p, proposals, judgement, margins, later, sums)
        finish, kept, text = self._end_of(verdict)
        if finish is not None:  # there is no next round, and this one has waited for its pass
            ahead = 0.0
            self.clock.take_waited()
        stages = _Stages(began, judged - ahead, drafted, verified, communication)
        self._commit(kept, finish, features)
        emitted, described = bare(verdict, kept, self.text)
        finished = Round(
            index=self.index,
            position=position,
            drafter=self.drafter.name if self.drafter is not None else NO_DRAFTER,
            rule=self.options.rule,
            proposals=described,
            emitted=emitted,
            expected=(),
            milliseconds=_milliseconds(stages, self.clock() - ahead),
            rows=int(inputs.shape[0]),
            cache_length=len(self.committed) - 1,
            started=(began - self.started) * 1e3,
            text=text,
            finish=finish,
            drafter_statistics=self.statistics,
            outlook=self.outlook,
            proposer=getattr(self.drafter, "proposer", None) if proposals is not None else None,
            queued=was_queued,
        )
        if self.options.analyse:
            complete = partial(analysed, finished, Sight.of(verdict, self.shaper.greedy), self.options, self.text.text_of)
            if self.hand_over is not None:
                self.hand_over(complete)
            else:
                finished = replace(complete(), milliseconds=_milliseconds(stages, self.clock() - ahead))
        self.gamma.observe(finished, self.chances)
        self.index += 1
        if self.index % CLEAR_CACHE_EVERY == 0:
            mx.clear_cache()
        return finished

    def _inputs(self, proposals: Proposals | None) -> mx.array:
        """(rows,) int32: what the target is to read, the newest token and the proposals."""
        newest = self.committed[-1:]
        if proposals is None:
            return mx.array(newest, dtype=mx.int32)
        drafted = on_host(proposals.tokens)
        if drafted is None:
            return mx.concatenate([mx.array(newest, dtype=mx.int32), proposals.tokens])
        return mx.array(newest + drafted.tolist(), dtype=mx.int32)

    def _evaluated(self, array: mx.array) -> float:
        """Clock reading once the array is there."""
        mx.eval(array)
        return self.clock()

    def _is_staged(self, index: int) -> bool:
        return self.options.phase_every > 0 and index % self.options.phase_every == self.options.phase_every - 1

    def _forward(self, inputs: mx.array) -> tuple[mx.array, mx.array | None]:
        """(rows, vocab) logits of the target after each input, and for a listener (rows, width) features of the same pass."""
        queued, self.queued = self.queued, None
        if queued is not None:
            caches.show_newest(self.cache)
            return queued, None
        logits = self.model(inputs[None], cache=self.cache)[0]
        listener = listener_of(self.drafter)
        return logits, None if listener is None else listener.take_features()

    def _queue_plain(self, judgement: Judgement, arrays: list[mx.array]) -> float:
        """Without a drafter, starts the forward pass of the next round before the host looks at this round's token.

        Only the pass is queued: the draw is made with the options of its own round. What the host will look at goes first:
        the device works in order, and the host would wait for the whole pass otherwise.

        Returns:
            Seconds that this took, most of a pass on the CPU back-end, which has its caller wait. They count for the next round:
            the first round would seem to take two passes otherwise, and the last next to none.
        """
        is_needed = self.drafter is None and self._room() >= 2
        if not is_needed or self._is_staged(self.index + 1) or not self.queues:
            return 0.0
        mx.async_eval(*arrays)
        began = self.clock()
        self.queued = self.model(judgement.token.reshape(1, 1), cache=self.cache)[0]
        mx.async_eval(self.queued)
        caches.hide_newest(self.cache)
        ahead = self.clock() - began
        self.clock.count_ahead(ahead)
        return ahead

    def _propose(self, noise: RoundNoise) -> Proposals | None:
        limit = self._limit()
        self.statistics, self.chances, self.outlook = None, (), None
        if self.drafter is None or limit < 1:
            self.outlook = None if self.drafter is None else self._outlook(None)
            return None
        worth = self.gamma if isinstance(self.gamma, AutoGamma) else None
        chooser = self.gamma if isinstance(self.gamma, DrafterChoice) else None
        expected = limit if worth is None and chooser is None else 1
        pen = DraftPen(self.shaper, self.options.rule, noise, self.committed, self.vocab_size, worth, expected, chooser)
        proposals = self.drafter.propose(pen.limit_of(self.drafter, limit), pen)
        self.chances = pen.chances
        self.statistics, self.outlook = statistics_of(self.drafter), self._outlook(proposals)
        return proposals

    def _outlook(self, proposals: Proposals | None) -> Outlook | None:
        """What was weighed for the round, and why it has no proposals if that was not the reason."""
        found = self.gamma.outlook()
        if found is None:
            return None
        if proposals is not None:
            return replace(found, skipped=None)
        return replace(found, skipped="last" if self._room() < 2 else found.skipped)

    def _judge(self, p: Distribution, proposals: Proposals | None, noise: RoundNoise) -> Judgement:
        if proposals is None:
            draws = likeliest(p) if self.shaper.greedy else noise.shared(p)
            return Judgement(mx.array(0), draws[0], mx.zeros((0,)), draws=draws)
        judge = greedy if self.shaper.greedy else JUDGES[self.options.rule]
        return judge(p, proposals.q, proposals.tokens, noise)

    def _margins(
        self, p: Distribution, proposals: Proposals | None, judgement: Judgement, noise: RoundNoise
    ) -> mx.array | Floats | Sequence[Stream] | None:
        """Margins of the draws with shared noise, of all rows or those that were judged, or the noise of each row, where they are
        left to numpy; None where the target's token is not such a draw."""
        drawn = proposals is None or self.options.rule in INVARIANT_RULES
        if not (self.options.analyse and drawn) or self.shaper.greedy:
            return None
        if judgement.margins is not None:
            return judgement.margins
        return noise.shared_streams(p.rows) if computes_on_host() else noise.margins(p)

    def _other_draws(
        self, p: Distribution, proposals: Proposals | None, judgement: Judgement, noise: RoundNoise
    ) -> OtherDraws | None:
        """What other rules would compare, where a device draws it; None without proposals or analysis."""
        if proposals is None or not self.options.analyse or computes_on_host():
            return None
        return other_draws(self.options.rule, p, proposals, judgement, noise, self.shaper.greedy)

    def _later_draws(self, proposals: Proposals | None, judgement: Judgement, noise: RoundNoise) -> HostDraws | None:
        """As `_other_draws`, of an evaluated round, where they are left to numpy."""
        if proposals is None or not self.options.analyse:
            return None
        return later_draws(self.options.rule, proposals, judgement, noise, self.shaper.greedy)

    def _sums(self, p: Distribution, proposals: Proposals | None, judgement: Judgement) -> DeviceSums | None:
        """What a device works out for the analysis; None without it, and where that is left to numpy."""
        if not self.options.analyse or computes_on_host():
            return None
        return DeviceSums.of(p, proposals, judgement, self.options, self.shaper.greedy)

    def _looked_at(
        self,
        p: Distribution,
        proposals: Proposals | None,
        judgement: Judgement,
        margins: mx.array | Floats | Sequence[Stream] | None,
        others: OtherDraws | None,
        sums: DeviceSums | None,
    ) -> list[mx.array]:
        """Everything that the host will look at."""
        arrays = [judgement.accepted, judgement.token]
        if proposals is not None:
            arrays.append(proposals.tokens)
        if not self.options.analyse:
            return arrays
        arrays += [array for array in (p.logits, p.unfiltered) if array is not None]
        arrays += [array for array in (margins, judgement.coins, judgement.draws) if isinstance(array, mx.array)]
        if judgement.coins is not None and isinstance(judgement.chances, mx.array):
            arrays.append(judgement.chances)
        if proposals is not None and isinstance(proposals.q, Distribution):
            arrays.append(proposals.q.logits)
        if others is not None:
            arrays += others.arrays
        if sums is not None:
            arrays += sums.arrays.values()
        return arrays

    def _verdict(
        self,
        position: int,
        p: Distribution,
        proposals: Proposals | None,
        judgement: Judgement,
        margins: mx.array | Floats | Sequence[Stream] | None,
        others: OtherDraws | HostDraws | None,
        sums: DeviceSums | None,
    ) -> EvaluatedRound:
        accepted, token = _integers(judgement.accepted)[0], _integers(judgement.token)[0]
        drafted = [] if proposals is None else _integers(proposals.tokens)
        check_drawn([*drafted, token])
        rule = self.options.rule
        return EvaluatedRound(position, rule, drafted, accepted, token, p, proposals, judgement, margins, others, sums)

    def _end_of(self, verdict: EvaluatedRound) -> tuple[Finish | None, list[int], str]:
        """Why the answer ends with this round, which of its tokens count, and what text it adds."""
        candidates = verdict.emitted
        finish: Finish | None = None
        kept: list[int] = []
        text = ""
        for token in candidates:
            kept.append(token)
            released, stopped = self.text.push(token)
            text += released
            if token in self.eos_ids:
                finish = "eos"
            elif stopped:
                finish = "stop"
            if finish is not None:
                break
        total = len(self.committed) + len(kept)
        if finish is None and total - self.answer_start >= self.options.max_tokens:
            finish = "length"
        if finish is None and self.context_length is not None and total >= self.context_length:
            finish = "context"
        if finish is None and self.control.stopped:
            finish = "cancelled"
        if finish not in (None, "stop"):
            text += self.text.finish()
        return finish, kept, text

    def _commit(self, kept: list[int], finish: Finish | None, features: mx.array | None) -> None:
        self.committed.extend(kept)
        caches.trim_to(self.cache, len(self.committed) - 1, "target")
        self.noise.forget_before(len(self.committed))
        if self.drafter is not None:
            self.drafter.observe(kept, None if features is None else features[: len(kept)])
            if finish is None and self._limit() >= 1 and not self.gamma.rests and not self._is_staged(self.index + 1):
                self.drafter.prefetch()


def _known_ids(loaded: LoadedModel | None, vocab_size: int) -> mx.array | None:
    """(vocab,) bool of the ids the tokenizer knows, or None if it knows all that the head can produce."""
    if loaded is None:
        return None
    known = [entry is not None for entry in loaded.vocabulary][:vocab_size]
    known += [False] * (vocab_size - len(known))
    return None if all(known) else mx.array(known)


def _integers(array: mx.array) -> list[int]:
    return [int(value) for value in np.asarray(array).reshape(-1)]


def _milliseconds(stages: _Stages, ended: float) -> Milliseconds:
    total = (ended - stages.began) * 1e3
    if stages.drafted is None or stages.verified is None:
        return Milliseconds(total)
    draft = (stages.drafted - stages.began) * 1e3
    verify = (stages.verified - stages.drafted) * 1e3
    judge = (stages.judged - stages.verified) * 1e3
    return Milliseconds(total, draft, verify, judge, total - draft - verify - judge, stages.communication)
