"""Downloads models from the Hub. A download can be interrupted at any time and resumed later.

huggingface_hub provides file lists, addresses and digests. Its own download (2.4) restarts each file after an interruption, so
this module requests byte ranges itself. Each download has a folder under `.downloads`, where nothing looks for models. A file is
done once its digest matches the Hub's; when all are done, they are moved to the model's folder. config.json, without which a
folder is no model, moves last. These files are the only state: after a crash, a download resumes at the last byte on disk.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

from engine.files.hub import HubFile, Offer, Offline, authorisation, explained, is_of_the_network
from engine.files.library import download_destination
from engine.files.lock import exclusive_lock
from engine.files.model_folder import ADAPTER_CONFIG, CONFIG
from engine.files.paths import models_folder
from engine.files.whole_file import DISK_FULL, sync_to_disk
from engine.machine.macos import activity
from engine.values.errors import DraftlightError
from engine.values.wording import duration, size

RESERVE = 200_000_000
"""Bytes that a download leaves free on the disk."""
RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Back-off in seconds before each retry after the connection broke. After the last retry the download fails; the user can resume
it."""
_CHUNK = 1 << 20
_TIMEOUT = 10.0
_RATE_SECONDS = 5.0
_LAST = (CONFIG, ADAPTER_CONFIG)


class Stopped(DraftlightError):
    """The download was paused, and what had arrived is kept; or it was cancelled, and that is deleted."""


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """The progress of a download.

    Attributes:
        done, total: bytes. speed: bytes per second over the last five seconds; 0 while unknown.
        activity: "downloading", "checking" files already on disk, or "waiting" for the network.
    """

    done: int
    total: int
    speed: float = 0.0
    activity: str = "downloading"

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the rest takes at this speed; None while the speed is unknown."""
        return (self.total - self.done) / self.speed if self.speed > 0 else None

    @property
    def amount(self) -> str:
        """The amount for users: "312 MB of 1.2 GB"."""
        return f"{size(self.done)} of {size(self.total)}"

    @property
    def words(self) -> str:
        """The progress for users: "312 MB of 1.2 GB · 25 MB/s · 40 s left"."""
        parts = [self.amount]
        if self.activity != "downloading":
            parts.append({"checking": "checking what is here", "waiting": "waiting for the network"}[self.activity])
        elif (left := self.seconds_left) is not None:
            parts += [f"{size(self.speed)}/s", f"{duration(left)} left"]
        return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A download that was paused, interrupted or killed. `name`: that of its offer. `done`: bytes that have arrived."""

    name: str
    done: int


def downloads_folder() -> Path:
    """Returns the folder of unfinished downloads, one subfolder for each. Nothing looks for models in it."""
    return models_folder() / ".downloads"


def unfinished() -> list[Unfinished]:
    """Returns the downloads that can be resumed, sorted by name."""
    result = []
    with contextlib.suppress(OSError):
        for folder in sorted(downloads_folder().iterdir()):
            if arrived := _arrived(folder):
                result.append(Unfinished(unquote(folder.name), arrived))
    return result


def discard(name: str) -> None:
    """Deletes the files of an unfinished download. Raises DraftlightError if it is running."""
    folder = _folder(name)
    with contextlib.suppress(FileNotFoundError), _lock_download(folder, name):
        shutil.rmtree(folder, ignore_errors=True)


def _arrived(folder: Path) -> int:
    """Returns the bytes of a download that have arrived."""
    return sum(part.stat().st_size for part in folder.glob("*") if part.suffix in (".part", ".done"))


def _folder(name: str) -> Path:
    return downloads_folder() / quote(name, safe=" ")


