"""The page of the models on this machine: which can be used, which drafters fit them, and actions on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.library.background import Background
from app.library.entries import about_drafting, about_model, about_pairs, of_model
from app.library.entry_list import EntryList
from app.library.search_field import SearchField
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
NO_OTHERS = "There are no other models here yet. Download one from the Hugging Face Hub, or add a folder with models."
MOST_NAMED = 8
"""Maximum number of files listed in a question."""
MOVED_MS = 200
"""Milliseconds from a row change to the check whether the visible models can draft."""
Listing = tuple[list[LibraryModel], int | None, tuple[str, ...]]
"""The models, bytes of free memory, and the folders that the user added."""


class MachinePage(QWidget):
    """Lists the models on this machine, describes the current one, and offers actions on it.

    Signals:
        used: ("target" or "drafter", path) use a model.
        pair_used: (target, drafter) use both together.
        fetch_requested: (repository, target) look up a draft model for a target on the Hub.
        check_requested: (path) check whether a model can draft for the current target.
        read_again: the list of models was read again.
        added_nothing: (folder) the folder was added, but no listed model has it as its source.
    """

    used = Signal(str, str)
    pair_used = Signal(str, str)
    fetch_requested = Signal(str, str)
    check_requested = Signal(str)
    read_again = Signal()
    added_nothing = Signal(str)

    def __init__(self, background: Background, settings: Callable[[], Settings]) -> None:
        super().__init__()
        self._background, self._settings = background, settings
        self.models: dict[str, LibraryModel] = {}
        self._free: int | None = None
        self._folders: tuple[str, ...] = ()
        self._asked = 0
        self._added = ""
        self._checked: dict[tuple[str, str], DrafterChecked] = {}
        self._asked_for: set[tuple[str, str]] = set()
        self._moved = QTimer(self, singleShot=True, interval=MOVED_MS)
        self._moved.timeout.connect(self._check)
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
        self.forget = dialog_button(
            "Remove folder", self._forget_folder, "Its models are no longer listed. No files are deleted."
        )
        self.delete = dialog_button("Delete…", self._ask_to_delete)
        self._arrange()
        self.search.changed.connect(self._search)
        self.list.moved.connect(self._show_chosen)
        self.list.verticalScrollBar().valueChanged.connect(self._look_at_rows)
        self.list.verticalScrollBar().rangeChanged.connect(self._look_at_rows)
        self.purpose.currentIndexChanged.connect(self.refresh)
        self.list.chosen.connect(lambda key: self._use(self.purpose.currentData(), key))
        self.list.deleted.connect(self._ask_to_delete)
        self._show_chosen()

    def _arrange(self) -> None:
        for label in (self.about, self.pairs):
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
        in_column(
            in_row((self.search, 1), self.purpose, self.forget, self.add, spacing=8),
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
    def read(self) -> None:
        """Reads the list of models again, on another thread."""
        self._asked += 1
        self._checked.clear()
        self._asked_for.clear()
        asked = self._asked
        self._background.do(_listing, partial(self._show, asked), partial(self._failed, asked), "listing the models")
        if not self.models:
            self.about.setText("Looking for models…")

    def _show(self, asked: int, found: Listing) -> None:
        if asked == self._asked:
            models, self._free, self._folders = found
            self.models = {model.target: model for model in models}
            self.refresh()
            self.read_again.emit()
            added, self._added = self._added, ""
            if added and not any(model.source == added for model in models):
                self.added_nothing.emit(added)

    def _failed(self, asked: int, error: DraftlightError) -> None:
        if asked == self._asked:
            self.about.setText(str(error))

    @Slot()
    def refresh(self) -> None:
        """Updates which models are in use."""
        self._asked_for.clear()
        self._show_entries()
        self._show_chosen()

    def _show_entries(self) -> None:
        settings = self._settings()
        self.list.show_entries(
            [
                of_model(model, self._free, settings.target, settings.drafter, self._reason(model))
                for model in self.models.values()
            ]
        )

    @property
    def _drafting(self) -> bool:
        return self.purpose.currentData() == "drafter"

    def _reason(self, model: LibraryModel) -> str:
        """Returns why a model does not suit the chosen purpose, as far as is known."""
        if not self._drafting:
            return "It was made to draft and cannot write by itself." if model.only_drafts else ""
        checked = self._checked.get((self._settings().target, model.target))
        return "" if checked is None else checked.reason

    def ask_for(self, kind: str) -> None:
        """Greys the models that cannot be used as "target" or "drafter"."""
        self.purpose.setCurrentIndex(self.purpose.findData(kind))

    @property
    def repositories(self) -> set[str]:
        """The Hub repositories of which something is on this machine."""
        return {"/".join(model.name.partition(":")[0].split("/")[:2]) for model in self.models.values()}

    # The current model.

    @Slot()
    def _show_chosen(self) -> None:
        self._tell_about(self.models.get(self.list.key))
        keys = LIST_KEYS.format(self.purpose.currentData())
        self.list.setAccessibleDescription(f"{self.about.text()} {self.pairs.text()} {keys}")
        self._look_at_rows()

    def _tell_about(self, model: LibraryModel | None) -> None:
        for button in (self.use, self.draft, self.show_folder, self.delete):
            button.setEnabled(model is not None)
        self.pair.hide()
        self.forget.setVisible(model is not None and model.source in self._folders)
        self.pairs.setText("")
        if model is None:
            self.title.setText("")
            nothing = "No models match these words." if self.search.text() else NO_OTHERS
            self.about.setText(nothing)
            return
        self.title.setText(model.name)
        alone = f"\n{NO_OTHERS}" if len(self.models) == 1 else ""
        self.about.setText(about_model(model, self._free) + alone)
        self.use.setEnabled(not model.problem and not model.only_drafts)
        self.draft.setEnabled(not model.problem)
        why_not = "" if model.source in (OWN, HUB) else "Draftlight only deletes models in its own folder and in the Hub's cache."
        if model.target in (self._settings().target, self._settings().drafter):
            why_not = "It is in use. Choose another model first."
        self.delete.setEnabled(not why_not)
        self.delete.setToolTip(plain_tip(why_not))
        if not model.problem:
            found = pairs.suggestions(model, self.models.values())
            self.pairs.setText(self._about_drafting(model) + about_pairs(model, found))
            self.pairs.setToolTip(found[0].pair.source if found else "")
            self.pair.setVisible(bool(found) and not model.only_drafts)
            if found:
                here = found[0].local_model is not None
                self.pair.setText(f"Use with {found[0].pair.title}" if here else f"Get {found[0].pair.title}…")

    def _about_drafting(self, model: LibraryModel) -> str:
        """Describes whether the chosen model can draft for the current target; starts a check if that is unknown."""
        target = self._settings().target
        self.draft.setToolTip("")
        if model.target == target:
            return ""
        checked = self._checked.get((target, model.target))
        if checked is None:
            self._moved.start()
            return ""
        self.draft.setEnabled(not checked.reason)
        self.draft.setToolTip(plain_tip(checked.reason))
        return about_drafting(model, self.models.get(target), checked.reason, self._free, checked.warning) + "\n"

    @Slot()
    def _look_at_rows(self) -> None:
        if self._drafting:
            self._moved.start()

    @Slot()
    def _check(self) -> None:
        """Requests checks of the visible rows; reading vocabularies takes too long to check all."""
        target = self._settings().target
        for key in {self.list.key, *self.list.in_view()} if self._drafting else {self.list.key}:
            model, pair = self.models.get(key), (target, key)
            known = pair in self._checked or pair in self._asked_for
            if model is not None and not model.problem and key != target and not known:
                self._asked_for.add(pair)
                self.check_requested.emit(key)

    @Slot(object)
    def show_check(self, checked: DrafterChecked) -> None:
        """Shows the result of checking a model as a drafter."""
        self._checked[checked.target, checked.name] = checked
        if self._drafting and checked.reason:
            self._show_entries()
        if checked.name == self.list.key and checked.target == self._settings().target:
            self._show_chosen()

    @Slot(str)
    def _search(self, words: str) -> None:
        self.list.set_words(words)
        self._show_chosen()

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
            place = _place(self.list.key)
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(place if place.is_dir() else place.parent)))

    def _add_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Add a folder with models")
        if chosen:
            self.add_folder(str(Path(chosen).resolve()))

    def add_folder(self, folder: str) -> None:
        """Adds a folder to those searched for models."""
        self._change_folders(folder)

    def _forget_folder(self) -> None:
        model = self.models.get(self.list.key)
        if model is not None:
            self.remove_folder(model.source)

    def remove_folder(self, folder: str) -> None:
        """Removes a folder from those searched for models."""
        self._change_folders(folder, remove=True)

    def _change_folders(self, folder: str, remove: bool = False) -> None:
        def changed(_: object) -> None:
            """Reads the list again; the change invalidates earlier requests."""
            self._added = "" if remove else folder
            self._reread()

        work = partial(change_folders, folder, remove)
        self._background.do(work, changed, lambda error: self._reread(str(error)), "keeping the folders")

    def _ask_to_delete(self, key: str = "") -> None:
        model = self.models.get(key or self.list.key)
        if model is None or not self.delete.isEnabled():
            return
        if model.source == HUB:
            work = partial(cached_revision, _place(model.target))
            asked = partial(self._ask, model)
            self._background.do(work, asked, lambda error: self._reread(str(error)), "looking into the Hub's cache")
        else:
            self._ask(model, None)

    def _ask(self, model: LibraryModel, cached: CachedRevision | None) -> None:
        question = DeleteQuestion(model, cached, self)
        question.deletes.clicked.connect(partial(self._delete, model))
        question.open()

    def _delete(self, model: LibraryModel) -> None:
        work = partial(delete_cached if model.source == HUB else library.delete, _place(model.target))
        self._background.do(work, lambda _: self._reread(), lambda error: self._reread(str(error)), "deleting a model")

    def _reread(self, message: str = "") -> None:
        self.read()
        if message:
            self.about.setText(message)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the list."""
        self.list.delegate.set_look(theme, scale)
        self.about.setMinimumHeight(2 * self.about.fontMetrics().lineSpacing())
        self.pairs.setMinimumHeight(4 * self.pairs.fontMetrics().lineSpacing())

    def stop(self) -> None:
        """Stops checks: the window is closing."""
        self._moved.stop()


