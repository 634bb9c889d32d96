"""Interface of everything the engine thread asks of MLX, so that the thread can be tested without it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from engine.decode.context import DecodeContext, RoundOutcome
from engine.files.memory import MakeRoom
from engine.types import DecodingOptions, Numerics, ProveRequest
from engine.values.events import ReportStep
from engine.values.requests.bench import PeerToken
from engine.values.requests.prove import Finding
from engine.values.requests.train import HeldOut, Trained, TrainRequest

if TYPE_CHECKING:  # serving requests does not require MLX
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache


class Backend(Protocol):
    """Models, drafters, decoding and caches. Every method is called on the engine thread, the constructor included."""

    def load(self, name: str, progress: ReportStep, make_room: MakeRoom | None = None) -> LoadedModel:
        """Returns a target; raises DraftlightError with the reason."""

    def release(self) -> None:
        """Releases the target that was loaded last."""

    def free_memory(self) -> int | None:
        """Returns the bytes that models may still take; None if unknown."""

    def held_memory(self) -> int:
        """Returns the bytes that models, drafters and caches take now."""

    def drafter(self, name: str, target: LoadedModel, progress: ReportStep, make_room: MakeRoom | None = None) -> LoadedDrafter:
        """Returns a drafter that fits the target; raises DraftlightError with the reasons."""

    def unloaded_pair(self, name: str, target: LoadedModel) -> tuple[str, str]:
        """Returns why a model on this machine cannot draft for the target, judging by its files alone, and a warning if it can.

        Either is empty if there is nothing to report."""

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        """Yields the outcomes of an answer's rounds."""

    def measure(self, target: LoadedModel, drafter: Drafter | None) -> Generator[None, None, None]:
        """Measures what rounds cost with this pair, one round per step, unless it is known. Nothing else may use the
        drafter."""

    def prove(
        self, target: LoadedModel, drafter: Drafter | None, request: ProveRequest, progress: Callable[[str, float], None]
    ) -> Iterator[Finding]:
        """Yields the findings of checks of the pair; `progress` is called often and may raise to interrupt."""

    def train(
        self,
        target: LoadedModel,
        request: TrainRequest,
        tell: Callable[[str], None],
        report: Callable[[str, float, str], None],
        measured: Callable[[HeldOut], None],
    ) -> Trained:
        """Trains a draft head; `report` is called often and may raise to interrupt."""

    def peer(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        prompt: Sequence[int],
        options: DecodingOptions,
        proceed: Callable[[], None],
    ) -> Generator[PeerToken, None, None]:
        """Yields the tokens of mlx-lm's own loop: speculative with a draft model, plain if `draft` is None."""

    def peer_refusal(self, target: LoadedModel, draft: LoadedModel) -> str | None:
        """Returns why mlx-lm's speculative loop cannot be measured with these models; None if it can."""

    def finish_queued(self) -> None:
        """Waits for everything that is queued on the device."""

    def finish_and_free(self) -> None:
        """Finishes pending work and frees memory, so that it does not affect the next measurement."""

    def peak_memory(self) -> int | None:
        """Returns the peak bytes of the arrays of models, caches and computations since `finish_and_free`; None if unknown."""

    def make_cache(self, target: LoadedModel, kv_bits: int | None = None) -> PromptCache:
        """Returns an empty prompt cache with this many bits; raises DraftlightError if the target has no such cache."""

    def cache_length(self, cache: PromptCache) -> int | None:
        """Returns the number of tokens in the cache; None if it does not count them, such as a purely recurrent state."""

    def trim(self, cache: PromptCache, length: int) -> int:
        """Removes all but the first `length` tokens, or more if a layer cannot go back exactly there; returns how many are
        left."""

    def device(self) -> str:
        """Returns the name of the device that MLX computes on."""

    def numerics(self, target: LoadedModel) -> Numerics:
        """Returns the properties that determine the last bits of the target's logits here."""

    def chains_reason(self, target: LoadedModel, drafter: Drafter | None, options: DecodingOptions) -> str:
        """Returns why an answer drafts chains although it has a budget for trees; see `engine.decode.target_session`."""

    def pulse(self) -> float | None:
        """Called when idle; returns the seconds until it must be called again, None for never."""

    def close(self) -> None:
        """Finishes pending work on the device. The last call."""
