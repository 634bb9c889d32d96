"""A layout in rows that wrap at the right edge."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QSizePolicy, QWidget


class FlowLayout(QLayout):
    """Rows of widgets that wrap at the right edge; rows are centred vertically on their tallest member."""

    def __init__(self, spacing: int, corner: bool = False, row_gap: int = 8) -> None:
        """Args:
        corner: puts the last widget at the right end of the first row; the rows below take the full width.
        row_gap: pixels between two rows.
        """
        super().__init__()
        self._corner, self._row_gap = corner, row_gap
        self._items: list[QLayoutItem] = []
        self._heights: dict[int, int] = {}  # by width, until something changes: the parent's layout asks repeatedly
        self.setSpacing(spacing)
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        """Returns the number of items, as Qt requires of every layout."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Returns no direction: the layout takes only the height of its rows."""
        return Qt.Orientation(0)  # by default a layout would take all remaining height

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = self._arrange(QRect(0, 0, width, 0), move=False)
        return self._heights[width]

    def invalidate(self) -> None:
        """Clears the cached heights."""
        self._heights.clear()
        super().invalidate()

    def sizeHint(self) -> QSize:
        widths = [item.sizeHint().width() for item in self._items]
        return QSize(
            sum(widths) + self.spacing() * max(0, len(widths) - 1), max((i.sizeHint().height() for i in self._items), default=0)
        )

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def _arrange(self, rect: QRect, move: bool) -> int:
        shown = [item for item in self._items if (widget := item.widget()) is None or not widget.isHidden()]
        corner = shown.pop() if self._corner and shown else None
        row_widths = [rect.width() - (0 if corner is None else corner.sizeHint().width() + self.spacing())]
        rows, used = [list[QLayoutItem]()], 0
        for item in shown:
            width = item.sizeHint().width()
            if rows[-1] and used + self.spacing() + width > row_widths[-1]:
                rows.append([])
                row_widths.append(rect.width())
                used = 0
            used += width + (self.spacing() if rows[-1] else 0)
            rows[-1].append(item)
        y = rect.top()
        for line, row_width in zip(rows, row_widths, strict=True):
            ends = [corner] if corner is not None and line is rows[0] else []
            height = max((item.sizeHint().height() for item in line + ends), default=0)
            x = rect.left()
            for item in line + ends:
                size = item.sizeHint().boundedTo(QSize(rect.width() if item is corner else row_width, height))
                left = rect.right() + 1 - size.width() if item is corner else x
                if move:
                    item.setGeometry(QRect(QPoint(left, y + (height - size.height()) // 2), size))
                x += size.width() + self.spacing()
            y += height + (self._row_gap if height else 0)
        return max(0, y - self._row_gap - rect.top())


def wrapping(spacing: int, *widgets: QWidget, corner: bool = False, expands: bool = False, row_gap: int = 8) -> QWidget:
    """Returns a widget whose children wrap; `expands`: whether it takes all the available width."""
    container = QWidget()
    flow = FlowLayout(spacing, corner=corner, row_gap=row_gap)
    container.setLayout(flow)
    for widget in widgets:
        flow.addWidget(widget)
    policy = QSizePolicy(QSizePolicy.Policy.Expanding if expands else QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
    policy.setHeightForWidth(True)
    container.setSizePolicy(policy)
    return container
