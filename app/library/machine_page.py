"""The page of the models on this machine: which can be used, which drafters fit them, and actions on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.library.background import Background
from app.library.entries import about_drafting, about_model, about_pairs, model_entry
from app.library.entry_list import EntryList, SearchField
from app.look.theme import Theme
from app.look.widgets import (
    ElidedLabel,
    Question,
    choice_box,
    dialog_button,
    in_column,
    in_row,
    named,
    plain_tip,
    stretch,
    text_label,
)
from app.session.settings import Settings
from engine.files import library, pairs
from engine.files.builtin import builtin_path
from engine.files.cached_models import CachedRevision, cached_revision, delete_cached
from engine.files.library import HUB, OWN, LibraryModel, added_folders, change_folders
from engine.files.memory import available_memory
from engine.types import DrafterChecked
from engine.values.errors import DraftlightError
from engine.values.wording import size

LIST_KEYS = "Enter uses the model as {}, Delete deletes it."
NO_OTHER_MODELS = "There are no other models here yet. Download one from the Hugging Face Hub, or add a folder with models."
MAX_NAMED_FILES = 8
"""Maximum number of files listed in a question."""
CHECK_DELAY_MS = 200
"""Milliseconds from a row change to the check whether the visible models can draft."""
FoundModels = tuple[list[LibraryModel], int | None, tuple[str, ...]]
"""The models, bytes of free memory, and the folders that the user added."""


class MachinePage(QWidget):
    """Lists the models on this machine, describes the current one, and offers actions on it.

    Signals:
        used: ("target" or "drafter", path) use a model.
        pair_used: (target, drafter) use both together.
        fetch_requested: (repository, target) look up a draft model for a target on the Hub.
        check_requested: (path) check whether a model can draft for the current target.
        reloaded: the list of models was read again.
        empty_folder_added: (folder) the folder was added, but no listed model has it as its source.
    """

    used = Signal(str, str)
    pair_used = Signal(str, str)
    fetch_requested = Signal(str, str)
    check_requested = Signal(str)
    reloaded = Signal()
    empty_folder_added = Signal(str)

    def __init__(self, background: Background, settings: Callable[[], Settings]) -> None:
        super().__init__()
        self._background, self._settings = background, settings
        self.models: dict[str, LibraryModel] = {}
        self._free: int | None = None
        self._folders: tuple[str, ...] = ()
        self._request = 0
        self._added_folder = ""
        self._checked: dict[tuple[str, str], DrafterChecked] = {}
        self._requested: set[tuple[str, str]] = set()
        self._check_timer = QTimer(self, singleShot=True, interval=CHECK_DELAY_MS)
        self._check_timer.timeout.connect(self._check)
        self.list = EntryList("Models on this machine", LIST_KEYS.format("target"))
        self.search = SearchField("Search the models on this machine", self.list)
        self.purpose = named(
            choice_box((("Targets", "target"), ("Drafters", "drafter"))),
            "purposeSelector",
            "What the models are for",
            "Models that cannot be used for it are grey.",
        )
        self.add = dialog_button("Add folder…", self._add_folder, "Also look for models in another folder")
        self.title = named(ElidedLabel(), "entryTitle")
        self.about, self.pairs = text_label("entryAbout", selectable=True), text_label("entryAbout", selectable=True)
        self.use = named(dialog_button("Use", partial(self._use, "target")), "primaryButton")
        self.draft = dialog_button("Use as drafter", partial(self._use, "drafter"))
        self.pair = dialog_button("Draft with it", self._use_pair)
        self.show_folder = dialog_button("Show in folder", self._show_folder)
        self.remove_folder_button = dialog_button(
            "Remove folder", self._remove_folder, "Its models are no longer listed. No files are deleted."
        )
        self.delete = dialog_button("Delete…", self._ask_to_delete)
        self._arrange()
        self.search.changed.connect(self._search)
        self.list.current_changed.connect(self._show_current)
        self.list.verticalScrollBar().valueChanged.connect(self._schedule_check)
        self.list.verticalScrollBar().rangeChanged.connect(self._schedule_check)
        self.purpose.currentIndexChanged.connect(self.refresh)
        self.list.chosen.connect(lambda key: self._use(self.purpose.currentData(), key))
        self.list.deleted.connect(self._ask_to_delete)
        self._show_current()

    def _arrange(self) -> None:
        for label in (self.about, self.pairs):
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
        in_column(
            in_row((self.search, 1), self.purpose, self.remove_folder_button, self.add, spacing=8),
            (self.list, 1),
            self.title,
            self.about,
            self.pairs,
            in_row(self.use, self.draft, self.pair, stretch(), self.show_folder, self.delete, spacing=8),
            spacing=8,
            parent=self,
        )

    # Reading.

    @Slot()
    def reload(self) -> None:
        """Reads the list of models again, on another thread."""
        self._request += 1
        self._checked.clear()
        self._requested.clear()
        request = self._request
        self._background.run(
            _find_models, partial(self._show, request), partial(self._show_failure, request), "listing the models"
        )
        if not self.models:
            self.about.setText("Looking for models…")

    def _show(self, request: int, found: FoundModels) -> None:
        if request == self._request:
            models, self._free, self._folders = found
            self.models = {model.target: model for model in models}
            self.refresh()
            self.reloaded.emit()
            added, self._added_folder = self._added_folder, ""
            if added and not any(model.source == added for model in models):
                self.empty_folder_added.emit(added)

    def _show_failure(self, request: int, error: DraftlightError) -> None:
        if request == self._request:
            self.about.setText(str(error))

    @Slot()
    def refresh(self) -> None:
        """Updates which models are in use."""
        self._requested.clear()
        self._show_entries()
        self._show_current()

    def _show_entries(self) -> None:
        settings = self._settings()
        self.list.show_entries(
            [
                model_entry(model, self._free, settings.target, settings.drafter, self._reason(model))
                for model in self.models.values()
            ]
        )

    @property
    def _shows_drafters(self) -> bool:
        return self.purpose.currentData() == "drafter"

    def _reason(self, model: LibraryModel) -> str:
        """Returns why a model does not suit the chosen purpose, as far as is known."""
        if not self._shows_drafters:
            return "It can only draft." if model.only_drafts else ""
        checked = self._checked.get((self._settings().target, model.target))
        return "" if checked is None else checked.reason

    def set_purpose(self, kind: str) -> None:
        """Greys the models that cannot be used as "target" or "drafter"."""
        self.purpose.setCurrentIndex(self.purpose.findData(kind))

    @property
    def repositories(self) -> set[str]:
        """The Hub repositories of which something is on this machine."""
        return {"/".join(model.name.partition(":")[0].split("/")[:2]) for model in self.models.values()}

    # The current model.

    @Slot()
    def _show_current(self) -> None:
        self._describe(self.models.get(self.list.key))
        keys = LIST_KEYS.format(self.purpose.currentData())
        self.list.setAccessibleDescription(f"{self.about.text()} {self.pairs.text()} {keys}")
        self._schedule_check()

    def _describe(self, model: LibraryModel | None) -> None:
        for button in (self.use, self.draft, self.show_folder, self.delete):
            button.setEnabled(model is not None)
        self.pair.hide()
        self.remove_folder_button.setVisible(model is not None and model.source in self._folders)
        self.pairs.setText("")
        if model is None:
            self.title.setText("")
            empty_note = "No models match these words." if self.search.text() else NO_OTHER_MODELS
            self.about.setText(empty_note)
            return
        self.title.setText(model.name)
        only_note = f"\n{NO_OTHER_MODELS}" if len(self.models) == 1 else ""
        self.about.setText(about_model(model, self._free) + only_note)
        self.use.setEnabled(not model.problem and not model.only_drafts)
        self.draft.setEnabled(not model.problem)
        undeletable = (
            "" if model.source in (OWN, HUB) else "Draftlight only deletes models in its own folder and in the Hub's cache."
        )
        if model.target in (self._settings().target, self._settings().drafter):
            undeletable = "It is in use. Choose another model first."
        self.delete.setEnabled(not undeletable)
        self.delete.setToolTip(plain_tip(undeletable))
        if not model.problem:
            found = pairs.suggestions(model, self.models.values())
            self.pairs.setText(self._about_drafting(model) + about_pairs(model, found))
            self.pairs.setToolTip(found[0].pair.source if found else "")
            self.pair.setVisible(bool(found) and not model.only_drafts)
            if found:
                is_local = found[0].local_model is not None
                self.pair.setText(f"Use with {found[0].pair.title}" if is_local else f"Get {found[0].pair.title}…")

    def _about_drafting(self, model: LibraryModel) -> str:
        """Describes whether the chosen model can draft for the current target; starts a check if that is unknown."""
        target = self._settings().target
        self.draft.setToolTip("")
        if model.target == target:
            return ""
        checked = self._checked.get((target, model.target))
        if checked is None:
            self._check_timer.start()
            return ""
        self.draft.setEnabled(not checked.reason)
        self.draft.setToolTip(plain_tip(checked.reason))
        return about_drafting(model, self.models.get(target), checked.reason, self._free, checked.warning) + "\n"

    @Slot()
    def _schedule_check(self) -> None:
        if self._shows_drafters:
            self._check_timer.start()

    @Slot()
    def _check(self) -> None:
        """Requests checks of the visible rows; reading vocabularies takes too long to check all."""
        target = self._settings().target
        for key in {self.list.key, *self.list.visible_keys()} if self._shows_drafters else {self.list.key}:
            model, pair = self.models.get(key), (target, key)
            is_known = pair in self._checked or pair in self._requested
            if model is not None and not model.problem and key != target and not is_known:
                self._requested.add(pair)
                self.check_requested.emit(key)

    @Slot(object)
    def show_check(self, checked: DrafterChecked) -> None:
        """Shows the result of checking a model as a drafter."""
        self._checked[checked.target, checked.name] = checked
        if self._shows_drafters and checked.reason:
            self._show_entries()
        if checked.name == self.list.key and checked.target == self._settings().target:
            self._show_current()

    @Slot(str)
    def _search(self, query: str) -> None:
        self.list.set_query(query)
        self._show_current()

    def _use(self, kind: str, key: str = "") -> None:
        model = self.models.get(key or self.list.key)
        button = self.use if kind == "target" else self.draft
        if model is not None and button.isEnabled():
            self.used.emit(kind, model.target)

    def _use_pair(self) -> None:
        model = self.models.get(self.list.key)
        found = pairs.suggestions(model, self.models.values()) if model is not None else []
        if model is None or not found:
            return
        if found[0].local_model is None:
            self.fetch_requested.emit(found[0].pair.repository, model.target)
        else:
            self.pair_used.emit(model.target, found[0].local_model.target)

    def _show_folder(self) -> None:
        if self.list.key:
            path = _path_of(self.list.key)
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(path if path.is_dir() else path.parent)))

    def _add_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Add a folder with models")
        if chosen:
            self.add_folder(str(Path(chosen).resolve()))

    def add_folder(self, folder: str) -> None:
        """Adds a folder to those searched for models."""
        self._change_folders(folder)

    def _remove_folder(self) -> None:
        model = self.models.get(self.list.key)
        if model is not None:
            self.remove_folder(model.source)

    def remove_folder(self, folder: str) -> None:
        """Removes a folder from those searched for models."""
        self._change_folders(folder, remove=True)

    def _change_folders(self, folder: str, remove: bool = False) -> None:
        def reload(_: object) -> None:
            """Reads the list again; the change invalidates earlier requests."""
            self._added_folder = "" if remove else folder
            self._reload()

        work = partial(change_folders, folder, remove)
        self._background.run(work, reload, lambda error: self._reload(str(error)), "keeping the folders")

    def _ask_to_delete(self, key: str = "") -> None:
        model = self.models.get(key or self.list.key)
        if model is None or not self.delete.isEnabled():
            return
        if model.source == HUB:
            work = partial(cached_revision, _path_of(model.target))
            request = partial(self._open_delete_question, model)
            self._background.run(work, request, lambda error: self._reload(str(error)), "looking into the Hub's cache")
        else:
            self._open_delete_question(model, None)

    def _open_delete_question(self, model: LibraryModel, cached: CachedRevision | None) -> None:
        question = DeleteQuestion(model, cached, self)
        question.delete_button.clicked.connect(partial(self._delete, model))
        question.open()

    def _delete(self, model: LibraryModel) -> None:
        work = partial(delete_cached if model.source == HUB else library.delete, _path_of(model.target))
        self._background.run(work, lambda _: self._reload(), lambda error: self._reload(str(error)), "deleting a model")

    def _reload(self, message: str = "") -> None:
        self.reload()
        if message:
            self.about.setText(message)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the list."""
        self.list.delegate.set_look(theme, scale)
        self.about.setMinimumHeight(2 * self.about.fontMetrics().lineSpacing())
        self.pairs.setMinimumHeight(4 * self.pairs.fontMetrics().lineSpacing())

    def stop(self) -> None:
        """Stops checks: the window is closing."""
        self._check_timer.stop()


