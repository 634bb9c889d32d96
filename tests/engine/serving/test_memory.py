"""A model that would exhaust the memory is refused before it is read, and one that takes another's place lets it go."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.machine.device import Device
from engine.models import loading
from engine.runtime.mlx_backend import MlxBackend
from engine.runtime.worker import Engine
from engine.serving.model_slots import EVERY, ModelSlots
from engine.types import DrafterReady, DrafterRefused, Event, LoadFailed, LoadFinished
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest
from tests.engine import tiny_models
from tests.engine.desk import Desk, request
from tests.engine.fakes import FakeBackend


class Machine:
    """Slots over a machine with 100 bytes, in which a small model is loaded."""

    def __init__(self, *anyway: str) -> None:
        self.backend = FakeBackend()
        self.backend.memory = 100
        self.backend.sizes = {"small": 30, "beside": 70, "instead": 90, "huge": 101, "broken": 90}
        self.backend.sizes |= {"draft": 60, "other": 20, "too large": 71}
        self.events: list[Event] = []
        self.slots = ModelSlots(self.backend, self.events.append, lambda: None, set(anyway))
        self.slots.target("small")

    def loaded_again(self) -> bool:
        """Whether the small target has to be loaded when it is asked for."""
        before = len(self.backend.loads)
        self.slots.target("small")
        return len(self.backend.loads) > before


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_model_that_fits_is_loaded_next_to_the_others(machine: Machine) -> None:
    machine.slots.target("beside")
    assert machine.backend.held == {"small": 30, "beside": 70}, "the fake lets go of nothing by itself"


def test_model_that_fits_only_alone_replaces_the_target(machine: Machine) -> None:
    machine.slots.target("instead")
    assert machine.backend.held == {"instead": 90}
    assert isinstance(machine.events[-1], LoadFinished)


def test_model_that_does_not_fit_is_refused_and_others_stay(machine: Machine) -> None:
    with pytest.raises(DraftlightError, match="huge needs about"):
        machine.slots.target("huge")
    failed = machine.events[-1]
    assert isinstance(failed, LoadFailed)
    assert failed.may_force
    assert machine.backend.held == {"small": 30}
    assert not machine.loaded_again()


@pytest.mark.parametrize(
    ("target", "drafter", "reported"), [("huge", "none", LoadFailed), ("small", "too large", DrafterRefused)]
)
def test_an_answer_that_fails_for_a_model_names_what_refused_it(target: str, drafter: str, reported: type) -> None:
    backend = Machine().backend
    backend.sizes["too large"] = 101
    with Desk(Engine(lambda: backend)) as desk:
        failed = desk.failure(target=target, drafter=drafter)
    assert isinstance(failed.refused, reported) and failed.refused in desk.seen
    assert failed.refused.may_force and failed.message == failed.refused.message


@pytest.mark.parametrize("allowed", ["huge", EVERY])
def test_refused_model_is_loaded_on_demand(allowed: str) -> None:
    machine = Machine(allowed)
    machine.slots.target("huge")
    assert machine.backend.held == {"huge": 101}


def test_a_target_that_made_room_in_vain_comes_back(machine: Machine) -> None:
    with pytest.raises(DraftlightError, match="broken is not a model"):
        machine.slots.target("broken")
    failed = machine.events[-1]
    assert isinstance(failed, LoadFailed)
    assert not failed.may_force
    assert machine.loaded_again()
    machine.slots.drafter("other")
    assert isinstance(machine.events[-1], DrafterReady)


def test_a_drafter_may_take_the_place_of_others_but_not_of_the_target(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, make = machine.backend, machine.backend.drafter
    loaded: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def noted(name: str, *rest: Any) -> Any:
        loaded[name] = made = make(name, *rest)
        return made

    def let_go() -> None:
        """Frees what is no longer referenced, as MLX frees arrays."""
        backend.held = {name: size for name, size in backend.held.items() if name == "small" or name in loaded}

    monkeypatch.setattr(backend, "drafter", noted)
    monkeypatch.setattr(backend, "finish_and_free", let_go)
    machine.slots.drafter("other")
    machine.slots.drafter("draft")
    assert machine.backend.held == {"small": 30, "draft": 60}
    with pytest.raises(DraftlightError, match="too large needs about"):
        machine.slots.drafter("too large")
    refused = machine.events[-1]
    assert isinstance(refused, DrafterRefused)
    assert refused.may_force
    assert not machine.loaded_again()


def test_unknown_memory_refuses_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.backend, "free_memory", lambda: None)
    machine.slots.target("huge")


def test_a_real_model_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models.write_gguf(tmp_path / "model.gguf").as_posix()
    backend = MlxBackend()
    monkeypatch.setattr(backend, "free_memory", lambda: 1000)
    monkeypatch.setattr(backend, "held_memory", lambda: 0)
    slots = ModelSlots(backend, lambda event: None, lambda: None)
    with pytest.raises(DraftlightError, match=r"model needs about \d+ kB of memory, but only 1 kB are available"):
        slots.target(path)


@pytest.mark.parametrize("most", [2**40, 1000])
def test_on_a_gpu_what_is_loaded_stays_resident_as_far_as_metal_recommends(
    most: int, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = (tmp_path / f"{name}.gguf" for name in ("target", "draft"))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(loading, "computes_on_host", lambda: False)
    monkeypatch.setattr(loading.device, "device", lambda: Device("metal", "Apple M4", most))
    monkeypatch.setattr(mx, "set_wired_limit", lambda limit: asked.append((limit, mx.get_active_memory())))
    slots = ModelSlots(MlxBackend(), lambda event: None, lambda: None, {EVERY})
    for path, load in ((target, slots.target), (draft, slots.drafter)):
        before = len(asked)
        load(tiny_models.write_gguf(path).as_posix())
        limit, held = asked[-1]
        assert len(asked) > before
        assert limit == min(most, held)


@pytest.mark.parametrize("compared", [False, True])
def test_another_target_leaves_no_memory_to_the_one_before(compared: bool, tmp_path: Path, home: Path) -> None:
    """MLX counts what its arrays take, and what it keeps of freed ones. Not even after answers does that wait for Python's
    collector, which the window puts off."""
    made = tiny_models.weights(vocabulary=40_000)
    paths = [tiny_models.write_gguf(tmp_path / f"{name}.gguf", made=made).as_posix() for name in ("one", "two", "three")]
    weights = sum(array.nbytes for array in made.values())
    mx.clear_cache()
    gc.collect()
    gc.disable()
    try:
        with Desk(Engine()) as desk:
            before = mx.get_active_memory() + mx.get_cache_memory()
            for path in paths:
                requests = tuple(request("hello", target=path, drafter=drafter) for drafter in ("ngram", "none"))
                if compared:
                    desk.ends(desk.engine.compare(CompareRequest(requests)))
                else:
                    desk.ends([desk.engine.submit(each) for each in requests])
                assert 0.5 * weights < mx.get_active_memory() + mx.get_cache_memory() - before < 1.5 * weights
    finally:
        gc.enable()
