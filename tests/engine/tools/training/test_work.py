"""The work folder of a training: what is damaged in it is refused in words, and nothing is mixed with what was made otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tools.training.work import Work
from engine.values.errors import DraftlightError


@pytest.mark.parametrize("content", [b"", b"5", b"[]", b'{"text": 5}', b'{"text": null}', b"[" * 2000 + b"]" * 2000, b"\xff"])
def test_damaged_settings_give_a_message(tmp_path: Path, content: bytes) -> None:
    work = Work(tmp_path)
    (tmp_path / "settings.json").write_bytes(content)
    with pytest.raises(DraftlightError, match=r"settings\.json cannot be read \(.*Remove it and the folders next to it"):
        work.record_or_compare("text", {"seed": 1})
    assert (tmp_path / "settings.json").read_bytes() == content
    with pytest.raises(DraftlightError, match=r"settings\.json cannot be read"):
        work.sources()


def test_settings_are_compared_with_the_recorded_ones(tmp_path: Path) -> None:
    work = Work(tmp_path)
    assert work.sources() == []
    settings = {"seed": 2, "sources": [("\udcff.txt", "00")], "steps": None}
    work.record_or_compare("text", settings)
    work.record_or_compare("text", settings)
    assert work.sources() == [("\ufffd.txt", "00")]
    with pytest.raises(DraftlightError, match="seed was 2 and is now 3"):
        work.record_or_compare("text", {**settings, "seed": 3})
    files = [(f"{name}.txt", name * 64) for name in "abcd"]
    (tmp_path / "settings.json").unlink()
    work.record_or_compare("text", {"sources": files})
    with pytest.raises(DraftlightError, match=r'sources was \[\["c.txt", "c+\.\.\. and is now \[\["c.txt", "e+\.\.\.'):
        work.record_or_compare("text", {"sources": [*files[:2], ("c.txt", "e" * 64), files[3]]})
    with pytest.raises(DraftlightError, match=r'sources was \[\] and is now \[\["new.txt", "f"\]\]'):
        work.record_or_compare("text", {"sources": [*files, ("new.txt", "f")]})
    for damaged in (5, [5], ["abc"]):
        (tmp_path / "settings.json").unlink()
        work.record_or_compare("text", {"sources": damaged})
        with pytest.raises(DraftlightError, match=r"settings\.json cannot be read"):
            work.sources()


def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    work = Work(tmp_path)
    (tmp_path / "lock").mkdir()
    with pytest.raises(DraftlightError, match=r"lock cannot be opened \(Is a directory\)\. Remove it"), work.locked():
        pass
    (tmp_path / "lock").rmdir()
    with pytest.raises(OSError, match="of the training"), work.locked():
        raise OSError("of the training")
