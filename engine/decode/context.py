"""Inputs of decoding one answer, and the result of each round, in one value each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.decode.run_control import Clock, Control
from engine.decode.text_stream import AnyTokenizer
from engine.types import DecodingOptions, Round

if TYPE_CHECKING:  # the serving side makes contexts without importing MLX
    from engine.decode.policy.costs import MachineCosts
    from engine.drafters.base import Drafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache, TargetModel


@dataclass(frozen=True)
class DecodeContext:
    """Models, text, options, control and clock of one answer.

    Attributes: the arguments of `engine.decode.decoding.decode`, and
        clock: leaves out the turns of other answers. An automatic gamma uses its times, too.
        costs: known costs of rounds on this machine, the initial estimate of an automatic gamma. None if unknown.
    """

    model: LoadedModel | TargetModel
    prompt_tokens: Sequence[int]
    drafter: Drafter | None = None
    options: DecodingOptions = field(default_factory=DecodingOptions)
    tokenizer: AnyTokenizer | None = None
    eos_ids: Iterable[int] | None = None
    cache: PromptCache | None = None
    control: Control = field(default_factory=Control)
    given: int = 0
    clock: Clock = field(default_factory=Clock)
    costs: MachineCosts | None = None


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of one round.

    Attributes:
        round: the round with its verdict. If `complete` is not None, it lacks probabilities, alternatives and closed forms.
        complete: analyses the round and returns it in full. It does not call MLX, so any thread may call it, at any time, once.
            None if there is nothing to analyse.
    """

    round: Round
    complete: Callable[[], Round] | None = None

    def whole(self) -> Round:
        """Returns the complete round."""
        return self.round if self.complete is None else self.complete()

    def whole_at_once(self, clock: Callable[[], float]) -> Round:
        """Returns the complete round, and adds the time of its analysis to the round's, because the next round waits for it."""
        if self.complete is None:
            return self.round
        began = clock()
        whole = self.complete()
        spent, times = (clock() - began) * 1e3, whole.milliseconds
        other = None if times.other is None else times.other + spent
        return replace(whole, milliseconds=replace(times, total=times.total + spent, other=other))
