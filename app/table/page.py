"""The page with the table of rounds: highlights the cursor's row, and copies and sorts rows."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, Qt, Slot
from PySide6.QtGui import QColor, QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHBoxLayout, QHeaderView, QLabel, QMenu, QTableView, QWidget

from app.look import theme as themes
from app.look.command import native_keys
from app.look.theme import Theme
from app.look.widgets import icon_button, in_column, named, tint
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import NO_ROUNDS_YET
from app.table.model import COLUMNS, RoundModel, tab_separated
from engine.values.wording import amount


class RoundTable(QTableView):
    """One row per round; the cursor's round is highlighted."""

    def __init__(self, shown: ShownAnswer, cursor: Cursor) -> None:
        super().__init__()
        named(
            self,
            "roundTable",
            "Rounds in a table",
            f"Enter pins a round, {native_keys('Ctrl+C')} copies the selected rows, the menu key opens the sort menu.",
        )
        self.shown, self.cursor_place = shown, cursor
        self.rounds = RoundModel(self)
        self.setModel(self.rounds)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)  # no row is ever measured
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSectionsMovable(True)
        self.horizontalHeader().setSortIndicator(0, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        self.setMouseTracking(True)
        self._at_end, self._turn = True, 0
        self.verticalScrollBar().valueChanged.connect(self._note_scroll)
        self.verticalScrollBar().rangeChanged.connect(self._keep_end_in_view)
        self.entered.connect(self._point_at)
        self.selectionModel().currentRowChanged.connect(self._point_at_current)
        cursor.moved.connect(self._moved)
        cursor.pinned.connect(self._pinned)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies font, row height and highlight colour, and fits each column to its widest sample."""
        self.setFont(themes.body_font(scale))
        self.rounds.highlight_colour = QColor(theme.raised)
        self.verticalHeader().setMinimumSectionSize(1)
        self.verticalHeader().setDefaultSectionSize(round(25 * scale))
        metrics = self.fontMetrics()
        for column, kind in enumerate(COLUMNS):
            width = max(metrics.horizontalAdvance(kind.sample), metrics.horizontalAdvance(f"{kind.title} ↑"))
            self.setColumnWidth(column, width + round(14 * scale))

    def refresh(self) -> None:
        """Adds the new rounds of the answer."""
        self.rounds.show_answer(self.shown.answer)
        if self._turn != self.shown.turn:
            self._turn = self.shown.turn
            self._pinned(self.cursor_place.pin_place)

    @Slot()
    def _note_scroll(self) -> None:
        bar = self.verticalScrollBar()
        self._at_end = bar.value() >= bar.maximum()

    @Slot()
    def _keep_end_in_view(self) -> None:
        """Keeps the newest row in view if it was in view."""
        header, bar = self.horizontalHeader(), self.verticalScrollBar()
        if self._at_end and header.sortIndicatorSection() == 0 and header.sortIndicatorOrder() == Qt.SortOrder.AscendingOrder:
            bar.setValue(bar.maximum())

    # Cursor.

    def _place_of(self, index: QModelIndex) -> Place | None:
        return Place(self.shown.turn, self.rounds.round_at(index.row()).index) if index.isValid() else None

    def _row_of(self, place: Place | None) -> int | None:
        return None if place is None or place.turn != self.shown.turn else self.rounds.row_of(place.round)

    @Slot(QModelIndex)
    def _point_at(self, index: QModelIndex) -> None:
        self.cursor_place.point(self._place_of(index))

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        rows = [self.rounds.row_of(self.rounds.highlighted) if self.rounds.highlighted is not None else None, self._row_of(place)]
        self.rounds.highlighted = place.round if place is not None and rows[1] is not None else None
        if self.isVisible():
            for row in rows:
                if row is not None:
                    self.viewport().update(0, self.rowViewportPosition(row), self.viewport().width(), self.rowHeight(row))

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        row = self._row_of(place)
        if row is None or self.currentIndex().row() == row:
            return
        index = self.rounds.index(row, max(0, self.currentIndex().column()))
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.selectionModel().setCurrentIndex(index, flags)
        self.scrollTo(index)

    @Slot(QModelIndex, QModelIndex)
    def _point_at_current(self, current: QModelIndex, _: QModelIndex) -> None:
        if self.hasFocus():
            self.cursor_place.point(self._place_of(current))

    # Rows.

    def selected_rows(self) -> list[int]:
        """Returns the selected rows, from the top."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    @Slot()
    def copy(self) -> None:
        """Copies the selected rows, or all if none are selected, to the clipboard as tab-separated lines."""
        rows = self.selected_rows() or range(self.rounds.rowCount())
        if rows:
            QGuiApplication.clipboard().setText(tab_separated([self.rounds.round_at(row) for row in rows]))

    # Qt events.

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.cursor_place.leave()
        return super().viewportEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not event.modifiers():
            self.cursor_place.pin(self._place_of(self.indexAt(event.position().toPoint())))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            place = self._place_of(self.currentIndex())
            self.cursor_place.pin(None if place == self.cursor_place.pin_place else place)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.addAction("Copy rows", self.copy).setEnabled(self.rounds.rowCount() > 0)
        menu.addAction("Select all", self.selectAll).setEnabled(self.rounds.rowCount() > 0)
        sort_menu = menu.addMenu("Sort by")
        for column, kind in enumerate(COLUMNS):
            sort_menu.addAction(kind.title).setData(column)
        sort_menu.triggered.connect(lambda action: self.sort_by(action.data()))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def sort_by(self, column: int) -> None:
        """Sorts the rows by a column; a second call reverses the order."""
        header = self.horizontalHeader()
        is_repeated = header.sortIndicatorSection() == column and header.sortIndicatorOrder() == Qt.SortOrder.AscendingOrder
        self.sortByColumn(column, Qt.SortOrder.DescendingOrder if is_repeated else Qt.SortOrder.AscendingOrder)


class TablePage(QWidget):
    """The table of the shown answer."""

    def __init__(self, shown: ShownAnswer, cursor: Cursor) -> None:
        super().__init__()
        self.table = RoundTable(shown, cursor)
        self.setFocusProxy(self.table)
        self.title = named(QLabel("All rounds"), "sectionTitle")
        self.note = named(QLabel(), "sectionNote")
        self.copy_button = icon_button("copy", "Copy the selected rows, or all rows, for a spreadsheet", self.table.copy)
        heading = QHBoxLayout()
        heading.setContentsMargins(16, 0, 10, 0)
        heading.addWidget(self.title)
        heading.addWidget(self.note, 1)
        heading.addWidget(self.copy_button)
        in_column(heading, (self.table, 1), spacing=4, margins=(0, 6, 0, 0), parent=self)
        self.setTabOrder(self.table, self.copy_button)

    def refresh(self) -> None:
        """Adds the new rounds of the answer."""
        self.table.refresh()
        count, answer = self.table.rounds.rowCount(), self.table.shown.answer
        empty_text = NO_ROUNDS_YET if answer is None else answer.waiting_words
        self.note.setText(amount(count, "round") if count else empty_text)
        self.copy_button.setEnabled(count > 0)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the table and the icon of the copy button."""
        self.table.set_look(theme, scale)
        tint(self.copy_button, theme, scale)
