"""Loading one split target after another: nobody is out of step, and what fails leaves what there was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.cluster import backend as backends
from engine.cluster import follower as followers
from engine.cluster import group
from engine.cluster.backend import ClusterBackend
from engine.cluster.group import WIDTH, ClusterLost, Kind, Links, Numbers, Order
from engine.values.errors import DraftlightError
from tests.engine.cluster.models import of_this_machine, write_qwen2


class Echo:
    """Ranks that all do and say what this one does."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.mlx, self.links = mx.distributed.init(), Links()
        self.rows: list[list[int]] = []

    def exchange(self, row: Sequence[int]) -> Numbers:
        self.rows.append(list(row))
        return np.array([[*row, *[0] * (WIDTH - len(row))]] * 2, np.int32)

    def texts(self, text: str) -> list[str]:
        return [text, text]

    def send(self, numbers: Numbers) -> None:
        self.sent = numbers

    def receive(self, length: int) -> Numbers:
        return self.sent

    def kinds(self) -> list[str]:
        """The orders so far; a fingerprint, which begins with its length, is none."""
        said = ["fingerprint" if row[0] == 32 or len(row) == 1 else Kind(row[0]).name for row in self.rows]
        self.rows.clear()
        return said


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, home: Path) -> Echo:
    made = Echo()
    monkeypatch.setattr(group, "join", lambda backend: made)
    return made


def test_making_room_while_all_ranks_load_says_nothing(echo: Echo, tmp_path: Path) -> None:
    backend = ClusterBackend(of_this_machine(2))
    one, other = write_qwen2(tmp_path / "one"), write_qwen2(tmp_path / "other", rope_theta=5.0)
    backend.load(one, lambda step, share: None)
    assert echo.kinds() == ["LOAD", "fingerprint"]
    backend.load(other, lambda step, share: None, lambda need: backend.release())
    assert echo.kinds() == ["LOAD", "fingerprint"]
    with pytest.raises(DraftlightError):
        backend.load(str(tmp_path / "missing"), lambda step, share: None)
    assert echo.kinds() == ["LOAD", "fingerprint"], "what the others hold stays, as on rank 0"
    backend.release()
    assert echo.kinds() == ["DROP"]
    assert backends.PULSE > 0


def test_a_follower_keeps_its_part_until_all_have_the_next(tmp_path: Path) -> None:
    echo = Echo()
    follower = followers.Follower(echo)  # type: ignore[arg-type]

    def held_after(path: str) -> str | None:
        """The path of the model that the follower holds after the order to load one."""
        message = np.frombuffer(json.dumps({"sharding": "tensor", "name": path}).encode(), np.uint8)
        echo.send(message.astype(np.int32))
        follower.execute(Order(Kind.LOAD, length=len(message)))
        return follower.loaded and follower.loaded.path

    one, two = write_qwen2(tmp_path / "one"), write_qwen2(tmp_path / "two")
    assert held_after(one) == one
    assert held_after(str(tmp_path / "missing")) == one
    assert held_after(two) == two


def test_links_file_is_deleted_even_without_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "devices.json"
    path.write_text("[]")
    monkeypatch.setenv("DRAFTLIGHT_OWN_FILE", str(path))
    monkeypatch.setenv("DRAFTLIGHT_LINKS", "jaccl")

    def nobody(backend: str) -> None:
        raise ClusterLost(f"nobody by {backend}")

    monkeypatch.setattr(followers, "join", nobody)
    assert followers.main() == 1
    assert not path.exists()
    assert "draftlight-rank failed nobody by jaccl" in capfd.readouterr().out