class DeleteQuestion(Question):
    """Asks whether to delete a model.

    Attributes:
        deletes: the button that confirms.
    """

    def __init__(self, model: LibraryModel, cached: CachedRevision | None, parent: QWidget) -> None:
        super().__init__(parent, "deleteQuestion", f"Delete {model.name}?", _what_goes(model, cached))
        self.deletes = self.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        self.setDefaultButton(self.addButton(QMessageBox.StandardButton.Cancel))


def _what_goes(model: LibraryModel, cached: CachedRevision | None) -> str:
    place = _place(model.target)
    if cached is None:
        whole = "This folder and everything in it" if place.is_dir() else "This file"
        again = " It is downloaded again when it is next used." if model.target == "builtin" else ""
        return f"{whole} is deleted, which frees {size(model.size)}.{again}\n{place}"
    names = ", ".join(cached.files[:MOST_NAMED])
    more = f" and {len(cached.files) - MOST_NAMED} more" if len(cached.files) > MOST_NAMED else ""
    return (
        f"All that was downloaded of {cached.repository} at {cached.commit[:7]} is deleted, which frees {size(cached.freed)}: "
        f"{names}{more}.\nOther programs use the Hub's cache too. They would have to download the model again.\n{cached.place}"
    )


def _place(key: str) -> Path:
    """Returns the path of a model."""
    return builtin_path() if key == "builtin" else Path(key)


def _listing() -> Listing:
    folders = added_folders()
    return [library.builtin_model(), *library.find(map(Path, folders))], available_memory(), folders
