"""The backend that computes with MLX. Created, used and closed on the engine thread."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.policy.costs import MachineCosts, StoredCosts
from engine.decode.policy.estimates import Cost, speed
from engine.files.foreign import object_in
from engine.files.hub import require_drafter
from engine.files.logs import explain
from engine.files.memory import MakeRoom, available_memory
from engine.files.model_folder import CONFIG
from engine.files.paths import data_folder
from engine.machine import garbage
from engine.machine.mlx_import import require_device
from engine.machine.provenance import versions
from engine.serving.model_slots import Closing
from engine.types import KV_BITS, DecodingOptions, Numerics, ProveRequest, Round
from engine.values.drafter_kinds import (
    DRAFTERS,
    EAGLE_FOLDER,
    HEAD,
    MTP,
    MTP_FOLDER,
    NO_DRAFTER,
    SMALL_DRAFT,
    DrafterKind,
    drafter_kind,
    may_fit,
    type_stated,
)
from engine.values.errors import DraftlightError
from engine.values.events import ReportStep
from engine.values.requests.bench import PeerToken
from engine.values.requests.prove import Finding
from engine.values.requests.train import HeldOut, Trained, TrainRequest

if TYPE_CHECKING:
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache


class MlxBackend:
    """`Backend` on MLX. The constructor imports MLX, hence on the thread that uses it."""

    def __init__(self) -> None:
        require_device()
        try:
            import mlx.core

            from engine.decode import loop, warm_up
            from engine.machine import device
            from engine.models import loading as models
            from engine.target import prompt_cache as cache
        except ImportError as error:
            raise DraftlightError(f"MLX is not available ({error}). Reinstall Draftlight on macOS or Linux.") from error
        self._mx = mlx.core
        self._device = device.device
        self._cache = cache
        self._loop = loop
        self._warming = warm_up
        self._models = models
        self._target: tuple[str, LoadedModel | None] = ("", None)
        self._draft_models: weakref.WeakValueDictionary[str, LoadedModel] = weakref.WeakValueDictionary()
        """Draft models of the target by name, as long as something references them: a drafter and the drafter auto share one
        model."""
        self._stored_costs = StoredCosts(data_folder() / "costs.json")
        self._costs: tuple[LoadedModel | None, MachineCosts] = (None, MachineCosts())  # of the target used last

    def load(self, name: str, progress: ReportStep, make_room: MakeRoom | None = None) -> LoadedModel:
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
        """Compiles what rounds of the pair run. Errors are only logged: the answer that runs into them reports them to the
        user."""
        try:
            self._warming.warm_up(target, drafter)
        except Exception as error:
            explain(error, "compiling for the GPU")

    def _load_target(self, name: str, progress: ReportStep, make_room: MakeRoom | None) -> LoadedModel:
        """Loads a target. Overridden where it is split over several processes."""
        return self._models.load(name, progress, make_room=make_room)

    def release(self) -> None:
        """Drops the references to the target. It is freed once nothing else refers to it and `finish_and_free` is called."""
        self._target = ("", None)
        self._costs = (None, MachineCosts())

    def free_memory(self) -> int | None:
        """As in `Backend`: on a GPU MLX's memory limit minus what it holds, else the free memory of the system."""
        limit = self._device().memory
        return available_memory() if limit is None else limit - self.held_memory()

    def held_memory(self) -> int:
        """As in `Backend`, including buffers that MLX keeps for reuse."""
        return int(self._mx.get_active_memory() + self._mx.get_cache_memory())

    def drafter(self, name: str, target: LoadedModel, progress: ReportStep, make_room: MakeRoom | None = None) -> LoadedDrafter:
        """As in `Backend`; refuses any drafter for a target whose cache cannot be rolled back."""
        from engine.drafters.loaded import LoadedDrafter, builder

        kind = self._kind_of(name)
        if not kind.build and not kind.members:
            return LoadedDrafter(name, None)
        reason = self._models.cache_reason(target.model)
        if reason is not None:
            message = f"No drafter can be used with {target.name}: it {reason}"
            if kind.members:
                return LoadedDrafter(name, None, warning=message)
            raise DraftlightError(message)
        if kind.members:
            return self._together(kind.members, target, progress, make_room)

        def load() -> LoadedModel:
            """Loads the model of the drafter's name. A target that drafts for itself is already loaded."""
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

        made = self._noted(builder(kind)(name, target, load), target)
        return self._measured(made, target, progress) if kind.name in (MTP, MTP_FOLDER, EAGLE_FOLDER) else made

    def _noted(self, made: LoadedDrafter, target: LoadedModel) -> LoadedDrafter:
        """Returns the drafter, compiled and resident. Measurements of a different model under its name are discarded."""
        if self._warming.is_needed():
            self._warm_up(target, made.renewed())
        self._models.keep_resident()
        if made.sha256 is not None:
            self.costs_of(target).invalidate_if_changed(made.name, made.sha256)
        return made

    def _measured(self, made: LoadedDrafter, target: LoadedModel, progress: ReportStep) -> LoadedDrafter:
        """Returns a published head; on its first use with this target on this machine, its speeds are measured and reported."""
        costs = self.costs_of(target)
        drafter = made.renewed()
        if drafter is None or made.name in costs.depths:
            return made
        from engine.decode.measuring import depth_words, measure_depths

        speeds = measure_depths(target, drafter, lambda share: progress("measuring the head", share))
        costs.depths[made.name] = speeds
        self._stored_costs.save()
        return replace(made, warning=" ".join(filter(None, (made.warning, depth_words(speeds)))))

    def _kind_of(self, name: str) -> DrafterKind:
        if name in DRAFTERS:
            return DRAFTERS[name]
        return drafter_kind(name, type_stated(object_in(Path(name).expanduser() / CONFIG)))

    def _together(
        self, members: Sequence[str], target: LoadedModel, progress: ReportStep, make_room: MakeRoom | None
    ) -> LoadedDrafter:
        """Returns the members that fit the target as one drafter. Members whose model does not fit into memory are left out.
        For a target other than the built-in one, other drafters replace the built-in ones: a head that was trained for it, if
        it is on this machine, or else its own MTP head, and the draft model that made it fastest."""
        from engine.drafters import feature_head
        from engine.drafters.automatic import combined
        from engine.files.builtin import builtin_path
        from engine.models.unloaded_pair import published_heads, trained_head

        named = "builtin" if Path(target.path) == builtin_path() else ""
        loaded: list[LoadedDrafter] = []
        warnings: list[str] = []
        for name in members:
            if name == MTP:
                if any(each.drafter is not None and each.drafter.capabilities.hidden_layers for each in loaded):
                    continue
                for head in published_heads(target):
                    try:
                        loaded.append(self.drafter(head, target, progress, make_room))
                        break
                    except Closing:
                        raise
                    except Exception as error:  # whatever is wrong with a head, the target can be used
                        warnings.append(f"The drafter auto does without a head. {explain(error, f'loading the head {head}')}")
            elif may_fit(name, named):
                with contextlib.suppress(DraftlightError):
                    loaded.append(self.drafter(name, target, progress, make_room))
            elif name == HEAD and (folder := trained_head(target.sha256)) is not None:
                with contextlib.suppress(DraftlightError):
                    loaded.append(self._noted(feature_head.from_folder(folder, HEAD, target), target))
            elif name == SMALL_DRAFT:
                with contextlib.suppress(DraftlightError):
                    loaded += [self.drafter(model, target, progress, make_room) for model in self._draft_models_used(target)]
        return combined(loaded, warnings)

    def _draft_models_used(self, target: LoadedModel) -> list[str]:
        """Returns the draft model that makes this target fastest, as a list of one path. Only models with which it has answered
        on this machine count, by their measured pass times, step times and alphas. Empty if none makes it faster or the model
        is gone."""
        from engine.decode.policy.adaptive import MARGIN, MOST_SAMPLED

        costs = self.costs_of(target)
        faster: dict[float, str] = {}
        for name in costs.steps:
            alpha, extra = costs.mean_alpha(name), costs.extra(name, samples=True)
            if name in DRAFTERS or alpha is None or extra is None:
                continue
            with contextlib.suppress(DraftlightError, OSError, ValueError, RuntimeError):  # such as a removed disk
                path = Path(name).expanduser()  # a relative path has no meaning any more
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
        """As in `Backend`, by `engine.decode.loop` with this machine's cost model."""
        costs = self.costs_of(cast("LoadedModel", context.model))  # serving always decodes a LoadedModel
        loop = self._loop.DecodeLoop(replace(context, costs=costs))
        seen: list[Round] = []
        try:
            for outcome in loop.outcomes():
                seen.append(outcome.round)
                yield outcome
                del outcome  # frees the round's arrays
        finally:  # also record the costs of an answer that was interrupted
            costs.follow(seen, context.options.temperature)
            self._record_tree_checks()

    def measure(self, target: LoadedModel, drafter: Drafter | None) -> Generator[None, None, None]:
        """As in `Backend`, by `engine.decode.measuring`, imported at first use. The results are saved permanently."""
        from engine.decode.measuring import measure

        costs = self.costs_of(target)
        known = len(costs.rows), len(costs.steps), len(costs.trees)
        try:
            yield from measure(target, drafter, costs)
        finally:
            self._record_tree_checks()
            if (len(costs.rows), len(costs.steps), len(costs.trees)) != known:
                self._stored_costs.save()

    def costs_of(self, target: LoadedModel) -> MachineCosts:
        """Returns what is known of the costs of rounds with a target on this machine, for changes, which later calls see."""
        if self._costs[0] is not target:
            from engine.target.tree_pass import TreeCheck, kept_checks

            key = f"{target.sha256} {self.numerics(target).logits} {self.device()}"
            self._costs = (target, self._stored_costs.of(key))
            for bits, kind in _tree_kinds().items():
                if (reason := self._costs[1].trees.get(kind)) is not None:
                    kept_checks(target.model).setdefault(bits, TreeCheck(reason))
        return self._costs[1]

    def _record_tree_checks(self) -> None:
        """Records whether the target of the last answer or measurement reads trees, so that no later process checks it."""
        from engine.target.tree_pass import kept_checks

        target, costs = self._costs
        if target is not None:
            kept = kept_checks(target.model)
            costs.trees |= {kind: kept[bits].reason for bits, kind in _tree_kinds().items() if bits in kept}

    def prove(
        self, target: LoadedModel, drafter: Drafter | None, request: ProveRequest, progress: Callable[[str, float], None]
    ) -> Iterator[Finding]:
        """As in `Backend`, by `engine.tools.proof.checks`, imported at first use."""
        from engine.tools.proof import checks as run

        others = self._lookups_and_head(target, drafter)
        yield from run.prove(target, drafter, run.AMOUNTS[request.effort], request.seed, request.plant, progress, others)

    def _lookups_and_head(self, target: LoadedModel, drafter: Drafter | None) -> list[Drafter]:
        """Returns the other drafters that the window offers for this target and that need no model to be loaded."""
        others: list[Drafter] = []
        for name in DRAFTERS:
            if drafter is None or DRAFTERS[name].members or name in (drafter.name, NO_DRAFTER, SMALL_DRAFT):
                continue
            try:
                other = self.drafter(name, target, lambda step, fraction, is_download=False, /: None).drafter
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
        report: Callable[[str, float, str], None],
        measured: Callable[[HeldOut], None],
    ) -> Trained:
        """As in `Backend`, by `engine.tools.training.stages`, imported at first use."""
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
        """As in `Backend`, by `engine.tools.bench.peers`, imported at first use."""
        from engine.tools.bench import peers

        yield from peers.answer(target, draft, prompt, options, proceed)

    def peer_refusal(self, target: LoadedModel, draft: LoadedModel) -> str | None:
        """As in `Backend`, by `engine.tools.bench.peers`."""
        from engine.tools.bench import peers

        return peers.refusal(target, draft)

    def finish_queued(self) -> None:
        """As in `Backend`: waits until MLX's default stream of this thread is empty."""
        self._mx.synchronize()

    def finish_and_free(self) -> None:
        """As in `Backend`; also runs Python's garbage collection, which frees unreferenced arrays. Everything else stays
        resident."""
        self._mx.synchronize()
        garbage.collect()
        self._mx.clear_cache()
        self._models.keep_resident()
        self._mx.reset_peak_memory()

    def peak_memory(self) -> int:
        """As in `Backend`: memory that MLX counts, without that of numpy, Python and the tokenizer."""
        return int(self._mx.get_peak_memory())

    def make_cache(self, target: LoadedModel, kv_bits: int | None = None) -> PromptCache:
        """As in `Backend`: one entry per layer, made by the model itself or by mlx-lm."""
        from engine.target.quantised_cache import empty_cache

        return empty_cache(target.model, kv_bits, target.name)

    def cache_length(self, cache: PromptCache) -> int | None:
        """As in `Backend`, by `engine.target.prompt_cache`."""
        return self._cache.cache_length(cache)

    def trim(self, cache: PromptCache, length: int) -> int:
        """As in `Backend`; a cache in which no layer can be rolled back stays unchanged."""
        return 0 if self._cache.refusal(cache) is not None else self._cache.rewind(cache, length, "target")

    def device(self) -> str:
        """As in `Backend`: name of the processor or GPU, as MLX reports it."""
        return self._device().name

    def numerics(self, target: LoadedModel) -> Numerics:
        """As in `Backend`: type of the logits and size of prompt chunks."""
        return Numerics(self._cache.logits_type(target.model), self._cache.chunk_size(target.model))

    def chains_reason(self, target: LoadedModel, drafter: Drafter | None, options: DecodingOptions) -> str:
        """Returns why chains are drafted instead of trees, see `engine.decode.target_session`."""
        from engine.decode.target_session import chains_reason

        return chains_reason(options, drafter, target)

    def pulse(self) -> float | None:
        """As in `Backend`: never needed, since no other process waits."""
        return None

    def close(self) -> None:
        """As in `Backend`; frees memory and this thread's streams."""
        self._stored_costs.save()
        self._mx.synchronize()
        self._mx.clear_cache()
        self._mx.clear_streams()


def _tree_kinds() -> dict[int | None, str]:
    """Returns the names under which checks of trees are stored, by bits of the keys and values."""
    return {bits: f"mlx-lm {versions()['mlx-lm']}, {bits or 16} bits" for bits in (None, *KV_BITS)}
