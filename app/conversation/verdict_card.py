"""The verdict card: everything that is recorded of one token. It shows; where it stands and when is its host's business."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.conversation.verdict_parts import AlternativeButton, Look, Rows
from app.look.command import escape_is_wanted
from app.look.theme import DARK, Theme, mono_font
from app.look.widgets import tint
from app.verdict.verdict import Figure, Verdict, probability

WIDTH = 400
GAP = 14


class VerdictCard(QFrame):
    """A card that floats inside its parent.

    Attributes:
        verdict: what it shows, None before the first.

    Signals:
        chosen: (id) an alternative to branch with. closed: the user is done with it.
    """

    chosen = Signal(int)
    closed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("verdictCard")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Verdict")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.verdict: Verdict | None = None
        self._look = Look(DARK, 1.0)
        self._buttons: list[AlternativeButton] = []
        self._build()
        self.hide()

    def _build(self) -> None:
        self.token, self.state, self.where, self.data = (_label(name) for name in ("Token", "State", "Where", "Data"))
        self.close_button = QToolButton()
        self.close_button.setObjectName("iconButton")
        self.close_button.setProperty("drawing", "close")
        self.close_button.setToolTip("Close (Esc)")
        self.close_button.setAccessibleName("Close the verdict")
        self.close_button.clicked.connect(self.closed)
        self.rows, self.expected_rows = Rows(), Rows()
        self.decision, self.residual, self.notes, self.hint = (_label(n, True) for n in ("Decision", "Residual", "Notes", "Hint"))
        self.target_title, self.draft_title, self.expected_title, self.residual_title = (_label("Section") for _ in range(4))
        self.target_title.setText("Target's most likely")
        self.draft_title.setText("Drafter's most likely")
        self.expected_title.setText("Expected acceptance here, before the draft was drawn")
        self.residual_title.setText("Residual: max(p − q, 0), normalised")
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(10)
        self._grid.setVerticalSpacing(0)
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(self.target_title, 0, 0)
        self._grid.addWidget(self.draft_title, 0, 1)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.token)
        head.addWidget(self.state)
        head.addStretch(1)
        head.addWidget(self.close_button)
        self._body = QWidget()
        self._body.setObjectName("verdictBody")
        column = QVBoxLayout(self._body)
        column.setContentsMargins(GAP, 10, GAP, 12)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self.where)
        column.addWidget(self.data)
        column.addSpacing(4)
        column.addWidget(self.rows)
        column.addSpacing(2)
        column.addWidget(self.decision)
        column.addSpacing(4)
        column.addLayout(self._grid)
        for part in (self.residual_title, self.residual, self.expected_title, self.expected_rows, self.notes, self.hint):
            column.addWidget(part)
        self._scroll = QScrollArea()
        self._scroll.setWidget(self._body)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(1, 1, 1, 1)
        whole.addWidget(self._scroll)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Sets fonts and colours, and shows the verdict again if there is one."""
        self._look = Look(theme, scale)
        mono = mono_font(scale, 14)
        mono.setBold(True)
        self.token.setFont(mono)
        self.data.setFont(mono_font(scale, 11))
        self.residual.setFont(mono_font(scale, 12))
        tint(self.close_button, theme, scale)
        if self.verdict is not None:
            self.show_verdict(self.verdict)

    def show_verdict(self, verdict: Verdict, pinned: bool = False, hint: str = "", can_branch: bool = False) -> None:
        """Fills the card.

        Args:
            pinned: it can be clicked; otherwise the mouse goes through it to the text.
            hint: a last line on what can be done.
            can_branch: whether alternatives can be chosen.
        """
        look = self._look
        self.verdict = verdict
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents, not pinned)
        self.close_button.setVisible(pinned)
        room = look.px(WIDTH - 2 * GAP - 150)
        shown = QFontMetricsF(self.token.font()).elidedText(verdict.token, Qt.TextElideMode.ElideMiddle, room)
        self.token.setText(shown)
        self.state.setText(verdict.state)
        theme = look.theme
        colours = {"rejected": theme.rejected, "correction": theme.correction, "bonus": theme.bonus, "accepted": theme.accent}
        self.state.setStyleSheet(f"color: {colours.get(verdict.kind, theme.dim)}; font-weight: 600;")
        self.where.setText(verdict.where.capitalize())
        data = f"id {verdict.id}   bytes {verdict.data or '–'}"
        wide = look.px(WIDTH - 2 * GAP) - 4
        self.data.setText(QFontMetricsF(self.data.font()).elidedText(data, Qt.TextElideMode.ElideRight, wide))
        self.rows.show_figures(verdict.figures, look)
        self.decision.setText(verdict.decision)
        self._show_alternatives(verdict, can_branch)
        entries = (f"“{left.token}” {left.words}".replace(" ", "\N{NO-BREAK SPACE}") for left in verdict.residual)
        self.residual.setText("   ".join(entries))  # lines break between tokens only
        expected = tuple(Figure(rule, probability(value), share=value) for rule, value in verdict.expected)
        self.expected_rows.show_figures(expected, look)
        self.notes.setText("\n".join(verdict.unknown))
        self.hint.setText(hint)
        optional: tuple[tuple[QLabel, bool], ...] = (
            (self.residual_title, bool(verdict.residual)),
            (self.residual, bool(verdict.residual)),
            (self.expected_title, bool(expected)),
            (self.notes, bool(verdict.unknown)),
            (self.hint, bool(hint)),
        )
        for part, shows in optional:
            part.setVisible(shows)
        self.setAccessibleDescription(verdict.text())
        self._fit()

    def _show_alternatives(self, verdict: Verdict, can_branch: bool) -> None:
        for button in self._buttons:
            button.hide()
        used = 0
        for column, (title, side, entries) in enumerate(
            ((self.target_title, "target", verdict.target), (self.draft_title, "draft", verdict.draft))
        ):
            title.setVisible(bool(entries))
            for row, entry in enumerate(entries, start=1):
                if used == len(self._buttons):
                    button = AlternativeButton()
                    button.clicked.connect(self._choose)
                    self._buttons.append(button)
                button = self._buttons[used]
                used += 1
                self._grid.addWidget(button, row, column)
                button.show_alternative(entry, "draft" if side == "draft" else "target", self._look)
                button.allow(can_branch)
                button.show()

    @property
    def alternatives(self) -> list[AlternativeButton]:
        """The alternatives that show, those of the target first."""
        return [button for button in self._buttons if not button.isHidden()]

    def _choose(self) -> None:
        button = self.sender()
        if isinstance(button, AlternativeButton) and button.alternative is not None:
            self.chosen.emit(button.alternative.id)

    def _fit(self) -> None:
        """As wide as it always is, and as tall as its words, unless the window is lower than that."""
        parent = self.parentWidget()
        width = self._look.px(WIDTH)
        if parent is not None:
            width = min(width, parent.width() - 16)
        layout = self._body.layout()
        assert layout is not None
        layout.invalidate()
        layout.activate()
        height = layout.totalHeightForWidth(width - 2) + 2
        room = height if parent is None else parent.height() - 16
        policies = Qt.ScrollBarPolicy
        self._scroll.setVerticalScrollBarPolicy(policies.ScrollBarAsNeeded if height > room else policies.ScrollBarAlwaysOff)
        self.resize(width, min(height, room))

    def focus_first(self) -> None:
        """Puts the keyboard on the first alternative that can be chosen, or on the card itself."""
        first = next((button for button in self.alternatives if button.isEnabled()), None)
        (first or self).setFocus(Qt.FocusReason.OtherFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows and Page keys scroll a card that is taller than its window, also where it has no alternatives."""
        bar, key = self._scroll.verticalScrollBar(), Qt.Key(event.key())
        by = {Qt.Key.Key_Up: -bar.singleStep(), Qt.Key.Key_Down: bar.singleStep()}
        by |= {Qt.Key.Key_PageUp: -bar.pageStep(), Qt.Key.Key_PageDown: bar.pageStep()}
        if key in by:
            bar.setValue(bar.value() + by[key])
        elif key == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Escape closes the card before it stops the answer."""
        return escape_is_wanted(event, lambda: True) or super().event(event)


def _label(name: str, wraps: bool = False) -> QLabel:
    label = QLabel()
    label.setObjectName(f"verdict{name}")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wraps)
    label.setIndent(0)
    return label
