"""Everything the engine thread asks of MLX, in one object, so that the thread's rules can be tested without it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.files.memory import MakeRoom
from engine.types import DecodingOptions, Numerics, ProveRequest
from engine.values.requests.bench import PeerToken
from engine.values.requests.prove import Finding
from engine.values.requests.train import HeldOut, Trained, TrainRequest

if TYPE_CHECKING:  # whoever serves requests need not have imported MLX
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache

Progress = Callable[[str, float | None], None]


class Backend(Protocol):
    """Models, drafters, decoding and caches. Every method is called on the engine thread, the constructor included."""

    def load(self, name: str, progress: Progress, make_room: MakeRoom | None = None) -> LoadedModel:
        """A target as a `LoadedModel`; raises DraftlightError with the reason."""

    def release(self) -> None:
        """Let go of the target that was loaded last."""

    def free_memory(self) -> int | None:
        """Bytes that models may still take; None where nobody knows."""

    def held_memory(self) -> int:
        """Bytes that models, drafters and caches take now."""

    def drafter(self, name: str, target: LoadedModel, progress: Progress, make_room: MakeRoom | None = None) -> LoadedDrafter:
        """A drafter that fits the target; raises DraftlightError with the reasons."""

    def unloaded_pair(self, name: str, target: LoadedModel) -> tuple[str, str]:
        """Why a model on this machine cannot draft for the target, by its files alone, and what is to be known if it can.

        Either is empty if there is nothing to say."""

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        """The outcomes of an answer's rounds."""

    def measure(self, target: LoadedModel, drafter: Drafter | None) -> Generator[None, None, None]:
        """Measures what rounds cost with this pair, a round for each step, unless that is known. Nobody else uses the drafter."""

    def prove(
        self, target: LoadedModel, drafter: Drafter | None, request: ProveRequest, progress: Callable[[str, float], None]
    ) -> Iterator[Finding]:
        """Checks of the pair; `progress` is called often and may raise to break off."""

    def train(
        self,
        target: LoadedModel,
        request: TrainRequest,
        tell: Callable[[str], None],
        report: Callable[[str, float], None],
        measured: Callable[[HeldOut], None],
    ) -> Trained:
        """Train a draft head; `report` is called often and may raise to break off."""

    def peer(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        prompt: Sequence[int],
        options: DecodingOptions,
        proceed: Callable[[], None],
    ) -> Generator[PeerToken, None, None]:
        """The same answer by mlx-lm's own loop: a speculative one with a draft model, a plain one if that is None."""

    def peer_refusal(self, target: LoadedModel, draft: LoadedModel) -> str | None:
        """Why mlx-lm's speculative loop cannot be measured with these models; None if it can."""

    def finish_queued(self) -> None:
        """Wait for whatever is queued on the device."""

    def settle(self) -> None:
        """Finish what is under way and give back memory, so that the next measurement does not pay for the last."""

    def peak_memory(self) -> int | None:
        """The most bytes that arrays of models, caches and computations took at once since `settle`; None if nobody knows."""

    def make_cache(self, target: LoadedModel, kv_bits: int | None = None) -> PromptCache:
        """An empty prompt cache, of so many bits; raises DraftlightError where the target has no such cache."""

    def cache_length(self, cache: PromptCache) -> int | None:
        """Tokens the cache has read; None for one that keeps no count, such as a purely recurrent state."""

    def trim(self, cache: PromptCache, length: int) -> int:
        """Forget all but the first `length` tokens, or fewer where a layer has lost what that takes; how many are left."""

    def device(self) -> str:
        """What MLX computes on."""

    def numerics(self, target: LoadedModel) -> Numerics:
        """What decides the last bits of the target's logits here."""

    def pulse(self) -> float | None:
        """Called whenever there is nothing to do; returns after how many seconds to call it again, None if never."""

    def close(self) -> None:
        """Finish whatever is under way on the device. Nothing is called afterwards."""
