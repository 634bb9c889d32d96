"""Connects models to the window: opens their dialog, uses chosen or dropped models, reports why one could not be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from PySide6.QtCore import QMimeData, QObject, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.library.background import Background
from app.library.dialog import ModelsDialog
from app.library.downloads import Downloads
from app.look.banner import Banner, BannerAction
from app.look.theme import Theme
from app.look.widgets import local_files
from app.look.wording import target_title
from app.session.chat import Chat
from app.window.bench_dialog import BenchDialog
from app.window.header import model_path
from engine.files.gguf_header import is_gguf
from engine.files.model_folder import is_model_folder, only_drafts
from engine.files.paths import hub_cache, models_folder
from engine.values.errors import DraftlightError

MODEL_KINDS = "GGUF models (*.gguf);;All files (*)"


class ModelsController(QObject):
    """Connects the models dialog to the chat. The dialog is created when it is first opened. Messages of the chat are shown in
    the window, and also in the dialog if that is open in front of it."""

    def __init__(self, chat: Chat, banner: Banner, parent: QWidget) -> None:
        super().__init__(parent)
        self._chat, self._banner, self._parent = chat, banner, parent
        self._look: tuple[Theme, float] | None = None
        self.background = Background(self)
        self.downloads = Downloads(self.background, self)
        self.downloads.completed.connect(self._report_download)
        self.dialog: ModelsDialog | None = None
        self._fetched_for: dict[str, str] = {}
        chat.said.connect(self.show_message)
        chat.changed.connect(self._mark_used)

    @Slot()
    def open(self) -> None:
        """Shows the dialog."""
        if self.dialog is None:
            self.dialog = ModelsDialog(self.background, self.downloads, lambda: self._chat.settings, self._parent)
            self.dialog.machine.used.connect(self._use)
            self.dialog.machine.pair_used.connect(self._use_pair)
            self.dialog.machine.check_requested.connect(self._check)
            self.dialog.machine.fetch_requested.connect(self._fetch_for)
            self.dialog.hosts.split_requested.connect(partial(self._chat.change, "split"))
            self._chat.link.checked.connect(self.dialog.machine.show_check)
            self.downloads.find_unfinished()
            if self._look is not None:
                self.dialog.set_look(*self._look)
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    # Messages.

    @Slot(str, str, object)
    def show_message(self, message: str, tone: str = "error", action: BannerAction | None = None) -> None:
        """Shows a message with its button."""
        dialog_in_front = self.dialog is not None and self.dialog.isVisible() and not self._parent.isActiveWindow()
        for banner in (self._banner, self.dialog.banner) if self.dialog is not None and dialog_in_front else (self._banner,):
            banner.show_message(message, tone)
            if action is not None:
                banner.show_action(action.title, partial(self._accept, action), action.keeps_message)

    def _accept(self, action: BannerAction) -> None:
        if not action.keeps_message:
            self._hide_messages()  # of the other window, too
        action.act()

    def _hide_messages(self) -> None:
        """Hides messages about the previous model."""
        self._banner.hide()
        if self.dialog is not None:
            self.dialog.banner.hide()

    @Slot(str, object)
    def change(self, name: str, value: object) -> None:
        """Changes a setting in the header. With another model or drafter, messages about the previous one are hidden."""
        if name in ("target", "drafter"):
            self._hide_messages()
        self._chat.change(name, value)

    # Choosing.

    def open_for(self, kind: str) -> None:
        """Shows the dialog with models disabled that cannot be used as "target" or "drafter"."""
        self.open()
        if self.dialog is not None:
            self.dialog.machine.set_purpose(kind)
            self.dialog.tabs.setCurrentIndex(0)

    @Slot(str, str)
    def choose(self, kind: str, source: str) -> None:
        """Asks for a "target" or "drafter" in the library, a folder or a file, and uses it."""
        title = f"Open a {'target' if kind == 'target' else 'draft'} model"
        if source == "library":
            self.open_for(kind)
        elif source == "folder":
            self._use_chosen(kind, QFileDialog.getExistingDirectory(self._parent, title))
        else:
            self._use_chosen(kind, QFileDialog.getOpenFileName(self._parent, title, "", MODEL_KINDS)[0])

    def _use_chosen(self, kind: str, chosen: str) -> None:
        if chosen:
            self._chat.change(kind, model_path(chosen))

    @Slot()
    def find_drafter(self) -> None:
        """Opens the dialog that finds the fastest drafter; it is modal."""
        BenchDialog(self._chat, self._parent).open()

    @Slot(str, str)
    def _use(self, kind: str, path: str) -> None:
        self._hide_messages()
        self._chat.change(kind, path)
        if self.dialog is not None:
            self.dialog.machine.refresh()

    @Slot(str, str)
    def _use_pair(self, target: str, drafter: str) -> None:
        self._hide_messages()
        self._chat.models.change(target, drafter)

    @Slot(str)
    def _check(self, path: str) -> None:
        with suppress(DraftlightError):  # the engine is being closed
            self._chat.link.check_drafter(path)

    @Slot(str, str)
    def _fetch_for(self, repository: str, target: str) -> None:
        self._fetched_for[repository] = target

    @Slot(str, str)
    def _report_download(self, name: str, path: str) -> None:
        self._banner.show_message(f"{name} has been downloaded.", "note")
        target = self._fetched_for.pop(name.partition(":")[0], "")
        if target:
            self._banner.show_action(f"Use with {target_title(target)}", partial(self._use_pair, target, path))
        elif only_drafts(Path(path)):
            self._banner.show_action("Use as drafter", partial(self._use, "drafter", path))
        else:
            self._banner.show_action("Use it", partial(self._use, "target", path))
        if self.dialog is not None:
            self.dialog.machine.reload()

    @Slot()
    def _mark_used(self) -> None:
        """Marks the models in use."""
        if self.dialog is not None and self.dialog.isVisible():
            self.dialog.machine.refresh()
            self.dialog.hosts.refresh()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the dialog, now or when it is created."""
        self._look = (theme, scale)
        if self.dialog is not None:
            self.dialog.set_look(theme, scale)

    def stop(self) -> None:
        """Pauses the downloads: the window is closing."""
        if self.dialog is not None:
            self.dialog.hub.stop()
            self.dialog.machine.stop()
            self.dialog.close()
        self.downloads.stop()
        self.background.close()

    def list_folders(self, folders: Sequence[Path]) -> None:
        """Shows the dialog with the models of these folders added."""
        self.open()
        if self.dialog is not None:
            self.dialog.tabs.setCurrentIndex(0)
            for folder in folders:
                if folder.resolve() not in (hub_cache().resolve(), models_folder().resolve()):
                    self.dialog.machine.add_folder(str(folder.resolve()))

    def use_dropped(self, path: Path) -> None:
        """Uses a dropped model as target, or as drafter if it can only draft."""
        self._use("drafter" if only_drafts(path) else "target", str(path.resolve()))


def dropped_model(data: QMimeData) -> Path | None:
    """Returns the dragged model; None unless it is one local folder of a model or an adapter, or one GGUF file."""
    paths = local_files(data)
    if len(paths) != 1:
        return None
    path = paths[0]
    if path.is_dir():
        return path if is_model_folder(path) else None
    return path if path.suffix.lower() == ".gguf" or (path.is_file() and is_gguf(path)) else None
