"""The line that says what stands in each column where the texts first part."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton

from app.compare.comparison import LETTERS, Comparison
from engine.lens.pieces import visible


class PartingLine(QFrame):
    """What stands in each column where the texts first part."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("partingLine")
        self.words = QLabel()
        self.words.setObjectName("partingWords")
        self.words.setAccessibleName("First difference")
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.RichText)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.go = QPushButton("Go to the difference")
        self.go.setObjectName("quietButton")
        self.go.setAccessibleName("Show the first difference in every column")
        self.go.setToolTip("Show the first difference in every column (F7)")
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 6, 12, 6)
        row.addWidget(self.words, 1)
        row.addWidget(self.go)
        self.hide()

    def show_words(self, headline: str = "", words: str = "") -> None:
        """A sentence that stands out, and more; hidden while there is nothing to say."""
        whole = " ".join(filter(None, (headline, words)))
        if whole != self.words.accessibleDescription():
            self.words.setText(
                f'<span style="font-weight:600">{escape(headline)}</span> {escape(words)}' if headline else escape(words)
            )
            self.words.setAccessibleDescription(whole)
        self.setVisible(bool(whole))


def parting_words(comparison: Comparison) -> str:
    """The first position at which any two columns differ: each one's token with margin and border. Empty while there
    is none."""
    position = comparison.divergence
    if position is None:
        return ""
    parts = []
    for letter, run in zip(LETTERS, comparison.columns, strict=False):
        if position >= len(run.tokens):
            parts.append(f"{letter} has ended" if run.answer.finish is not None else f"{letter} has not reached it yet")
            continue
        token = run.tokens[position]
        shown = visible(token.text, token.bytes, running=True)
        known = [f"{name} {gap:.3g}" for name, gap in (("margin", token.margin), ("border", token.border)) if gap is not None]
        parts.append(f"{letter} “{shown}” ({', '.join(known) or 'margin not recorded'})")
    return f"First difference at token {position + 1:,}:  {',  '.join(parts)}."
