"""The band above the columns: one field per rule, as wide as its columns, with its figures: text, acceptance, speed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QPixmap, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QWidget

from app.compare.findings import RuleFigure, RuleFinding
from app.look import theme as themes
from app.look.theme import DARK, Theme
from app.look.widgets import in_column, in_row, named, stretch, text_label
from app.look.wording import RULE_TITLES

LONGEST = "with another drafter, from token 1,000 on, a near-tie", "same proposals: +10.0 points (95%: 10.0 to 10.0)"
"""The longest captions; their height is reserved from the start, so that nothing below moves."""
SHARES = 5, 5, 4
"""Shares of the width that text, acceptance and speed get."""
DRAWINGS = {"same": "check", "unexpected": "warning", "failed": "warning"}


class FigureField(QWidget):
    """Shows a value, and its caption below it."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.caption = text_label("ruleFigure", wraps=False), text_label("ruleCaption")
        for label in (self.value, self.caption):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.caption.setAlignment(Qt.AlignmentFlag.AlignTop)
        in_column(self.value, (self.caption, 1), spacing=1, parent=self)

    def show_figure(self, figure: RuleFigure) -> None:
        """Shows a figure."""
        self.value.setText(figure.value)
        self.caption.setText(figure.caption)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        metrics, width = self.caption.fontMetrics(), max(1, event.size().width())
        areas = (metrics.boundingRect(0, 0, width, 1000, Qt.TextFlag.TextWordWrap, words) for words in LONGEST)
        self.caption.setMinimumHeight(max(area.height() for area in areas))


class RuleField(QFrame):
    """Shows the figures of one rule."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("ruleField")
        self.mark = QLabel()
        self.name = text_label("ruleName", wraps=False)
        self.figures = [FigureField() for _ in range(3)]
        title = in_column(in_row(self.mark, self.name, spacing=7), stretch())
        in_row(title, *zip(self.figures, SHARES, strict=True), spacing=14, margins=(14, 8, 12, 8), parent=self)

    def show_finding(self, finding: RuleFinding, theme: Theme, scale: float) -> None:
        """Shows the finding for a rule, in its colour."""
        colour = theme.rule(finding.rule)
        named(self, label=f"Result of {RULE_TITLES[finding.rule]}", description=finding_words(finding))
        self.name.setText(RULE_TITLES[finding.rule])
        self.name.setStyleSheet(f"color: {colour};")
        for field, figure in zip(self.figures, finding.figures, strict=True):
            field.show_figure(figure)
        self.setStyleSheet(f"#ruleField {{ border: none; border-top: 3px solid {colour}; }}")
        size = round(16 * scale)
        self.mark.setFixedWidth(size)
        drawing = DRAWINGS.get(finding.kind, "differs")
        waits = finding.kind == "waiting"
        self.mark.setPixmap(QPixmap() if waits else themes.pixmap(drawing, colour, size, self.devicePixelRatioF()))


def finding_words(finding: RuleFinding) -> str:
    """Returns a finding with its figures in sentences, for screen readers."""
    return " ".join((finding.words, *(f"{figure.value}, {figure.caption}." for figure in finding.figures[1:])))


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
            if place < len(self._findings):
                self._row.setStretch(place, len(self._findings[place].columns))
                field.show_finding(self._findings[place], self._theme, self._scale)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the colours of the rules to names, marks and edges."""
        self._theme, self._scale = theme, scale
        self._paint()
