"""Everything that the decoding of one answer depends on, in one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.decode.clock import Clock
from engine.decode.run_control import Control
from engine.decode.text_stream import AnyTokenizer
from engine.types import DecodingOptions

if TYPE_CHECKING:  # the serving side makes contexts without having imported MLX
    from engine.decode.policy.costs import MachineCosts
    from engine.drafters.base import Drafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache, TargetModel


@dataclass(frozen=True)
class DecodeContext:
    """Models, text and options of one answer, and those who steer and time it.

    Attributes:
        model: a LoadedModel, or a bare mlx-lm style module: a callable `(tokens (1, n), cache=...) -> logits (1, n, vocab)`
            that `make_prompt_cache` understands. A bare module has no EOS and no texts unless given.
        prompt_tokens: ids, chat template applied.
        drafter: proposes tokens; None decodes plainly.
        options: a seed of None is drawn by the loop.
        tokenizer, eos_ids: override the model's.
        cache: a prompt cache whose content is a proper prefix of the prompt, extended in place; None is an empty one.
        control: the handle for stopping and changing the run.
        given: how many of the last prompt tokens begin the answer.
        clock: leaves out the turns of other answers. An automatic gamma learns from its times too.
        costs: what rounds are known to take on this machine; an automatic gamma begins with that. None if nothing is known.
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
