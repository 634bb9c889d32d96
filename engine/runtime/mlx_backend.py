"""The backend that computes with MLX. Made, used and closed on the engine thread."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.decode.policy.costs import KeptCosts, MachineCosts
from engine.decode.policy.estimates import Cost, speed
from engine.files.hub import require_drafter
from engine.files.logs import explain
from engine.files.memory import MakeRoom, available_memory
from engine.files.paths import data_folder
from engine.machine import garbage
from engine.machine.mlx_import import require_device
from engine.serving.backend import Progress
from engine.types import DecodingOptions, Numerics, ProveRequest, Round
from engine.values.drafter_kinds import DRAFTERS, HEAD, NO_DRAFTER, SMALL_DRAFT, DrafterKind, drafter_kind, may_fit, type_stated
from engine.values.errors import DraftlightError
from engine.values.requests.bench import PeerToken
from engine.values.requests.prove import Finding
from engine.values.requests.train import HeldOut, Trained, TrainRequest

if TYPE_CHECKING:
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache


class MlxBackend:
    """The real one. MLX is imported by the constructor, hence inside the thread that owns it."""

    def __init__(self) -> None:
        require_device()
        try:
            import mlx.core

            from engine.decode import loop, warm_up
            from engine.machine import device
            from engine.models import loading as models
            from engine.models import tokenizer_files
            from engine.target import prompt_cache as cache
        except ImportError as error:
            raise DraftlightError(f"MLX is not available ({error}). Reinstall Draftlight on macOS or Linux.") from error
        self._mx = mlx.core
        self._device = device.device
        self._cache = cache
        self._loop = loop
        self._warming = warm_up
        self._models = models
        self._read_json = tokenizer_files.read_json
        self._target: tuple[str, LoadedModel | None] = ("", None)
        self._draft_models: weakref.WeakValueDictionary[str, LoadedModel] = weakref.WeakValueDictionary()
        """Of the target, by name, those that anybody holds: the one of a drafter by itself serves auto, too."""
        self._kept_costs = KeptCosts(data_folder() / "costs.json")
        self._costs: tuple[LoadedModel | None, MachineCosts] = (None, MachineCosts())  # of the target asked for last

    def load(self, name: str, progress: Progress, make_room: MakeRoom | None = None) -> LoadedModel:
        """As in `Backend`; refuses a model that cannot be a target, even if it loads."""
        model = self._load_target(name, progress, make_room)
        reason = self._models.target_reason(model)
        if reason is not None:
            raise DraftlightError(reason)
        self._target = (name, model)
        self._draft_models.clear()
        self._costs = (None, MachineCosts())
        if self._warming.is_needed():
            progress("compiling for the GPU", None)
            self._warm_up(model)
        return model

    def _warm_up(self, target: LoadedModel, drafter: Drafter | None = None) -> None:
        """Compiles what rounds of the pair run. What goes wrong is left to the answer, which says it to whom it concerns."""
        try:
            self._warming.warm_up(target, drafter)
        except Exception as error:
            explain(error, "compiling for the GPU")

    def _load_target(self, name: str, progress: Progress, make_room: MakeRoom | None) -> LoadedModel:
        """What `load` asks for; a target that is split over several processes is loaded in another way."""
        return self._models.load(name, progress, make_room=make_room)

    def release(self) -> None:
        """As in `Backend`; it goes once nobody else holds it either, and `settle` was called."""
        self._target = ("", None)
        self._costs = (None, MachineCosts())

    def free_memory(self) -> int | None:
        """As in `Backend`: on a GPU what MLX may hold there less what it has, else what the system has left."""
        limit = self._device().memory
        return available_memory() if limit is None else limit - self.held_memory()

    def held_memory(self) -> int:
        """As in `Backend`, buffers that MLX keeps for reuse included."""
        return int(self._mx.get_active_memory() + self._mx.get_cache_memory())

    def drafter(self, name: str, target: LoadedModel, progress: Progress, make_room: MakeRoom | None = None) -> LoadedDrafter:
        """As in `Backend`; refuses any drafter for a target whose cache cannot be rolled back."""
        from engine.drafters.loaded import LoadedDrafter, builder

        kind = self._kind_of(name)
        if not kind.build and not kind.members:
            return LoadedDrafter(name, None)
        reason = self._models.cache_reason(target.model)
        if reason is not None:
            raise DraftlightError(f"No drafter can be used with {target.name}: it {reason}")
        if kind.members:
            return self._together(kind.members, target, progress, make_room)

        def load() -> LoadedModel:
            """The model of the drafter's name. A target that drafts for itself is loaded already."""
            loaded_as, loaded = self._target
            if loaded is target and loaded_as == name:
                return target
            known = self._draft_models.get(name) if loaded is target else None
            if known is None:
                require_drafter(name)
                known = self._models.load(name, progress, target=target, make_room=make_room)
                if loaded is target:
                    self._draft_models[name] = known
            return known

        return self._noted(builder(kind)(name, target, load), target)

    def _noted(self, made: LoadedDrafter, target: LoadedModel) -> LoadedDrafter:
        """The drafter, compiled and resident; what was measured of another model under its name counts no longer."""
        if self._warming.is_needed():
            self._warm_up(target, made.renewed())
        self._models.keep_resident()
        if made.sha256 is not None:
            self._costs_of(target).now_drafts(made.name, made.sha256)
        return made

    def _kind_of(self, name: str) -> DrafterKind:
        if name in DRAFTERS:
            return DRAFTERS[name]
        return drafter_kind(name, type_stated(self._read_json(Path(name).expanduser() / "config.json", required=False)))

    def _together(
        self, members: Sequence[str], target: LoadedModel, progress: Progress, make_room: MakeRoom | None
    ) -> LoadedDrafter:
        """Those of the members that fit the target, as one; one whose model does not fit into the memory is left out, too. In
        place of the built-in ones a target of the user's has a head that was trained for it, if it lies among the models, and the
        draft model that has served it best."""
        from engine.drafters import feature_head
        from engine.drafters.automatic import together
        from engine.files.builtin import builtin_path
        from engine.models.unloaded_pair import trained_head

        named = "builtin" if Path(target.path) == builtin_path() else ""
        loaded = []
        for name in members:
            if may_fit(name, named):
                with contextlib.suppress(DraftlightError):
                    loaded.append(self.drafter(name, target, progress, make_room))
            elif name == HEAD and (folder := trained_head(target.sha256)) is not None:
                with contextlib.suppress(DraftlightError):
                    loaded.append(self._noted(feature_head.from_folder(folder, HEAD, target), target))
            elif name == SMALL_DRAFT:
                with contextlib.suppress(DraftlightError):
                    loaded += [self.drafter(model, target, progress, make_room) for model in self._draft_models_used(target)]
        return together(loaded)

    def _draft_models_used(self, target: LoadedModel) -> list[str]:
        """Of the draft models with which this target has answered here the path of the one that makes it fastest by what is known
        of passes, steps and alphas; none where none makes it faster, or none is there any more."""
        from engine.decode.policy.adaptive import MARGIN, MOST_SAMPLED

        costs = self._costs_of(target)
        faster: dict[float, str] = {}
        for name in costs.steps:
            alpha, extra = costs.usual_alpha(name), costs.extra(name, samples=True)
            if name in DRAFTERS or alpha is None or extra is None:
                continue
            with contextlib.suppress(DraftlightError, OSError, ValueError, RuntimeError):  # as of a disk that is gone
                path = Path(name).expanduser()  # one that begins in the folder where a command was given means nothing now
                is_another = path.is_absolute() and path.exists() and not path.samefile(target.path)
                if is_another and self._kind_of(name).follows_text:
                    faster[max(speed([alpha] * MOST_SAMPLED, Cost(extra)))] = name
        most = max(faster, default=0.0)
        return [faster[most]] if most > 1 + MARGIN else []

    def unloaded_pair(self, name: str, target: LoadedModel) -> tuple[str, str]:
        """As in `Backend`, by `engine.models.unloaded_pair`."""
        from engine.files.builtin import builtin_path
        from engine.models.unloaded_pair import unloaded_pair

        return unloaded_pair(target, builtin_path() if name == "builtin" else Path(name).expanduser())

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        """As in `Backend`, by `engine.decode.loop`, which is told what rounds cost here."""
        costs = self._costs_of(cast("LoadedModel", context.model))  # serving never decodes a bare module
        loop = self._loop.DecodeLoop(replace(context, costs=costs))
        seen: list[Round] = []
        try:
            for outcome in loop.outcomes():
                seen.append(outcome.round)
                yield outcome
                del outcome  # with the arrays of the round
        finally:  # an answer that is ended from outside has shown what its rounds cost as well
            costs.follow(seen, context.options.temperature)

    def measure(self, target: LoadedModel, drafter: Drafter | None) -> Generator[None, None, None]:
        """As in `Backend`, by `engine.decode.measuring`, imported when it is first wanted. What was found is kept for ever."""
        from engine.decode.measuring import measure

        costs = self._costs_of(target)
        before = len(costs.rows), len(costs.steps)
        try:
            yield from measure(target, drafter, costs)
        finally:
            if (len(costs.rows), len(costs.steps)) != before:
                self._kept_costs.save()

    def _costs_of(self, target: LoadedModel) -> MachineCosts:
        if self._costs[0] is not target:
            key = f"{target.sha256} {self.numerics(target).logits} {self.device()}"
            self._costs = (target, self._kept_costs.of(key))
        return self._costs[1]

    def prove(
        self, target: LoadedModel, drafter: Drafter | None, request: ProveRequest, progress: Callable[[str, float], None]
    ) -> Iterator[Finding]:
        """As in `Backend`, by `engine.tools.proof.checks`, imported when it is first wanted."""
        from engine.tools.proof import checks as run

        others = self._lookups_and_head(target, drafter)
        yield from run.prove(target, drafter, run.AMOUNTS[request.effort], request.seed, request.plant, progress, others)

    def _lookups_and_head(self, target: LoadedModel, drafter: Drafter | None) -> list[Drafter]:
        """What the window offers for this target besides this drafter, without loading a model."""
        others: list[Drafter] = []
        for name in DRAFTERS:
            if drafter is None or DRAFTERS[name].members or name in (drafter.name, NO_DRAFTER, SMALL_DRAFT):
                continue
            try:
                other = self.drafter(name, target, lambda step, fraction: None).drafter
            except DraftlightError:
                continue  # the head was trained for another target
            if other is not None:
                others.append(other)
        return others

    def train(
        self,
        target: LoadedModel,
        request: TrainRequest,
        tell: Callable[[str], None],
        report: Callable[[str, float], None],
        measured: Callable[[HeldOut], None],
    ) -> Trained:
        """As in `Backend`, by `engine.tools.training.stages`, imported when it is first wanted."""
        from engine.tools.training import stages as run

        return run.train(target, request, tell, report, measured)

    def peer(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        prompt: Sequence[int],
        options: DecodingOptions,
        proceed: Callable[[], None],
    ) -> Generator[PeerToken, None, None]:
        """As in `Backend`, by `engine.tools.bench.peers`, imported when it is first wanted."""
        from engine.tools.bench import peers

        yield from peers.answer(target, draft, prompt, options, proceed)

    def peer_refusal(self, target: LoadedModel, draft: LoadedModel) -> str | None:
        """As in `Backend`, by `engine.tools.bench.peers`."""
        from engine.tools.bench import peers

        return peers.refusal(target, draft)

    def finish_queued(self) -> None:
        """As in `Backend`: MLX's default stream of this thread is empty afterwards."""
        self._mx.synchronize()

    def settle(self) -> None:
        """As in `Backend`; collects Python's garbage too, so that arrays nobody holds are given back. What is left stays
        resident."""
        self._mx.synchronize()
        garbage.collect()
        self._mx.clear_cache()
        self._models.keep_resident()
        self._mx.reset_peak_memory()

    def peak_memory(self) -> int:
        """As in `Backend`: what MLX counts, without what numpy, Python and the tokenizer take."""
        return int(self._mx.get_peak_memory())

    def make_cache(self, target: LoadedModel, kv_bits: int | None = None) -> PromptCache:
        """As in `Backend`: one entry for each layer, as the model itself or mlx-lm makes them."""
        if kv_bits is None:
            return self._cache.make_prompt_cache(target.model)
        from engine.target.quantised_cache import make_quantised_cache

        return make_quantised_cache(target.model, kv_bits, target.name)

    def cache_length(self, cache: PromptCache) -> int | None:
        """As in `Backend`, by `engine.target.prompt_cache`."""
        return self._cache.cache_length(cache)

    def trim(self, cache: PromptCache, length: int) -> int:
        """As in `Backend`; where no layer can be rolled back the cache stays untouched."""
        return 0 if self._cache.refusal(cache) is not None else self._cache.rewind(cache, length, "target")

    def device(self) -> str:
        """As in `Backend`: the name of the processor or graphics chip as MLX reports it."""
        return self._device().name

    def numerics(self, target: LoadedModel) -> Numerics:
        """What of the arithmetic decides last bits: the type of the logits and the size of prompt chunks."""
        return Numerics(self._cache.logits_type(target.model), self._cache.chunk_size(target.model))

    def pulse(self) -> float | None:
        """As in `Backend`: nobody else waits."""
        return None

    def close(self) -> None:
        """As in `Backend`; gives back memory and this thread's streams."""
        self._kept_costs.save()
        self._mx.synchronize()
        self._mx.clear_cache()
        self._mx.clear_streams()
