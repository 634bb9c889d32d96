"""The band above the columns: one field per rule, as wide as its columns, with the finding about them."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QWidget

from app.compare.findings import RuleFinding
from app.look import theme as themes
from app.look.theme import DARK, Theme
from app.look.widgets import in_row, text_label

LONGEST = "Rejection: the texts of C and D diverge at token 1,000. The text depends on the drafter."
"""A typical finding at its longest; its height is reserved from the start, so that nothing below moves."""
DRAWINGS = {"same": "check", "unexpected": "warning", "failed": "warning"}


class RuleField(QFrame):
    """Shows the finding for one rule."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("ruleField")
        self.mark = QLabel()
        self.words = text_label("ruleFinding")
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        in_row(self.mark, (self.words, 1), spacing=8, margins=(14, 8, 12, 8), parent=self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        area = self.words.fontMetrics().boundingRect(0, 0, max(1, self.words.width()), 1000, Qt.TextFlag.TextWordWrap, LONGEST)
        self.words.setMinimumHeight(area.height())


class RuleBand(QWidget):
    """Shows the findings of `finding.rule_findings`; hidden if there are none."""

    def __init__(self, most: int) -> None:
        """Args:
        most: maximum number of rules.
        """
        super().__init__()
        self.setObjectName("ruleBand")
        self._findings: tuple[RuleFinding, ...] = ()
        self._theme: Theme = DARK
        self._scale = 1.0
        self.fields = [RuleField() for _ in range(most)]
        self._row = in_row(*self.fields, parent=self)
        self.hide()

    def show_findings(self, findings: Sequence[RuleFinding]) -> None:
        """Shows one field per finding, above its columns."""
        if tuple(findings) == self._findings:
            return
        self._findings = tuple(findings)
        self._paint()

    def _paint(self) -> None:
        self.setVisible(bool(self._findings))
        for place, field in enumerate(self.fields):
            field.setVisible(place < len(self._findings))
            if place >= len(self._findings):
                continue
            finding = self._findings[place]
            colour = self._theme.rule(finding.rule)
            self._row.setStretch(place, len(finding.columns))
            field.words.setText(finding.words)
            field.setStyleSheet(f"#ruleField {{ border: none; border-top: 3px solid {colour}; }}")
            drawing = DRAWINGS.get(finding.kind, "differs")
            field.mark.setPixmap(themes.pixmap(drawing, colour, round(16 * self._scale), self.devicePixelRatioF()))
            field.mark.setVisible(finding.kind != "waiting")

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the colours of the rules to marks and edges."""
        self._theme, self._scale = theme, scale
        self._paint()
