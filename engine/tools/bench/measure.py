"""Measures one answer, by Draftlight's decode loop or mlx-lm's, and sums up turns into a row. Runs on the engine thread.

Draftlight is measured with `analyse` off and `phase_every` 0: no probabilities are analysed and no round is evaluated in
stages. For both programs seconds count from the end of prefill (all but the prompt's last token) to the last token.
Draftlight's time includes detokenising and searching for stop texts; mlx-lm's bare loops only yield ids.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.decode.context import DecodeContext
from engine.decode.run_control import Control
from engine.rounds.metrics import Totals, ratio
from engine.serving.backend import Backend
from engine.serving.jobs import Stopped
from engine.tools.bench.statistics import repeated
from engine.types import DecodingOptions, Finish
from engine.values.requests.bench import BenchPrompt, BenchRow, BenchSetting, PeerToken

if TYPE_CHECKING:  # the module itself needs no MLX
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel

Tick = Callable[[int], None]
"""Called with the number of tokens so far; may raise to interrupt."""


@dataclass(frozen=True, slots=True)
class MeasuredAnswer:
    """One answered turn; fields as in `BenchRow`. `middle`: monotonic time halfway through the answer."""

    tokens: tuple[int, ...]
    text: str
    prompt_tokens: int
    seconds: float
    seconds_to_first_token: float | None
    rounds: int
    proposed: int
    accepted: int
    rejected: int
    unjudged: int
    finish: Finish
    peak_memory: int | None = None
    middle: float = 0.0


def own_answer(
    backend: Backend,
    target: LoadedModel,
    drafter: LoadedDrafter,
    prompt: Sequence[int],
    options: DecodingOptions,
    control: Control,
    tick: Tick,
) -> MeasuredAnswer:
    """Decodes with an empty cache and a drafter without history.

    Args:
        control: used to stop the answer.

    Raises:
        Stopped: the answer was stopped.
    """
    cache = backend.make_cache(target, options.kv_bits)
    fresh = drafter.renewed()
    backend.finish_and_free()
    tokens: list[int] = []
    texts: list[str] = []
    totals = Totals()
    finish: Finish | None = None
    first_token: float | None = None
    began = time.perf_counter()
    context = DecodeContext(target, prompt, fresh, options, cache=cache, control=control)
    with contextlib.closing(backend.decode(context)) as outcomes:
        for current in (outcome.round for outcome in outcomes):
            if first_token is None:
                first_token = time.perf_counter() - began
            totals.add(current)
            tokens += [token.id for token in current.emitted]
            texts.append(current.text)
            finish = current.finish
            tick(len(tokens))
    if finish is None or finish == "cancelled":
        raise Stopped
    sums = totals.summary()
    return MeasuredAnswer(
        tokens=tuple(tokens),
        text="".join(texts),
        prompt_tokens=len(prompt),
        seconds=sums.seconds,
        seconds_to_first_token=first_token,
        rounds=sums.rounds,
        proposed=sums.proposals,
        accepted=sums.accepted,
        rejected=sums.rejected,
        unjudged=sums.unjudged,
        finish=finish,
        peak_memory=backend.peak_memory(),
        middle=(began + time.perf_counter()) / 2,
    )


def peer_answer(
    backend: Backend, target: LoadedModel, draft: LoadedModel | None, prompt: Sequence[int], options: DecodingOptions, tick: Tick
) -> MeasuredAnswer:
    """Decodes with mlx-lm: speculatively with a draft model, plainly if `draft` is None.

    mlx-lm does not report rejected proposals; their number follows from where rounds end (`speculative_counts`).
    """
    room = target.context_length - len(prompt)
    cut: Finish = "length" if options.max_tokens <= room else "context"
    options = options.replace(max_tokens=min(options.max_tokens, room))
    backend.finish_and_free()
    given: list[PeerToken] = []
    began = time.perf_counter()
    with contextlib.closing(backend.peer(target, draft, prompt, options, lambda: tick(len(given)))) as steps:
        for token in steps:
            given.append(token)
            tick(len(given))
    gamma = 0 if draft is None or options.gamma == "auto" else options.gamma
    rounds, proposed, accepted, rejected, unjudged = speculative_counts(given, gamma, options.max_tokens)
    return MeasuredAnswer(
        tokens=tuple(token.id for token in given),
        text="",
        prompt_tokens=len(prompt),
        seconds=given[-1].seconds,
        seconds_to_first_token=None,
        rounds=rounds,
        proposed=proposed,
        accepted=accepted,
        rejected=rejected,
        unjudged=unjudged,
        finish="eos" if given[-1].id in target.eos_ids else cut,
        peak_memory=backend.peak_memory(),
        middle=(began + time.perf_counter()) / 2,
    )


def speculative_counts(tokens: Iterable[PeerToken], gamma: int, max_tokens: int) -> tuple[int, int, int, int, int]:
    """Returns (rounds, proposed, accepted, rejected, unjudged) of an answer of mlx-lm's speculative loop.

    mlx-lm reports only which tokens were drafted. Its rounds draft min(gamma, remaining tokens) proposals and end with the first
    token that was not drafted. In a round that an end of text cuts short, the verdict on the remaining proposals is not known:
    they count as unjudged.

    Args:
        tokens: the tokens of the answer, in order.
    """
    rounds = proposed = accepted = rejected = unjudged = 0
    drafted: int | None = None
    taken = 0
    for emitted, token in enumerate(tokens):
        if drafted is None:
            drafted, taken = min(gamma, max_tokens - emitted), 0
            rounds, proposed = rounds + 1, proposed + drafted
        if token.from_draft:
            taken, accepted = taken + 1, accepted + 1
        else:
            wrong = taken < drafted
            rejected += wrong
            unjudged += drafted - taken - wrong
            drafted = None
    return rounds, proposed, accepted, rejected, unjudged + (0 if drafted is None else drafted - taken)


def row_of(
    setting: BenchSetting,
    prompt: BenchPrompt,
    order: int,
    answers: Sequence[MeasuredAnswer],
    plain: tuple[Sequence[MeasuredAnswer], Sequence[MeasuredAnswer]],
    reference: Sequence[MeasuredAnswer] | None,
    others_memory: int = 0,
) -> BenchRow:
    """Returns the row of one setting on one prompt.

    Args:
        answers: one for each turn.
        plain: the turns of the plain runs before and after, which this is compared with; for a plain run, the run itself and
            ().
        reference: the turns of a plain run if the text must be the same, else None.
        others_memory: bytes of loaded models that are not used here.
    """
    tokens, seconds = sum(len(answer.tokens) for answer in answers), sum(answer.seconds for answer in answers)
    plain_tokens, plain_seconds = _beside(answers, *plain)
    rate, plain_rate = ratio(tokens, seconds), ratio(plain_tokens, plain_seconds)
    accepted, rejected = sum(answer.accepted for answer in answers), sum(answer.rejected for answer in answers)
    rounds = sum(answer.rounds for answer in answers)
    again, grams = (sum(counts) for counts in zip(*(repeated(answer.tokens) for answer in answers), strict=True))
    peaks = [answer.peak_memory - others_memory for answer in answers if answer.peak_memory is not None]
    waits = [answer.seconds_to_first_token for answer in answers if answer.seconds_to_first_token is not None]
    return BenchRow(
        prompt_id=prompt.id,
        category=prompt.category,
        maker=setting.maker,
        drafter=setting.drafter,
        rule=setting.rule,
        temperature=setting.temperature,
        gamma=setting.gamma,
        order=order,
        turns=len(answers),
        prompt_tokens=sum(answer.prompt_tokens for answer in answers),
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=rate,
        seconds_to_first_token=ratio(sum(waits), len(waits)),
        rounds=rounds,
        proposed=sum(answer.proposed for answer in answers),
        accepted=accepted,
        rejected=rejected,
        unjudged=sum(answer.unjudged for answer in answers),
        alpha=ratio(accepted, accepted + rejected),
        tau=ratio(tokens, rounds),
        speedup=rate / plain_rate if rate is not None and plain_rate else None,
        plain_tokens=plain_tokens,
        plain_seconds=plain_seconds,
        plain_tokens_per_second=plain_rate,
        repetition=ratio(again, grams),
        same_text=None if reference is None else [own.tokens for own in answers] == [other.tokens for other in reference],
        finishes=tuple(answer.finish for answer in answers),
        peak_memory=max(peaks, default=None),
    )


def _beside(
    own: Sequence[MeasuredAnswer], before: Sequence[MeasuredAnswer], after: Sequence[MeasuredAnswer]
) -> tuple[int, float]:
    """Returns tokens and seconds of the plain runs before and after; the seconds are weighted by closeness in time."""
    tokens = sum(len(answer.tokens) for answer in (*before, *after))
    if not after:
        return tokens, sum(answer.seconds for answer in before)
    first, here, last = (sum(answer.middle for answer in answers) / len(answers) for answers in (before, own, after))
    weight = (here - first) / (last - first) if first < here < last else 0.5
    earlier, later = (sum(answer.seconds for answer in answers) for answers in (before, after))
    return tokens, 2 * ((1 - weight) * earlier + weight * later)
