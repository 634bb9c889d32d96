"""A model of the Hub that would exhaust the memory is refused before it is downloaded. The Hub is a server in the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.files.library import download_destination
from engine.files.memory import MemoryNeed
from engine.models import loading as hub
from engine.models.loading import load
from engine.serving.model_slots import ModelRefused, ModelSlots
from engine.values.errors import DraftlightError, NotEnoughMemory
from engine.values.events import LoadFailed
from tests.engine import tiny_models
from tests.engine.fakes import FakeBackend
from tests.engine.hub_server import Hub, hub_on_the_loopback


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_models.write_folder(tmp_path / "served")


@pytest.fixture
def served(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path / "home"))
    with hub_on_the_loopback(tmp_path, monkeypatch) as running:
        running.serve("org/model", folder)
        yield running


def needs(folder: Path) -> MemoryNeed:
    """What loading the folder asks for."""
    asked: list[MemoryNeed] = []
    load(folder.as_posix(), make_room=asked.append)
    return asked[0]


@pytest.mark.usefixtures("served")
def test_the_need_is_known_from_the_headers_alone(folder: Path) -> None:
    known, loaded = hub.need_before_download("org/model", True), needs(folder)
    assert known is not None and known.is_ahead
    assert (known.weights, known.cache, known.stored) == (loaded.weights, loaded.cache, loaded.stored)


def test_a_model_that_is_too_large_is_not_downloaded(served: Hub) -> None:
    def refuse(need: MemoryNeed) -> None:
        raise NotEnoughMemory(need.refusal(10))

    with pytest.raises(
        NotEnoughMemory, match=r"org/model needs about \d+ kB .*It was not downloaded\. Choose .* or load it anyway"
    ):
        load("org/model", make_room=refuse)
    assert served.sent["config.json"] > 0


def test_model_of_unknown_need_is_downloaded(served: Hub) -> None:
    """As other weights than safetensors."""
    files = served.files["org/model"]
    files["weights.safetensors"] = files.pop("model.safetensors")
    assert hub.need_before_download("org/model", True) is None


def test_a_model_in_the_cache_of_the_hubs_client_is_loaded_without_asking_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    tiny_models.write_folder(tmp_path / "models--org--model" / "snapshots" / "abc")
    asked: list[MemoryNeed] = []
    steps: list[str] = []
    assert load("org/model", lambda step, *_: steps.append(step), make_room=asked.append).name == "org/model"
    assert steps == ["loading the model"]
    assert [need.is_ahead for need in asked] == [False]


def test_what_draftlight_has_downloaded_itself_is_taken_without_asking_the_hub(served: Hub, folder: Path) -> None:
    steps: list[tuple[Any, ...]] = []
    place = Path(load("org/model", lambda *step: steps.append(step[:2])).path)
    assert place == download_destination("org/model")
    assert steps[0] == ("downloading org/model from the Hugging Face Hub", None)
    assert 0 < dict(steps)[steps[0][0]] <= 1
    served.status = 500
    assert load("org/model").path == place.as_posix()


def test_a_repository_without_a_model_for_mlx_lm_says_so_before_anything_is_downloaded(served: Hub) -> None:
    served.files |= {"org/model-GGUF": {"model.gguf": b"GGUF"}, "org/new": served.files["org/model"]}
    served.about |= {"org/model-GGUF": {"tags": ["gguf"]}, "org/new": {"config": {"model_type": "unheard_of"}}}
    with pytest.raises(DraftlightError, match=r"has no config\.json with safetensors\. If it has GGUF files, download one"):
        load("org/model-GGUF")
    with pytest.raises(DraftlightError, match="org/new on the Hugging Face Hub cannot be used: mlx-lm has no architecture"):
        load("org/new")
    assert "model.gguf" not in served.sent


@pytest.mark.parametrize(("anyway", "total"), [(set(), 101), ({"huge"}, 101), (set(), 90)])
def test_loaded_models_stay_while_a_download_is_refused(anyway: set[str], total: int) -> None:
    class BrokenNetwork(FakeBackend):
        """Asks for the memory of a large model before its download, which then fails."""

        def load(self, name: str, progress: Any, make_room: Any = None) -> Any:
            if name == "huge":
                make_room(MemoryNeed("huge", total, 0, total, False, is_ahead=True))
                raise DraftlightError("The network is gone.")
            return super().load(name, progress, make_room)

    backend = BrokenNetwork()
    backend.memory, backend.sizes = 100, {"small": 30}
    slots = ModelSlots(backend, lambda event: None, lambda: None, anyway)
    slots.target("small")
    with pytest.raises(ModelRefused) as refused:
        slots.target("huge")
    assert isinstance(refused.value.event, LoadFailed)
    assert refused.value.event.may_force == (total > 100 and not anyway), "refused for its size, or tried"
    before = len(backend.loads)
    slots.target("small")
    assert len(backend.loads) == before, "the loaded target was given up"