class DeleteQuestion(Question):
    """Asks whether to delete a model.

    Attributes:
        delete_button: the button that confirms.
    """

    def __init__(self, model: LibraryModel, cached: CachedRevision | None, parent: QWidget) -> None:
        super().__init__(parent, "deleteQuestion", f"Delete {model.name}?", _deletion_text(model, cached))
        self.delete_button = self.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        self.setDefaultButton(self.addButton(QMessageBox.StandardButton.Cancel))


def _deletion_text(model: LibraryModel, cached: CachedRevision | None) -> str:
    path = _path_of(model.target)
    if cached is None:
        subject = "This folder and everything in it" if path.is_dir() else "This file"
        download_note = " It is downloaded again when it is next used." if model.target == "builtin" else ""
        return f"{subject} is deleted, which frees {size(model.size)}.{download_note}\n{path}"
    names = ", ".join(cached.files[:MAX_NAMED_FILES])
    more = f" and {len(cached.files) - MAX_NAMED_FILES} more" if len(cached.files) > MAX_NAMED_FILES else ""
    return (
        f"All that was downloaded of {cached.repository} at {cached.commit[:7]} is deleted, which frees {size(cached.freed)}: "
        f"{names}{more}.\nOther programs use the Hub's cache too. They would have to download the model again.\n{cached.place}"
    )


def _path_of(key: str) -> Path:
    """Returns the path of a model."""
    return builtin_path() if key == "builtin" else Path(key)


def _find_models() -> FoundModels:
    folders = added_folders()
    return [library.builtin_model(), *library.find(map(Path, folders))], available_memory(), folders
