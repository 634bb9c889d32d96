"""The models dialog: models on this machine, models on the Hugging Face Hub, and machines that can share a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QStackedWidget, QTabBar, QWidget

from app.library.background import Background
from app.library.downloads import Downloads
from app.library.hosts_page import HostsPage
from app.library.hub_page import HubPage
from app.library.machine_page import MachinePage
from app.look.banner import Banner
from app.look.placing import limit_to_screen
from app.look.theme import Theme
from app.look.widgets import in_column, named
from app.session.settings import Settings

SIZE = QSize(860, 660)
"""At text scale 1."""


class ModelsDialog(QDialog):
    """A modeless dialog; closing only hides it, and downloads continue."""

    def __init__(self, background: Background, downloads: Downloads, settings: Callable[[], Settings], parent: QWidget) -> None:
        super().__init__(parent)
        named(self, "modelsDialog", "Models")
        self.setWindowTitle("Models")
        self.machine = MachinePage(background, settings)
        self.hub = HubPage(background, downloads, lambda: self.machine.repositories)
        self.hosts = HostsPage(background, settings)
        self.tabs = named(
            QTabBar(drawBase=False, expanding=False),
            "panelTabs",
            "Where models are",
            "Left and Right switch between models here, the Hub, and machines.",
        )
        self.pages = QStackedWidget()
        self.banner = Banner()
        for title, page in (("On this machine", self.machine), ("Hugging Face Hub", self.hub), ("Machines", self.hosts)):
            self.tabs.addTab(title)
            self.pages.addWidget(page)
        in_column(self.tabs, (self.pages, 1), self.banner, spacing=12, margins=(18, 10, 18, 16), parent=self)
        self.tabs.currentChanged.connect(self._switch_page)
        self.machine.fetch_requested.connect(self.fetch)
        self.machine.reloaded.connect(self.hub.refresh)
        self.machine.empty_folder_added.connect(self._report_empty_folder)

    @Slot(int)
    def _switch_page(self, index: int) -> None:
        self.pages.setCurrentIndex(index)
        if self.pages.currentWidget() is self.hosts:
            self.hosts.reload()

    @Slot(str)
    def _report_empty_folder(self, folder: str) -> None:
        """Reports that an added folder has no models, with a button that removes it: otherwise a folder is removed through one of
        its models."""
        hint = "A model is a .gguf file, or a folder with a config.json and .safetensors files."
        self.banner.show_message(f"No other models were found in {folder}. {hint}")
        self.banner.show_action("Remove folder", partial(self._remove, folder))

    def _remove(self, folder: str) -> None:
        self.banner.hide()
        self.machine.remove_folder(folder)

    @Slot(str)
    def fetch(self, repository: str) -> None:
        """Shows a repository of the Hub."""
        self.hub.search_repository(repository)
        self.tabs.setCurrentIndex(1)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.machine.reload()
        field = (self.machine.search, self.hub.search, self.hosts.location)[self.tabs.currentIndex()]
        field.setFocus(Qt.FocusReason.OtherFocusReason)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the lists and enlarges the dialog for larger text."""
        self.machine.set_look(theme, scale)
        self.hub.set_look(theme, scale)
        self.hosts.set_look(theme, scale)
        self.banner.set_look(theme, scale)
        wanted = QSize(round(SIZE.width() * scale), round(SIZE.height() * scale))
        self.resize(limit_to_screen(self, wanted))
