"""The line above the columns: each one's token where the texts first diverge, or the result of a comparison of rules."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel

from app.compare.comparison import LETTERS, Comparison
from app.compare.findings import agreement_words, conclusion, contrary_words, rule_findings, tree_finding
from app.look.command import native_keys
from app.look.widgets import named, push_button
from engine.lens.pieces import visible
from engine.rounds import near_ties

LONGEST_HEADLINE = "Gumbel kept the text when the drafter changed; Rejection did not."
"""A headline of about the greatest length; its height is reserved beside the words."""


class DifferenceLine(QFrame):
    """Shows each column's token where the texts first diverge, or the final result. While content may follow, its space is
    reserved, so that nothing below moves."""

    def __init__(self) -> None:
        super().__init__()
        self._least = ""
        self.setObjectName("partingLine")
        self.words = named(
            QLabel(
                wordWrap=True,
                textFormat=Qt.TextFormat.RichText,
                textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse,
            ),
            "partingWords",
            "First difference",
        )
        self.go = named(
            push_button("Go to the difference", "quietButton"),
            label="Show the first difference in every column",
            tip=f"Show the first difference in every column ({native_keys('F7')})",
        )
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 6, 12, 6)
        row.addWidget(self.words, 1)
        row.addWidget(self.go)
        self.hide()

    def show_words(self, headline: str = "", words: str = "", until: str = "", least: str = "", parted: bool = True) -> None:
        """Shows an emphasised sentence, and more text.

        Args:
            until: placeholder while there is no text; without it the line is hidden.
            least: text whose height is always reserved.
            parted: whether there is a difference to go to.
        """
        self.go.setVisible(parted and bool(headline or words))
        words, self._least = words or ("" if headline else until), least
        whole = " ".join(filter(None, (headline, words)))
        if whole != self.words.accessibleDescription():
            self.words.setText(
                f'<span style="font-weight:600">{escape(headline)}</span> {escape(words)}' if headline else escape(words)
            )
            self.words.setAccessibleDescription(whole)
        self.setVisible(bool(whole))
        self._keep_room()

    def _keep_room(self) -> None:
        """Measures the text at its width beside the button, even while that is hidden."""
        layout = self.layout()
        assert layout is not None
        margins = layout.contentsMargins()
        width = self.width() - margins.left() - margins.right() - layout.spacing() - self.go.sizeHint().width()
        flags = Qt.TextFlag.TextWordWrap
        metrics = self.words.fontMetrics()
        lines = metrics.boundingRect(0, 0, max(1, width), 1000, flags, self._least).height() if self._least else 0
        self.words.setMinimumHeight(max(lines, self.go.sizeHint().height()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._keep_room()


def difference_words(comparison: Comparison) -> str:
    """Returns the first position at which any two columns differ, with each one's token, margin and border. Empty if there is
    none."""
    position = comparison.divergence
    if position is None:
        return ""
    parts = []
    for letter, run in zip(LETTERS, comparison.columns, strict=False):
        if position >= len(run.tokens):
            parts.append(f"{letter} has ended" if run.answer.finish is not None else f"{letter} has not reached it yet")
            continue
        token = run.tokens[position]
        shown = visible(token.text, token.bytes, within_text=True)
        known = [] if token.margin is None else [f"margin {near_ties.words(token.margin, run.answer.options.temperature, 3)}"]
        known += [] if token.border is None else [f"border {token.border:.3g}"]
        parts.append(f"{letter} “{shown}”" + (f" ({', '.join(known)})" if known else ""))
    return f"First difference at token {position + 1:,}:  {',  '.join(parts)}."


def result_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Returns the findings of a comparison for exports, a sentence or two each."""
    findings = rule_findings(comparison)
    if findings:
        sentences = (*(finding.words for finding in findings), *conclusion(comparison), contrary_words(comparison))
        return tuple(filter(None, sentences))
    relations = (comparison.relation(index) for index in range(len(comparison.columns)))
    parted = difference_words(comparison)
    whys = dict.fromkeys(relation.words for relation in relations if parted and relation is not None and relation.words)
    return tuple(filter(None, (*tree_finding(comparison), parted or agreement_words(comparison), *whys)))
