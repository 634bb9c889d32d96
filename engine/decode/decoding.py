"""The public door to the decode loop: `decode`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.run_control import Control
from engine.decode.text_stream import AnyTokenizer
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.target.interface import PromptCache, TargetModel
from engine.types import DecodingOptions, Round

__all__ = ["Control", "DecodingOptions", "decode"]


def decode(
    model: LoadedModel | TargetModel,
    prompt_tokens: Sequence[int],
    drafter: Drafter | None = None,
    options: DecodingOptions | None = None,
    *,
    tokenizer: AnyTokenizer | None = None,
    eos_ids: Iterable[int] | None = None,
    cache: PromptCache | None = None,
    control: Control | None = None,
    given: int = 0,
) -> Generator[Round, None, None]:
    """Decodes one answer, a round at a time.

    Args:
        model: a LoadedModel, or a bare mlx-lm style module: a callable `(tokens (1, n), cache=...) -> logits (1, n, vocab)`
            that `make_prompt_cache` understands. A bare module has no EOS and no texts unless given.
        prompt_tokens: ids, chat template applied.
        drafter: proposes tokens; None decodes plainly.
        options: a seed of None is drawn here; use an explicit one to repeat an answer.
        tokenizer, eos_ids: override the model's.
        cache: a prompt cache whose content is a proper prefix of the prompt (one that keeps no count, as a purely recurrent
            model's, must be empty); extended in place. After the last round it holds all committed tokens but the newest. None
            is an empty one of `options.kv_bits`; one that is given stays of the kind it is.
        control: the handle for stopping and changing the run.
        given: how many of the last prompt tokens begin the answer. They count for its length, and its text goes on from theirs,
            so that a character may stand across the border.

    Yields:
        one complete Round per forward pass. An answer that is cancelled between two rounds just ends: `control.stopped` tells.

    Raises:
        ValueError: impossible options, an empty prompt, ids outside the vocabulary, `stop` without a tokenizer.
        DraftlightError: the model can only draft, the prompt does not fit, the cache cannot be rolled back, the model yields no
            finite logit.
    """
    asked, steered = options or DecodingOptions(), control or Control()
    context = DecodeContext(model, prompt_tokens, drafter, asked, tokenizer, eos_ids, cache, steered, given)
    return DecodeLoop(context).rounds()
