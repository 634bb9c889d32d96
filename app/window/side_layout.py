"""Arranges the list of chats and the panel beside the conversation: shown, hidden or in a drawer, depending on the width."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QAbstractButton, QSplitter, QWidget

from app.look.widgets import in_row
from app.panel.panel import SidePanel
from app.session.chat import Chat
from app.sidebar.drawer import Drawer
from app.sidebar.sidebar import Sidebar
from app.window.chat_column import ChatColumn

MIN_WIDTH_WITH_PANEL = 900
"""Window width at text scale 1 below which the panel is hidden to leave space for the conversation."""
MIN_WIDTH_WITH_CHATS, MIN_WIDTH_WITH_CHATS_AND_PANEL = 760, 1180
"""Window widths at text scale 1, without and with the panel, below which the list of chats is a drawer over the conversation."""


COMFORTABLE_WIDTH = 1100
"""Width of the conversation in pixels at text scale 1 that is ample for its lines; on a wide screen the panel takes the rest."""


class SideLayout(QWidget):
    """The list of chats, the conversation and the panel, side by side. The panel has about a third of the width, more on a wide
    screen, until the user moves the divider.

    Args:
        toggle_button: the button that shows and hides the list.

    Signals:
        opening: the list is about to open over the conversation, so the conversation must be shown.
        drawer_toggled: the drawer was opened or closed.
    """

    opening = Signal()
    drawer_toggled = Signal()

    def __init__(
        self, chat: Chat, sidebar: Sidebar, column: ChatColumn, panel: SidePanel, toggle_button: QAbstractButton
    ) -> None:
        super().__init__()
        self._chat, self._sidebar, self._column, self._panel, self._toggle_button = chat, sidebar, column, panel, toggle_button
        self._user_moved_divider = False
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setHandleWidth(1)
        self.splitter.addWidget(column)
        self.splitter.addWidget(panel)
        self.splitter.splitterMoved.connect(self._keep_divider)
        in_row(sidebar, (self.splitter, 1), parent=self)
        self.drawer = Drawer(sidebar, self, toggle_button)
        self.drawer.toggled.connect(self.drawer_toggled)
        toggle_button.setVisible(chat.keeper.stores)

    # The list of chats.

    @property
    def shows_chats(self) -> bool:
        """Whether the list of chats is set to be shown; in a narrow window, whether the drawer is open."""
        return self._chat.settings.sidebar if self._has_room_for_chats() else self.drawer.is_open

    @Slot()
    def toggle_chats(self) -> None:
        """Toggles and saves the list of chats. In a narrow window it opens or closes as a drawer instead."""
        if self._has_room_for_chats():
            self._chat.preferences.set(sidebar=not self._chat.settings.sidebar)
        elif not self.close_drawer():
            self._open_drawer()

    @Slot()
    def search_chats(self) -> None:
        """Focuses the search in all chats."""
        self.opening.emit()
        if self._has_room_for_chats():
            self._chat.preferences.set(sidebar=True)
            self._sidebar.go_to_search()
        else:
            self._open_drawer(search=True)

    def close_drawer(self) -> bool:
        """Closes the drawer and focuses the message field; returns False if no drawer was open."""
        if not self.drawer.is_open:
            return False
        self.drawer.close()
        self._column.composer.edit.setFocus()
        return True

    def _open_drawer(self, search: bool = False) -> None:
        self.opening.emit()
        self.drawer.open(search)

    def _has_room_for_chats(self) -> bool:
        min_width = MIN_WIDTH_WITH_CHATS_AND_PANEL if self._chat.settings.side_panel else MIN_WIDTH_WITH_CHATS
        return self.window().width() >= min_width * self._chat.settings.text_scale

    # The panel.

    @Slot()
    def toggle_panel(self) -> None:
        """Toggles and saves whether the side panel is shown; a narrow window hides it in any case."""
        self._chat.preferences.set(side_panel=not self._chat.settings.side_panel)

    @Slot()
    def _keep_divider(self) -> None:
        self._user_moved_divider = True

    # Room.

    @Slot()
    def arrange(self) -> None:
        """Shows or hides the panel and the list of chats to fit the width of the window."""
        settings = self._chat.settings
        self._panel.setVisible(settings.side_panel and self.window().width() >= MIN_WIDTH_WITH_PANEL * settings.text_scale)
        has_room = self._has_room_for_chats()
        should_list = settings.sidebar and self._chat.keeper.stores and has_room
        is_beside = not self.drawer.is_open and not self._sidebar.isHidden()
        if should_list != is_beside or (has_room and self.drawer.is_open):
            self.drawer.set_beside(should_list)
            self.divide()
        self._toggle_button.setChecked(self.shows_chats)

    def divide(self) -> None:
        """Divides the width between conversation and panel, unless the user has moved the divider."""
        if not self._user_moved_divider:
            beside = 0 if self._sidebar.isHidden() or self.drawer.is_open else self._sidebar.width()
            width, scale = self.window().width() - beside, self._chat.settings.text_scale
            usual, rest = min(560 * scale, 0.37 * width), min(width - COMFORTABLE_WIDTH * scale, 0.43 * width)
            panel = round(max(340 * scale, usual, rest))
            self.splitter.setSizes([width - panel, panel])
