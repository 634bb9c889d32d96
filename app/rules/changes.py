"""The list of changes: the positions where another rule decides differently from the recorded one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Slot,
)
from PySide6.QtGui import QColor, QFocusEvent, QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.look import theme as themes
from app.look.marks import draw_bracket, draw_text
from app.look.theme import Theme
from app.look.widgets import named, plain_tip
from app.session.cursor import Cursor, Place
from app.session.session import Answer
from engine.lens.pieces import visible
from engine.lens.rejudge import TokenVerdict
from engine.lens.rejudge_words import change_words, token_name
from engine.types import ExpectedRule, Proposal, Round

Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
ROOT_INDEX = QModelIndex()
NEIGHBOURS = 4
"""Number of neighbouring tokens shown on either side."""
SIGNS = {"accepts": "+", "rejects": "−", "proposes another": "≠"}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change, as displayed.

    Attributes:
        sign: whether the rule accepts the proposal, rejects it, or proposes another token.
        before, token, after: the proposal and the text around it.
        description: what changes; figures: the values compared.
    """

    sign: str
    before: str
    token: str
    after: str
    description: str
    figures: str

    @property
    def accessible_text(self) -> str:
        """The text for screen readers and tooltips."""
        return f"“{self.token}” {self.description}. {self.figures}."


def change_row(answer: Answer, rule: ExpectedRule, verdict: TokenVerdict) -> ChangeRow:
    """Returns a change in words and figures."""
    at = verdict.spot.at
    round_ = answer.rounds[verdict.spot.round]
    proposal = round_.proposals[at]
    if verdict.drawn is not None:
        figures = f"target draws {token_name(verdict.drawn, round_, at)}"
    else:
        values = (("p", verdict.p), ("q", verdict.q), ("p/q", verdict.ratio), ("coin", verdict.coin))
        figures = "   ".join(f"{name} {_format(value)}" for name, value in values if value is not None)
    first = max(0, round_.index - NEIGHBOURS)
    before = [*_texts(*answer.rounds[first : round_.index]), *_texts(round_)[:at]]
    later = answer.rounds[round_.index + 1 : round_.index + 1 + NEIGHBOURS]
    after = [*_texts(round_)[at + (proposal.status == "accepted") :], *_texts(*later)]
    return ChangeRow(
        SIGNS[verdict.change],
        visible("".join(before[-NEIGHBOURS:]), within_text=True) if before else "",
        _name(proposal),
        visible("".join(after[:NEIGHBOURS]), within_text=True) if after else "",
        change_words(verdict, rule, round_),
        figures,
    )


def _texts(*rounds: Round) -> list[str]:
    return [token.text for round_ in rounds for token in round_.emitted]


def _name(proposal: Proposal) -> str:
    """Returns the text of a proposal between other text; white space is visible if there is nothing else."""
    return visible(proposal.text, proposal.bytes, within_text=True).strip()


def _format(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:,.3g}"


class ChangeModel(QAbstractListModel):
    """The list of changes, which only grows; the text of a row is computed on demand."""

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._answer: Answer | None = None
        self._rule: ExpectedRule = "rejection"
        self._changes: list[TokenVerdict] = []

    def reset(self, answer: Answer | None, rule: ExpectedRule) -> None:
        """Clears the list for another answer or rule."""
        self.beginResetModel()
        self._answer, self._rule, self._changes = answer, rule, []
        self.endResetModel()

    def add(self, changes: Sequence[TokenVerdict]) -> None:
        """Appends changes of the same answer."""
        if changes:
            count = len(self._changes)
            self.beginInsertRows(ROOT_INDEX, count, count + len(changes) - 1)
            self._changes += changes
            self.endInsertRows()

    def rowCount(self, parent: Index = ROOT_INDEX) -> int:
        return 0 if parent.isValid() else len(self._changes)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        """Returns a change in words, for screen readers and tooltips; the delegate paints it."""
        if not index.isValid():
            return None
        if role in (Role.DisplayRole, Role.AccessibleTextRole):
            return self.row(index.row()).accessible_text
        if role == Role.ToolTipRole:
            return plain_tip(self.row(index.row()).accessible_text)
        return None

    def row(self, index: int) -> ChangeRow:
        """Returns the displayed content of a change."""
        assert self._answer is not None
        return change_row(self._answer, self._rule, self._changes[index])

    def change_at(self, index: int) -> TokenVerdict:
        """Returns the change in a row."""
        return self._changes[index]

    def row_for(self, place: Place) -> int | None:
        """Returns the row of a place; None if it has none. Rows are in the order of rounds, at most one for each."""
        row = bisect_left(self._changes, place.round, key=lambda change: change.spot.round)
        found = self._changes[row].spot if row < len(self._changes) else None
        return row if found is not None and (found.round, found.at) == (place.round, place.proposal) else None


