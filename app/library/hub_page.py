"""The page of the Hugging Face Hub: search and downloads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, QTimer, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit, QWidget

from app.library.background import Background
from app.library.downloads import Downloads
from app.library.entries import about_recommended, download_entry, found_entry, offer_text, recommended_entry
from app.library.entry_list import EntryList, SearchField
from app.look.theme import Theme
from app.look.widgets import (
    DiscardQuestion,
    ElidedLabel,
    choice_box,
    dialog_button,
    in_column,
    in_row,
    named,
    stretch,
    text_label,
)
from engine.files import hub, pairs
from engine.files.hub import HubModel, Offer
from engine.files.memory import available_memory
from engine.values.errors import DraftlightError
from engine.values.wording import size

IDLE_NOTE = "Draft models and heads that are known to fit, from a list on this machine. What you type above is sent to the Hub."
DOWNLOAD_ONLINE, NETWORK_NOTE = (
    "Download… (needs the network)",
    "Needs the network: asks the Hugging Face Hub what can be downloaded of it.",
)
POPULAR = "Show the most downloaded"
SEARCH_DELAY_MS, LOOKUP_DELAY_MS = 400, 200
"""Milliseconds from a key press to the search, and from a row change to looking the row up."""


class HubPage(QWidget):
    """Lists the search results below the downloads. Nothing is sent to the Hub before the user searches.

    Args:
        local_repositories: returns the repositories of which something is on this machine.
    """

    def __init__(self, background: Background, downloads: Downloads, local_repositories: Callable[[], set[str]]) -> None:
        super().__init__()
        self._background, self.downloads, self._local_repositories = background, downloads, local_repositories
        self._found: list[HubModel] = []
        self._offers: dict[str, list[Offer]] = {}
        self._request = 0
        self._failure = ""
        self._is_searching = False
        self._recommended = {model.repository: model for model in pairs.recommended()}
        self.list = EntryList(
            "Models on the Hugging Face Hub", "Enter downloads the model, or resumes its download; Delete discards it."
        )
        self.search = SearchField("Search the Hugging Face Hub", self.list)
        self.retry = dialog_button(POPULAR, self.search_hub, "Asks the Hugging Face Hub for the models that are downloaded most")
        self.title = named(ElidedLabel(), "entryTitle")
        self.state, self.about = text_label("entryAbout"), text_label("entryAbout")
        self.form = named(choice_box(), "offers", "Version to download")
        self.download = named(dialog_button("Download", self._download), "primaryButton")
        self.pause = dialog_button("Pause", self._pause)
        self.discard = dialog_button("Discard download…", self._ask_to_discard)
        self.page = dialog_button("Open model page", self._open_page)
        self.token = named(
            QLineEdit(placeholderText="Access token", echoMode=QLineEdit.EchoMode.Password),
            "tokenField",
            "Access token of the Hugging Face Hub",
            "Stored where huggingface_hub keeps it.",
        )
        self.sign_in = dialog_button("Sign in", self._sign_in)
        self._sign_in_row = QWidget()
        self._search_timer = QTimer(self, singleShot=True, interval=SEARCH_DELAY_MS)
        self._search_timer.timeout.connect(self._search)
        self._lookup_timer = QTimer(self, singleShot=True, interval=LOOKUP_DELAY_MS)
        self._lookup_timer.timeout.connect(self._look_up)
        self._arrange()
        self.search.changed.connect(self._search_changed)
        self.list.current_changed.connect(self._show_current)
        self.list.chosen.connect(self._download)
        self.list.deleted.connect(self._ask_to_discard)
        self.form.currentIndexChanged.connect(self._show_current)
        self.token.returnPressed.connect(self._sign_in)
        downloads.changed.connect(self.refresh)
        self.refresh()
        self._show_state()

    def _arrange(self) -> None:
        self.about.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.state.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        in_row((self.token, 1), self.sign_in, spacing=8, parent=self._sign_in_row)
        in_column(
            self.search,
            in_row((self.state, 1), self.retry, spacing=8),
            (self.list, 1),
            self.title,
            self.about,
            self.form,
            self._sign_in_row,
            in_row(self.download, self.pause, self.discard, stretch(), self.page, spacing=8),
            spacing=8,
            parent=self,
        )

    # Search.

    @Slot()
    def _search(self) -> None:
        if self.search.text().strip():
            self.search_hub()
        else:
            self._request += 1  # drops the results of a search still running
            self._is_searching, self._failure, self._found = False, "", []
            self.refresh()
            self._show_state()

    @Slot()
    def search_hub(self) -> None:
        """Searches for the words in the field; without words, for the most downloaded models."""
        self._request += 1
        self._is_searching, self._failure = True, ""
        request, query = self._request, self.search.text().strip()
        self._background.run(
            partial(hub.search, query), partial(self._show, request), partial(self._show_failure, request), "searching the Hub"
        )
        self.refresh()
        self._show_state()

    @Slot(str)
    def _search_changed(self, _: str) -> None:
        self._search_timer.start()

    def search_repository(self, repository: str) -> None:
        """Searches for one repository."""
        self._search_timer.stop()
        self.search.setText(repository)
        self._search_timer.stop()
        self.search_hub()

    def _show(self, request: int, found: list[HubModel]) -> None:
        if request == self._request:
            self._is_searching, self._found = False, found
            self.refresh()
            self._show_state()

    def _show_failure(self, request: int, error: DraftlightError) -> None:
        if request == self._request:
            self._is_searching, self._failure, self._found = False, str(error), []
            self.refresh()
            self._show_state()

    def _show_state(self) -> None:
        query = self.search.text().strip()
        if self._is_searching:
            text = "Searching…"
        elif self._failure:
            text = self._failure
        elif query:
            text = f"No model has “{query}” in its name." if not self._found else ""
        else:
            text = "The most downloaded models." if self._found else IDLE_NOTE
        self.state.setText(text)
        self.state.setVisible(bool(text))
        self.retry.setText("Try again" if self._failure else POPULAR)
        self.retry.setVisible(bool(self._failure) or text == IDLE_NOTE)

    @property
    def _is_idle(self) -> bool:
        """Whether no search was made, so that the list shipped with Draftlight is shown."""
        return not (self._found or self._is_searching or self._failure or self.search.text().strip())

    @Slot()
    def refresh(self) -> None:
        """Updates the rows to the state of the downloads."""
        states, local, free = self.downloads.states, self._local_repositories(), available_memory()
        self.list.show_entries(
            [
                *(download_entry(name, state) for name, state in states.items()),
                *(found_entry(model, model.name in local) for model in self._found if model.name not in states),
                *(
                    recommended_entry(model, model.repository in local, free)
                    for model in self._recommended.values()
                    if self._is_idle and model.repository not in states
                ),
            ]
        )
        self._show_current()

    # The current model.

    @Slot()
    def _show_current(self) -> None:
        key = self.list.key
        state = self.downloads.states.get(key)
        offers = self._offers.get(key, [])
        self.title.setText(key)
        self.page.setEnabled(bool(key))
        self.pause.setVisible(state is not None and state.phase in ("running", "asking", "pausing"))
        self.pause.setEnabled(state is not None and state.phase == "running")
        self.discard.setVisible(state is not None)
        self.download.setVisible(not self.pause.isVisibleTo(self))
        self.form.setVisible(state is None and len(offers) > 1)
        self._sign_in_row.setVisible(state is not None and bool(state.page))
        if state is not None:
            self.download.setText("Try again" if state.phase == "failed" else "Resume")
            self.download.setEnabled(state.phase in ("paused", "failed"))
            self.about.setText(state.description)
            return
        recommended = self._recommended.get(key) if self._is_idle else None
        self.download.setToolTip("" if recommended is None else NETWORK_NOTE)
        if recommended is not None:
            self.download.setText(DOWNLOAD_ONLINE)
            self.download.setEnabled(True)
            self.about.setText(about_recommended(recommended))
            return
        self.download.setText("Download")
        self.download.setEnabled(bool(offers) and not offers[max(0, self.form.currentIndex())].problem)
        model = next((one for one in self._found if one.name == key), None)
        if model is None:
            self.about.setText("")
        elif model.problem:
            self.about.setText(f"This model cannot be used. {model.problem}")
        elif key not in self._offers:
            self.about.setText("Looking up what can be downloaded…")
            self._lookup_timer.start()
        elif not offers:
            self.about.setText("It has neither safetensors for mlx-lm nor GGUF files.")
        else:
            self._fill(offers)

    def _fill(self, offers: list[Offer]) -> None:
        free = available_memory()
        titles = [offer_text(offer, free) for offer in offers]
        if titles != [self.form.itemText(at) for at in range(self.form.count())]:
            self.form.blockSignals(True)
            self.form.clear()
            self.form.addItems(titles)
            first = next((at for at, offer in enumerate(offers) if not offer.problem), 0)
            self.form.setCurrentIndex(first)
            self.form.blockSignals(False)
        offer = offers[max(0, self.form.currentIndex())]
        self.download.setEnabled(not offer.problem)
        summary = f"There are {len(offers)} versions. More bits keep more of the model, and take more memory."
        self.about.setText(titles[0] if len(offers) == 1 else summary)

    @Slot()
    def _look_up(self) -> None:
        key = self.list.key
        if key and key not in self._offers and key not in self.downloads.states:
            self._background.run(
                partial(hub.offers, key),
                partial(self._show_offers, key),
                partial(self._show_lookup_failure, key),
                "asking the Hub",
            )

    def _show_offers(self, key: str, offers: list[Offer]) -> None:
        self._offers[key] = offers
        self._show_current()

    def _show_lookup_failure(self, key: str, error: DraftlightError) -> None:
        if key == self.list.key:
            self.about.setText(str(error))

    def _download(self, key: str = "") -> None:
        key = key or self.list.key
        self._focus_list()
        if key in self.downloads.states:
            self.downloads.start(key)
        elif self._is_idle and key in self._recommended:
            self.search_repository(key)
        elif (offers := self._offers.get(key)) and self.download.isEnabled():
            name = offers[max(0, self.form.currentIndex())].name
            self.downloads.start(name)
            self.list.go_to(name)

    def _focus_list(self) -> None:
        """Focuses the list: a button that disappears passes the focus to the next one, which would be Discard."""
        self.list.setFocus(Qt.FocusReason.OtherFocusReason)

    def _pause(self) -> None:
        self._focus_list()
        self.downloads.pause(self.list.key)

    def _ask_to_discard(self, key: str = "") -> None:
        key = key or self.list.key
        state = self.downloads.states.get(key)
        if state is None or not state.done:
            self._discard(key)
            return
        details = f"The {size(state.done)} downloaded so far will be deleted."
        if state.phase == "running":
            details += " If you pause the download instead, it can go on later."
        question = DiscardQuestion(self, f"Discard the download of {key}?", details, "Keep")
        question.discard_button.clicked.connect(partial(self._discard, key))
        question.open()

    def _discard(self, key: str) -> None:
        if key in self.downloads.states:  # it may be complete by now
            self.downloads.cancel(key)

    def _open_page(self) -> None:
        QDesktopServices.openUrl(QUrl(hub.page_of(self.list.key)))

    def _sign_in(self) -> None:
        key, token = self.list.key, self.token.text()
        if token.strip():
            self.token.clear()
            self.sign_in.setEnabled(False)
            self._background.run(
                partial(hub.sign_in, token),
                partial(self._finish_sign_in, key),
                partial(self._show_sign_in_failure, key),
                "signing in",
            )

    def _finish_sign_in(self, key: str, _: object) -> None:
        self.sign_in.setEnabled(True)
        self._focus_list()
        self.downloads.start(key)

    def _show_sign_in_failure(self, key: str, error: DraftlightError) -> None:
        self.sign_in.setEnabled(True)
        if key == self.list.key:
            self.about.setText(str(error))

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the list."""
        self.list.delegate.set_look(theme, scale)
        self.about.setMinimumHeight(2 * self.about.fontMetrics().lineSpacing())

    def stop(self) -> None:
        """Stops lookups: the window is closing."""
        self._search_timer.stop()
        self._lookup_timer.stop()
