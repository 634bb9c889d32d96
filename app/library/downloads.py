"""Downloads from the Hub, which continue while the dialog is closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.library.background import Background
from engine.files import download, hub
from engine.files.download import Download, DownloadProgress, Stopped, Unfinished
from engine.values.errors import DraftlightError
from engine.values.wording import size

Phase = Literal["asking", "running", "pausing", "paused", "failed"]


@dataclass(frozen=True, slots=True)
class State:
    """The state of one download.

    Attributes:
        phase: "asking" the Hub for the files, "running", "pausing", "paused" or "failed".
        done: bytes received. progress: the last progress reported, None before the first.
        message: why it failed. page: the page where a gated model requires the user's action; empty otherwise.
    """

    phase: Phase
    done: int = 0
    progress: DownloadProgress | None = None
    message: str = ""
    page: str = ""

    @property
    def description(self) -> str:
        """Describes the state to the user."""
        if self.phase == "failed":
            return self.message
        if self.phase == "asking":
            return "Contacting the Hub"
        progress = self.progress or DownloadProgress(self.done, 0)
        amount, details = (progress.amount, progress.words) if progress.total else (f"{size(self.done)} downloaded",) * 2
        return {"running": details, "pausing": f"Stopping · {details}", "paused": f"Paused · {amount}"}[self.phase]

    @property
    def fraction(self) -> float | None:
        """The share received; None if unknown."""
        return self.progress.done / self.progress.total if self.progress is not None and self.progress.total else None


class Downloads(QObject):
    """The downloads of the program, each on its own thread.

    Signals:
        changed: a download has started, progressed, or ended.
        completed: (name, path) a model was downloaded completely.
    """

    changed = Signal()
    completed = Signal(str, str)

    def __init__(self, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._background = background
        self._running: dict[str, Download] = {}
        self._cancelled: set[str] = set()
        self.states: dict[str, State] = {}

    def find_unfinished(self) -> None:
        """Reads which downloads an earlier run left unfinished."""
        self._background.run(download.unfinished, self._add_unfinished, lambda error: None, "looking for unfinished downloads")

    def _add_unfinished(self, unfinished: Sequence[Unfinished]) -> None:
        for each in unfinished:
            self.states.setdefault(each.name, State("paused", each.done))
        self.changed.emit()

    def start(self, name: str) -> None:
        """Starts a download, or resumes it."""
        state = self.states.get(name)
        if state is None or state.phase in ("paused", "failed"):
            previous = State("paused") if state is None else state
            self._set(name, replace(previous, phase="asking", message="", page=""))
            self._background.run(
                partial(hub.offer, name), partial(self._run, name), partial(self._handle_error, name), "asking the Hub"
            )

    def _run(self, name: str, offer: hub.Offer) -> None:
        state = self.states.get(name)
        if state is None or state.phase != "asking":
            return  # cancelled meanwhile
        running = Download(
            offer, lambda progress: self._background.call_on_window_thread(lambda: self._show_progress(name, progress))
        )
        self._running[name] = running
        self._set(name, replace(state, phase="running"))
        self._background.run(running.run, partial(self._complete, name), partial(self._handle_error, name), f"downloading {name}")

    def _show_progress(self, name: str, progress: DownloadProgress) -> None:
        state = self.states.get(name)
        if state is not None and name in self._running:
            self._set(name, replace(state, done=progress.done, progress=progress))

    def _complete(self, name: str, path: Path) -> None:
        self._running.pop(name, None)
        self._cancelled.discard(name)
        self.states.pop(name, None)
        self.completed.emit(name, str(path))
        self.changed.emit()

    def _handle_error(self, name: str, error: DraftlightError) -> None:
        self._running.pop(name, None)
        state = self.states.get(name)
        if state is None or name in self._cancelled:
            self._cancelled.discard(name)
            self.states.pop(name, None)
            self.changed.emit()
        elif isinstance(error, Stopped):
            self._set(name, replace(state, phase="paused"))
        else:
            page = error.page if isinstance(error, hub.Gated) else ""
            self._set(name, replace(state, phase="failed", message=str(error), page=page))

    def pause(self, name: str) -> None:
        """Pauses a download and keeps the data received."""
        if name in self._running:
            self._running[name].pause()
            self._set(name, replace(self.states[name], phase="pausing"))

    def cancel(self, name: str) -> None:
        """Cancels a download and deletes the data received."""
        running = self._running.get(name)
        if running is not None:
            running.cancel()
            self._cancelled.add(name)
            self.states[name] = replace(self.states[name], phase="pausing")
        else:
            self.states.pop(name, None)
            discard = partial(download.discard, name)
            self._background.run(discard, lambda _: None, lambda error: None, f"discarding {name}")
        self.changed.emit()

    def stop(self) -> None:
        """Pauses all downloads: the window is closing."""
        for running in self._running.values():
            running.pause()

    def _set(self, name: str, state: State) -> None:
        self.states[name] = state
        self.changed.emit()