class ChangeDelegate(QStyledItemDelegate):
    """Paints three lines: the token between its neighbours, what changes, and the values compared."""

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self.theme: Theme | None = None
        self.scale = 1.0
        self._font = self._small_font = QFont()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and fonts."""
        self.theme, self.scale = theme, scale
        self._font, self._small_font = themes.body_font(scale), themes.body_font(scale, 12)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        lines = QFontMetrics(self._font).height() + 2 * QFontMetrics(self._small_font).height()
        return QSize(0, lines + round(15 * self.scale))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints one change: its sign, the token among its neighbours, what changes, and the figures."""
        theme = self.theme
        if theme is None:
            return
        area: QRect = option.rect
        state: QStyle.StateFlag = option.state
        model: ChangeModel = index.model()  # type: ignore[assignment]
        row = model.row(index.row())
        painter.save()
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, QColor(theme.selection))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(area, QColor(theme.raised))
        painter.setPen(QColor(theme.line))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        left, right = area.left() + round(16 * self.scale), area.right() - round(12 * self.scale)
        metrics = QFontMetrics(self._font)
        baseline = area.top() + round(7 * self.scale) + metrics.ascent()
        painter.setFont(self._font)
        draw_text(painter, theme.text, QPoint(left, baseline), row.sign)
        inner = left + round(18 * self.scale)
        self._draw_token(painter, row, inner, right, baseline, metrics)
        small = QFontMetrics(self._small_font)
        painter.setFont(self._small_font)
        for text, colour in ((row.description, theme.text), (row.figures, theme.dim)):
            baseline += small.height() + round(1 * self.scale)
            draw_text(
                painter, colour, QPoint(inner, baseline), small.elidedText(text, Qt.TextElideMode.ElideRight, right - inner)
            )
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QColor(theme.accent))
            painter.drawRect(area.adjusted(0, 0, -1, -1))
        painter.restore()

    def _draw_token(self, painter: QPainter, row: ChangeRow, left: int, right: int, baseline: int, metrics: QFontMetrics) -> None:
        assert self.theme is not None
        available = right - left
        token = metrics.elidedText(row.token, Qt.TextElideMode.ElideRight, available // 2)
        width = metrics.horizontalAdvance(token)
        gap = metrics.horizontalAdvance(" ")
        before = metrics.elidedText(row.before.lstrip(), Qt.TextElideMode.ElideLeft, (available - width) // 2)
        painter.setPen(QColor(self.theme.dim))
        x = left
        if before:
            painter.drawText(QPoint(x, baseline), before)
            x += metrics.horizontalAdvance(before) + gap
        draw_text(painter, self.theme.text, QPoint(x, baseline), token)
        box = QRect(x, baseline - metrics.ascent(), width, metrics.height()).toRectF()
        draw_bracket(painter, box, self.theme)
        x += width + gap
        draw_text(
            painter,
            self.theme.dim,
            QPoint(x, baseline),
            metrics.elidedText(row.after, Qt.TextElideMode.ElideRight, max(0, right - x)),
        )


STEP_KEYS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown, Qt.Key.Key_Home, Qt.Key.Key_End)


class ChangeList(QListView):
    """The list view of changes; its hover and selection follow the cursor."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__()
        named(self, "changeList", "Changes", "Return pins a change in the text and in the rounds.")
        self.changes = ChangeModel(self)
        self.delegate = ChangeDelegate(self)
        self.cursor_place = cursor
        self.turn = 0
        self._pointed_by_key = False  # whether a key moved the cursor
        self.setModel(self.changes)
        self.setItemDelegate(self.delegate)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.changes.rowsInserted.connect(self.updateGeometry)
        self.entered.connect(self._point_at)
        cursor.pinned.connect(self._pinned)

    def sizeHint(self) -> QSize:
        """Returns the height of two changes: in a low panel the list scrolls, so that the summary has room."""
        return QSize(super().sizeHint().width(), 2 * max(0, self.sizeHintForRow(0)))

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), self.sizeHint().height())

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the rows, whose height changes with the text."""
        self.delegate.set_look(theme, scale)
        self.verticalScrollBar().setSingleStep(round(20 * scale))
        self.scheduleDelayedItemsLayout()
        self.updateGeometry()
        self.viewport().update()

    def place_of(self, index: Index) -> Place | None:
        """Returns the place of the proposal in a row; None if the index is invalid."""
        if not index.isValid():
            return None
        spot = self.changes.change_at(index.row()).spot
        return Place(self.turn, spot.round, spot.at)

    @Slot(QModelIndex)
    def _point_at(self, index: QModelIndex) -> None:
        self.cursor_place.point(self.place_of(index))

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        row = None if place is None or place.turn != self.turn else self.changes.row_for(place)
        if row is None:
            self.clearSelection()
        elif self.currentIndex().row() != row or not self.selectionModel().hasSelection():
            self.selectionModel().setCurrentIndex(self.changes.index(row), QItemSelectionModel.SelectionFlag.ClearAndSelect)
            self.scrollTo(self.changes.index(row))

    # Qt events.

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.cursor_place.leave()
        return super().viewportEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() == Qt.MouseButton.LeftButton:
            self.cursor_place.pin(self.place_of(self.indexAt(event.position().toPoint())))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            place = self.place_of(self.currentIndex())
            self.cursor_place.pin(None if place == self.cursor_place.pin_place else place)
        elif event.key() in STEP_KEYS:
            if self.cursor_place.place is not None:  # without a place, the first key highlights the current row
                super().keyPressEvent(event)
            self._pointed_by_key = True
            self.cursor_place.point(self.place_of(self.currentIndex()))
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if self._pointed_by_key:
            self._pointed_by_key = False
            self.cursor_place.leave()
