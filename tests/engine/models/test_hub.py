"""A model of the Hub that would exhaust the memory is refused before it is downloaded. The Hub is a server in the test."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest

from engine.errors import NotEnoughMemory
from engine.files.memory import MemoryNeed
from engine.models import hub
from engine.models.loading import load
from engine.serving.model_slots import ModelSlots
from tests.engine import tiny_models
from tests.engine.fakes import FakeBackend

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves `folder` as the repository org/model, as the Hub does: /org/model/resolve/main/FILE, with ranges.

    Attributes:
        sent: bytes of each file that went out.
    """

    def __init__(self, folder: Path) -> None:
        self.sent: dict[str, int] = {}
        sent = self.sent

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def answer(self, body: bool) -> None:
                found = re.fullmatch(r"/org/model/resolve/main/([\w.-]+)", self.path)
                path = folder / found[1] if found else None
                if path is None or not path.is_file():
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                content = path.read_bytes()
                wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                part = content[int(wanted[1]) : int(wanted[2]) + 1] if wanted else content
                self.send_response(206 if wanted else 200)
                self.send_header("Content-Length", str(len(part)))
                self.send_header("ETag", f'"{path.name}"')
                self.send_header("X-Repo-Commit", COMMIT)
                self.end_headers()
                if body:
                    sent[path.name] = sent.get(path.name, 0) + len(part)
                    self.wfile.write(part)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_models.write_folder(tmp_path / "served")


@pytest.fixture
def served(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # else its progress bars leave a thread
    running = Hub(folder)
    for name, value in (("ENDPOINT", running.address), ("HF_HUB_CACHE", str(tmp_path / "cache")), ("HF_HUB_OFFLINE", False)):
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", running.address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    api = huggingface_hub.HfApi(endpoint=running.address)
    monkeypatch.setattr(hub, "get_safetensors_metadata", api.get_safetensors_metadata)

    def download(name: str, file: str) -> str:
        return huggingface_hub.hf_hub_download(name, file, endpoint=running.address, cache_dir=tmp_path / "cache")

    monkeypatch.setattr(hub, "hf_hub_download", download)
    yield running
    running.close()


def needs(folder: Path) -> MemoryNeed:
    """What loading the folder asks for."""
    asked: list[MemoryNeed] = []
    load(folder.as_posix(), make_room=asked.append)
    return asked[0]


@pytest.mark.usefixtures("served")
def test_the_need_is_known_from_the_headers_alone(folder: Path) -> None:
    known, loaded = hub.need_ahead("org/model", True), needs(folder)
    assert known is not None and known.is_ahead
    assert (known.weights, known.cache, known.stored) == (loaded.weights, loaded.cache, loaded.stored)


def test_a_model_that_is_too_large_is_not_downloaded(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(name: str, allow_patterns: list[str], local_files_only: bool = False) -> str:
        assert local_files_only, "it is downloaded"
        raise OSError("not cached")

    def refuse(need: MemoryNeed) -> None:
        raise NotEnoughMemory(need.refusal(10))

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    with pytest.raises(
        NotEnoughMemory, match=r"org/model needs about 1 MB .*It was not downloaded\. Choose .* or load it anyway"
    ):
        load("org/model", make_room=refuse)
    assert served.sent["config.json"] > 0


def test_what_cannot_be_known_beforehand_is_downloaded(served: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As other weights than safetensors."""
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    assert hub.need_ahead("org/model", True) is None


def test_a_model_that_is_here_is_not_asked_about(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **_: folder.as_posix())
    asked: list[MemoryNeed] = []
    load("org/model", make_room=asked.append)
    assert [need.is_ahead for need in asked] == [False]


@pytest.mark.parametrize(("anyway", "total"), [(set(), 101), ({"huge"}, 101), (set(), 90)])
def test_nothing_is_given_up_for_a_model_that_is_not_here_yet(anyway: set[str], total: int) -> None:
    backend = FakeBackend()
    backend.memory, backend.sizes = 100, {"small": 30, "huge": total}
    slots = ModelSlots(backend, lambda event: None, lambda: None, anyway)
    slots.target("small")
    need = MemoryNeed("huge", total, 0, total, False, is_ahead=True)
    if total > 100 and not anyway:
        with pytest.raises(NotEnoughMemory):
            slots._room_for_target("huge", need)
    else:
        slots._room_for_target("huge", need)
    before = len(backend.loads)
    slots.target("small")
    assert len(backend.loads) == before, "the loaded target was given up"
