"""Every input that was a finding once is answered as it should be: refused in words, in time, in little memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.values.errors import DraftlightError
from tests.fuzz import watched
from tests.fuzz.targets import TARGETS
from tests.fuzz.watched import finding

KEPT = sorted((Path(__file__).parent / "findings").glob("*/*"))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path))


@pytest.mark.parametrize("name", sorted({path.parent.name for path in KEPT}))
def test_what_was_found_once_is_mended(name: str) -> None:
    for seed in TARGETS[name].seeds():
        finding(TARGETS[name].check, seed)  # imports what it needs, which takes longer than an input may
    found = {path.name: finding(TARGETS[name].check, path.read_bytes()) for path in KEPT if path.parent.name == name}
    assert {kept: what for kept, what in found.items() if what} == {}


@pytest.mark.parametrize("name", TARGETS)
def test_sound_inputs_are_read(name: str) -> None:
    """Otherwise a target refuses them and what is made of them, and its table says nothing."""
    for seed in TARGETS[name].seeds():
        TARGETS[name].check(seed)


def test_each_kind_of_finding_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: str) -> Callable[[bytes], None]:
        def check(data: bytes) -> None:
            raise DraftlightError(message)

        return check

    assert finding(refused("It cannot be read."), b"") is None
    assert finding(refused(""), b"") == "an empty message"
    assert finding(refused("\ud800"), b"") == "a message that cannot be shown"
    assert str(finding(json.loads, b"{")).startswith("JSONDecodeError at ")
    monkeypatch.setattr(watched, "SECONDS", -1.0)
    assert finding(json.loads, b"{}") == "slow"
    monkeypatch.setattr(watched, "SECONDS", 1.0)
    monkeypatch.setattr(watched, "MEGABYTES", -1)
    assert finding(json.loads, b"{}") == "memory"