class Download:
    """The download of one model. `run` blocks, so it needs a thread of its own; `pause` and `cancel` are for other threads."""

    def __init__(
        self,
        offer: Offer,
        report: Callable[[DownloadProgress], None] | None = None,
        retry_delays: tuple[float, ...] = RETRY_DELAYS,
    ) -> None:
        """Args:
        report: called on the thread of `run`, a few times a second. An exception in it ends `run` as `pause` does, and `run`
            raises it.
        """
        self.offer = offer
        self._report = report or (lambda progress: None)
        self._waits = retry_delays
        self._stop = threading.Event()
        self._cancelled = False
        self._report_error: Exception | None = None
        self._done = 0
        self._samples: deque[tuple[float, int]] = deque()
        self._last_report = 0.0

    @property
    def destination(self) -> Path:
        """The path of the model once it is complete: a folder, or a GGUF file."""
        folder = download_destination(self.offer.repository)
        return folder / Path(self.offer.file).name if self.offer.file else folder

    def pause(self) -> None:
        """Ends `run` soon and keeps what has arrived, so that a later download resumes there."""
        self._stop.set()

    def cancel(self) -> None:
        """Ends `run` soon and deletes what has arrived."""
        self._cancelled = True
        self._stop.set()

    def run(self) -> Path:
        """Downloads the missing bytes and returns `destination`.

        Raises:
            Stopped: `pause` or `cancel` was called.
            Offline: the network was gone in every attempt. What has arrived is kept.
            DraftlightError: the disk is full, a file arrived damaged or the model is gated; the message says what to do.
        """
        folder = _folder(self.offer.name)
        try:
            self._check_names()
            with self._with_disk_messages(folder):
                folder.mkdir(parents=True, exist_ok=True)
                with _lock_download(folder, self.offer.name):
                    try:
                        with activity("Downloading a model", lets_sleep=False):
                            return self._run(folder)
                    except Stopped:
                        if self._cancelled:
                            shutil.rmtree(folder, ignore_errors=True)
                        raise
        except Stopped:
            if self._report_error is not None:
                raise self._report_error from None
            raise
        finally:
            with contextlib.suppress(OSError):
                if folder.is_dir() and not _arrived(folder):
                    shutil.rmtree(folder)

    def _check_names(self) -> None:
        """Raises DraftlightError for unsafe file names: they come from the network and become files here."""
        for file in self.offer.files:
            if file.name in ("", ".", "..") or file.name.startswith(".") or "\\" in file.name or "\0" in file.name:
                raise DraftlightError(f"{self.offer.repository} contains a file with an unsafe name, {file.path!r}.")

    def _run(self, folder: Path) -> Path:
        files = sorted(self.offer.files, key=lambda file: file.size)
        self._done = sum(self._bytes_on_disk(folder, file) for file in files)
        self._check_room(folder, self.offer.size - self._done)
        for file in files:
            self._raise_if_stopped()
            if not _done_path(folder, file).exists() and not self._is_installed(folder, file):
                self._fetch(folder, file)
        self._move(folder, files)
        shutil.rmtree(folder, ignore_errors=True)
        self._report(DownloadProgress(self.offer.size, self.offer.size))
        return self.destination

    def _bytes_on_disk(self, folder: Path, file: HubFile) -> int:
        """Returns the bytes of a file on disk, whether in this download's folder or, judging by size, in the model's folder."""
        for path in (_done_path(folder, file), _part_path(folder, file)):
            with contextlib.suppress(OSError):
                return path.stat().st_size
        return file.size if self._has_installed_size(file) else 0

    def _has_installed_size(self, file: HubFile) -> bool:
        with contextlib.suppress(OSError):
            return (download_destination(self.offer.repository) / file.name).stat().st_size == file.size
        return False

    def _is_installed(self, folder: Path, file: HubFile) -> bool:
        """Returns whether the model's folder has this very file, by its digest, from an earlier download."""
        if _part_path(folder, file).exists() or not self._has_installed_size(file):
            return False
        digest = _hasher(file)
        with (download_destination(self.offer.repository) / file.name).open("rb") as source:
            self._hash_rest(digest, source)
        if digest.hexdigest() == file.digest:
            return True
        self._done -= file.size
        return False

    # The network

    def _fetch(self, folder: Path, file: HubFile) -> None:
        """Resumes the download of a file, and marks it as done once its digest is right."""
        path = _part_path(folder, file)
        with path.open("ab+", buffering=0) as part:
            part.seek(0)
            digest = _hasher(file)
            received = self._hash_rest(digest, part)
            attempts = 0
            while received < file.size:
                previous = received
                try:
                    received, digest = self._receive(file, part, received, digest)
                    if received < file.size:
                        raise ConnectionError("it ended early")
                except Exception as error:
                    received = part.seek(0, os.SEEK_END)
                    if not isinstance(error, Offline) and not is_of_the_network(error):
                        raise
                    attempts = attempts + 1 if received == previous else 1
                    if attempts > len(self._waits):
                        raise
                    part.seek(0)
                    digest = _hasher(file)
                    self._hash_rest(digest, part)
                    self._wait(self._waits[attempts - 1])
            sync_to_disk(part.fileno())
        if received != file.size or (file.digest and digest.hexdigest() != file.digest):
            path.unlink()
            raise DraftlightError(
                f"{file.name} of {self.offer.repository} arrived damaged, so it was discarded; the other files are kept. "
                "Try again. If it happens again, something on the network is altering files."
            )
        os.replace(path, _done_path(folder, file))

    def _receive(self, file: HubFile, part: BinaryIO, received: int, digest: Any) -> tuple[int, Any]:
        """Appends the bytes of one connection; returns size and digest of the partial file after that."""
        from huggingface_hub import constants, get_session, hf_hub_url, hf_raise_for_status

        address = hf_hub_url(self.offer.repository, file.path, revision=self.offer.commit, endpoint=constants.ENDPOINT)
        headers = authorisation() | {"Accept-Encoding": "identity"}
        if received:
            headers["Range"] = f"bytes={received}-"
        with get_session().stream("GET", address, headers=headers, follow_redirects=True, timeout=_TIMEOUT) as response:
            try:
                hf_raise_for_status(response)
            except Exception as error:
                raise explained(error, self.offer.repository) from error
            if received and response.status_code != 206:  # the server ignored the range and sends the whole file
                self._done -= received
                part.truncate(0)
                received, digest = 0, _hasher(file)
            for chunk in response.iter_bytes():
                self._raise_if_stopped()
                if received + len(chunk) > file.size:
                    return received + len(chunk), digest  # longer than the Hub stated: not this file
                part.write(chunk)
                digest.update(chunk)
                received += len(chunk)
                self._count(len(chunk), part)
        return received, digest

    def _hash_rest(self, digest: Any, source: BinaryIO) -> int:
        """Hashes a file from its current position to its end; returns the number of bytes."""
        count = 0
        while chunk := source.read(_CHUNK):
            self._raise_if_stopped()
            digest.update(chunk)
            count += len(chunk)
            self._report_progress("checking")
        return count

    # Progress, disk space and stopping

    def _raise_if_stopped(self) -> None:
        if self._stop.is_set():
            raise Stopped(f"The download of {self.offer.name} was {'cancelled' if self._cancelled else 'paused'}.")

    def _wait(self, seconds: float) -> None:
        self._last_report = 0.0
        self._samples.clear()
        self._report_progress("waiting")
        self._stop.wait(seconds)
        self._raise_if_stopped()

    def _count(self, count: int, part: BinaryIO) -> None:
        now = time.monotonic()
        self._done += count
        self._samples.append((now, self._done))
        while now - self._samples[0][0] > _RATE_SECONDS:
            self._samples.popleft()
        if self._report_progress("downloading") and (free := os.fstatvfs(part.fileno())).f_bavail * free.f_frsize < RESERVE // 2:
            raise OSError(errno.ENOSPC, "less than the reserve is left")

    def _report_progress(self, activity: str) -> bool:
        """Reports progress at most every 0.2 s. Returns whether it did."""
        now = time.monotonic()
        if now - self._last_report < 0.2:
            return False
        self._last_report = now
        speed = 0.0
        if len(self._samples) > 1 and (span := self._samples[-1][0] - self._samples[0][0]) > 0.5:
            speed = (self._samples[-1][1] - self._samples[0][1]) / span
        try:
            self._report(DownloadProgress(self._done, self.offer.size, speed, activity))
        except Exception as error:
            self._report_error = error
            raise Stopped(f"The download of {self.offer.name} was broken off.") from error
        return True

    def _check_room(self, folder: Path, missing: int) -> None:
        free = shutil.disk_usage(folder).free
        if missing and missing + RESERVE > free:
            raise DraftlightError(
                f"{self.offer.name} needs {size(missing)} more on the disk, and only {size(free)} are free in {models_folder()}. "
                "Free some space, or set DRAFTLIGHT_HOME to a folder on another disk."
            )

    @contextlib.contextmanager
    def _with_disk_messages(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except DraftlightError:
            raise
        except OSError as error:
            if is_of_the_network(error):
                raise explained(error, self.offer.repository) from error
            if error.errno in DISK_FULL:
                raise DraftlightError(
                    f"The disk is full. What has arrived of {self.offer.name} is kept. Free some space, then go on with it."
                ) from error
            raise DraftlightError(
                f"{self.offer.name} cannot be stored in {folder.parent.parent}: {error.strerror or error}. Fix this, or set "
                "DRAFTLIGHT_HOME to a folder that you may write to."
            ) from error
        except Exception as error:
            raise explained(error, self.offer.repository) from error

    def _move(self, folder: Path, files: list[HubFile]) -> None:
        """Moves every file to the model's folder. The configuration is removed before weights change, and moves last."""
        destination = download_destination(self.offer.repository)
        destination.mkdir(parents=True, exist_ok=True)
        if not self.offer.file:
            names = {file.name for file in files}
            if any(_done_path(folder, file).exists() for file in files if file.name not in _LAST):
                for name in _LAST:
                    if name in names and (destination / name).is_file():
                        configuration = next(file for file in files if file.name == name)
                        if not _done_path(folder, configuration).exists():  # unchanged: moved away now, and back at the end
                            os.replace(destination / name, _done_path(folder, configuration))
                        else:
                            (destination / name).unlink()
            for old in destination.glob("model*.safetensors*"):
                if old.name not in names:
                    old.unlink()
        for file in sorted(files, key=lambda file: file.name in _LAST):
            if (done := _done_path(folder, file)).exists():
                os.replace(done, destination / file.name)


def _part_path(folder: Path, file: HubFile) -> Path:
    """Returns the path of a partial file. Its name has the digest, so that no older version of the file is resumed."""
    return folder / f"{file.name}.{(file.digest or 'unknown')[:16]}.part"


def _done_path(folder: Path, file: HubFile) -> Path:
    return _part_path(folder, file).with_suffix(".done")


def _hasher(file: HubFile) -> Any:
    """Returns the hash that the Hub uses for a file: SHA-256, or for a file in git itself SHA-1 of git's header and the file."""
    if len(file.digest) == 40:
        return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    return hashlib.sha256()


def _lock_download(folder: Path, name: str) -> contextlib.AbstractContextManager[None]:
    """Locks a download, so that no other process runs it at the same time."""
    return exclusive_lock(folder / ".lock", f"{name} is being downloaded already, by another Draftlight.")
