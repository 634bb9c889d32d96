"""A file is there whole or not at all, whatever happens on the way."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from engine.files import hashes, whole_file
from engine.files.whole_file import NotWritten, write_together, write_whole
from engine.values.errors import DraftlightError


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("content", ["new\n", b"new\n", lambda file: file.write(b"new\n")], ids=["text", "bytes", "function"])
def test_content_is_text_bytes_or_a_function_that_writes(content: whole_file.Content, tmp_path: Path) -> None:
    path = tmp_path / "made" / "on the way" / "file"
    write_whole(path, content)
    write_whole(path, content)
    assert path.read_bytes() == b"new\n"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("knows", [True, False])
def test_on_a_mac_the_disk_empties_its_write_cache_too(knows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it knows how; a network drive may not."""
    forced: list[str] = []

    def ask(descriptor: int, command: int) -> int:
        if not knows:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        forced.append("F_FULLFSYNC" if command == fcntl.F_FULLFSYNC else str(command))
        return 0

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", ask)
    monkeypatch.setattr(os, "fsync", lambda descriptor: forced.append("fsync"))
    write_whole(tmp_path / "file", "text")
    write_whole(tmp_path / "often", "text", durable=False)
    assert forced == ["F_FULLFSYNC" if knows else "fsync", "fsync"]


KILLED = """
import os, sys
from pathlib import Path
from engine.files import whole_file

def kill(*_):
    os._exit(9)

setattr(whole_file if sys.argv[2] == "sync_to_disk" else whole_file.os, sys.argv[2], kill)
whole_file.write_whole(Path(sys.argv[1]), "half of the new " * 10_000)
"""


@pytest.mark.parametrize("moment", ["sync_to_disk", "replace", "fchmod"])
def test_kill_while_writing_leaves_the_old_file(moment: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), moment], cwd=Path(__file__).parents[3], check=False)
    assert ended.returncode == 9
    assert path.read_text() == "old"


def test_a_function_that_fails_leaves_the_old_files_and_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")

    def broken(file: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_together({first: "new", second: broken})
    assert first.read_text() == "old"
    assert names(tmp_path) == ["first"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["sync_to_disk", "write"])
def test_a_full_disk_leaves_the_old_file_and_says_to_make_room(
    number: int, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    if call == "sync_to_disk":
        monkeypatch.setattr(whole_file, "sync_to_disk", full)
    with pytest.raises(NotWritten, match="Free some disk space") as caught:
        write_whole(path, full if call == "write" else "new")
    assert isinstance(caught.value, DraftlightError) and isinstance(caught.value, OSError)
    assert (caught.value.errno, caught.value.strerror) == (number, os.strerror(number))
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_device_is_refused_and_not_written_to() -> None:
    with pytest.raises(NotWritten, match="not a file"):
        write_whole(Path("/dev/full"), "new")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_read_only_folder_gives_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system answers whoever is not root, whom no folder refuses."""

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(whole_file.os, "open", refuse)
    with pytest.raises(NotWritten, match=r"Permission denied.*another folder"):
        write_whole(tmp_path / "file", "new")
    assert names(tmp_path) == []


def test_a_link_stays_a_link_and_leads_to_the_whole_new_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link", tmp_path / "there" / "real"
    link.symlink_to(real)
    real.write_text("old")
    with real.open() as reading:
        write_whole(link, "new")
        assert reading.read() == "old", "the old file is replaced, not written over"
    assert link.is_symlink() and real.read_text() == "new"
    assert names(real.parent) == ["real"]


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NotWritten, match="link to itself"):
        write_whole(tmp_path / "loop", "new")
    assert (tmp_path / "loop").is_symlink()


def test_link_planted_at_the_temporary_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.write_text("old")
    monkeypatch.setattr(whole_file.secrets, "token_hex", lambda _: "known")
    (tmp_path / ".file-known").symlink_to(other)
    with pytest.raises(NotWritten):
        write_whole(tmp_path / "file", "new")
    assert other.read_text() == "old"


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o664])
def test_permissions_are_kept_and_are_never_wider_on_the_way(
    permissions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(permissions)
    seen = []

    def look(file: io.BufferedIOBase) -> None:
        seen.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))

    write_whole(path, look)
    assert stat.S_IMODE(path.stat().st_mode) == permissions
    assert seen[0] & ~permissions == 0


def test_a_new_file_gets_what_the_users_mask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_hashes_are_recorded_again_where_the_record_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path / "data"))
    (tmp_path / "weights").write_bytes(b"abc")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", full)
        digest = hashes.file_sha256(tmp_path / "weights")
    assert names(tmp_path / "data") == []
    assert hashes.file_sha256(tmp_path / "weights") == digest
    assert names(tmp_path / "data") == ["hashes.json"]
