"""Inputs of decoding one answer, in one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.decode.clock import Clock
from engine.decode.run_control import Control
from engine.decode.text_stream import AnyTokenizer
from engine.types import DecodingOptions

if TYPE_CHECKING:  # the serving side makes contexts without importing MLX
    from engine.decode.policy.costs import MachineCosts
    from engine.drafters.base import Drafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache, TargetModel


@dataclass(frozen=True)
class DecodeContext:
    """Models, text, options, control and clock of one answer.

    Attributes:
        model: a LoadedModel, or a bare mlx-lm style module: a callable `(tokens (1, n), cache=...) -> logits (1, n, vocab)`
            that `make_prompt_cache` understands. A bare module has no EOS and no texts unless given.
        prompt_tokens: ids, chat template applied.
        drafter: proposes tokens; None decodes plainly.
        options: for a seed of None, the loop draws one.
        tokenizer, eos_ids: override the model's.
        cache: a prompt cache that holds a proper prefix of the prompt, extended in place; None creates an empty one.
        control: handle for stopping the run and changing its settings.
        given: number of the last prompt tokens that begin the answer.
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
