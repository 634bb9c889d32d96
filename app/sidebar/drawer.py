"""Places the list of chats beside the conversation, or as a drawer over it if there is no room."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal, Slot
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QBoxLayout, QWidget

from app.sidebar.sidebar import Sidebar


class Drawer(QObject):
    """Places the list. A drawer closes on a click outside it and when the focus moves elsewhere in the window.

    Args:
        row: the container with the list as first item, if there is room.
        toggle_button: the button that opens and closes it.

    Signals:
        toggled: the drawer was opened or closed.
    """

    toggled = Signal()

    def __init__(self, sidebar: Sidebar, row: QWidget, toggle_button: QWidget) -> None:
        super().__init__(row)
        self._sidebar, self._row, self._toggle_button = sidebar, row, toggle_button
        self.is_open = False
        row.installEventFilter(self)

    def set_beside(self, shown: bool) -> None:
        """Shows the list beside the conversation, or hides it."""
        self.close()
        layout = self._row.layout()
        if isinstance(layout, QBoxLayout) and layout.indexOf(self._sidebar) < 0:
            layout.insertWidget(0, self._sidebar)
        self._sidebar.setVisible(shown)

    def open(self, search: bool = False) -> None:
        """Shows the list over the conversation, and focuses it or its search."""
        layout = self._row.layout()
        was_open, self.is_open = self.is_open, True
        if not was_open and layout is not None:
            layout.removeWidget(self._sidebar)
            self._fit()
            self._sidebar.show()
            self._sidebar.raise_()
        self._sidebar.go_to_search() if search else self._sidebar.go_to_list()
        application = QApplication.instance()
        if not was_open and isinstance(application, QApplication):
            application.installEventFilter(self)
            application.focusChanged.connect(self._close_if_focus_left)
        self.toggled.emit()

    def close(self) -> None:
        """Closes the drawer if it is open."""
        if not self.is_open:
            return
        self.is_open = False
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.removeEventFilter(self)
            application.focusChanged.disconnect(self._close_if_focus_left)
        self._sidebar.hide()
        self.toggled.emit()

    def _fit(self) -> None:
        self._sidebar.setGeometry(0, 0, self._sidebar.maximumWidth(), self._row.height())

    @Slot()
    def _close_if_focus_left(self) -> None:
        focused = QApplication.focusWidget()
        if focused is not None and self._is_outside(focused):
            self.close()

    def _is_outside(self, widget: QWidget) -> bool:
        """Returns whether a widget is outside the list in the same window; menus and dialogs of the list are windows of their
        own."""
        inside = widget is self._sidebar or self._sidebar.isAncestorOf(widget) or widget is self._toggle_button
        return widget.window() is self._row.window() and not inside

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Closes the drawer on a click outside, which also reaches the widget below."""
        if watched is self._row:
            if event.type() == QEvent.Type.Resize and self.is_open:
                self._fit()
        elif isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonPress and isinstance(watched, QWidget):
            if QApplication.activePopupWidget() is None and self._is_outside(watched):
                self.close()
        return False
