"""`decode`, the public entry point of the decode loop."""

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
        options: for a seed of None, a random one is used; pass a seed to repeat an answer.
        tokenizer, eos_ids: override the model's.
        cache: a prompt cache that holds a proper prefix of the prompt, extended in place. (A cache that does not count tokens,
            such as that of a purely recurrent model, must be empty.) After the last round it holds all committed tokens but the
            newest. None creates an empty one with `options.kv_bits`; an existing cache keeps its type.
        control: handle for stopping the run and changing its settings.
        given: number of the last prompt tokens that begin the answer. They count towards its length, and its text continues
            theirs, so that a character may span the border.

    Yields:
        one complete Round per forward pass. An answer that is cancelled between two rounds just ends: see `control.stopped`.

    Raises:
        ValueError: impossible options, an empty prompt, ids outside the vocabulary, `stop` without a tokenizer.
        DraftlightError: the model can only draft, the prompt does not fit, the cache cannot be rolled back, or the model outputs
            no finite logit.
    """
    asked, steered = options or DecodingOptions(), control or Control()
    context = DecodeContext(model, prompt_tokens, drafter, asked, tokenizer, eos_ids, cache, steered, given)
    return DecodeLoop(context).rounds()
