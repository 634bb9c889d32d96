"""The page of an empty conversation: a title, the demonstration to start with and a few example prompts."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.look import theme as themes
from app.look.theme import Theme
from app.look.widgets import in_column, in_row, named, stretch

DEMONSTRATION = (
    "compare",
    "Rejection against Gumbel in 30 seconds",
    "Four answers to one prompt with one seed, side by side: each rule with two drafters. Which rule keeps its text, and which "
    "one accepts more?",
)
EXAMPLES = (
    ("repeat", "Repeated text", "Write the same arbitrary paragraph three times in a row."),
    ("story", "A story", "Write a short story about a lighthouse keeper who finds a message in a bottle."),
    ("code", "Code", "Write a Python function that checks whether a word is a palindrome."),
    ("menu", "A list of cities", "List ten cities in Europe, each with its country."),
)


class Welcome(QScrollArea):
    """The page of an empty conversation.

    Signals:
        chosen: (prompt) an example was clicked.
        demonstration: the card that compares the rules was clicked.
    """

    chosen = Signal(str)
    demonstration = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("welcome")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        title = self.title = QLabel()
        title.setObjectName("emptyTitle")
        title.setWordWrap(True)
        self.set_raw(False)
        text = named(
            QLabel(
                "A small drafter proposes a few tokens and the target model checks them all at once. "
                "Accepted tokens are tinted; the first rejected one of a round is shown small above the token that replaced it.",
                wordWrap=True,
            ),
            "emptyText",
        )
        self.demonstrate = named(PromptCard(*DEMONSTRATION), label=DEMONSTRATION[1])
        self.demonstrate.clicked.connect(self.demonstration)
        self.cards = [PromptCard(*example) for example in EXAMPLES]
        for card in self.cards:
            card.clicked.connect(self._clicked)
        self.grid = QGridLayout()
        self.grid.setSpacing(10)
        self.body = named(QWidget(), "panelBody")
        column = self.column = QVBoxLayout(self.body)
        column.addStretch(3)
        column.addWidget(title)
        column.addSpacing(4)
        column.addWidget(text)
        column.addSpacing(18)
        column.addWidget(self.demonstrate)
        column.addSpacing(10)
        column.addLayout(self.grid)
        column.addStretch(4)
        self.setWidget(self.body)
        self._columns = 0
        self._arrange(2)

    def set_raw(self, raw: bool) -> None:
        """Sets whether the model continues texts instead of answering messages."""
        self.title.setText("Which text should the model continue?" if raw else "What would you like to ask?")

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for index, card in enumerate(self.cards):
            self.grid.addWidget(card, index // columns, index % columns)
        for column in range(2):
            self.grid.setColumnStretch(column, 1 if column < columns else 0)

    def set_column(self, left: int, width: int, whole: int) -> None:
        """Aligns the text with the transcript's column."""
        self.column.setContentsMargins(left, 16, max(0, whole - left - width), 16)
        self._arrange(2 if width > 480 else 1)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Recolours the drawings of the cards; their text follows the style sheet, so `scale` is not needed."""
        for card in (self.demonstrate, *self.cards):
            card.set_look(theme)

    def _clicked(self) -> None:
        card = self.sender()
        if isinstance(card, PromptCard):
            self.chosen.emit(card.prompt)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for card in (self.demonstrate, *self.cards):
            card.updateGeometry()


class PromptCard(QPushButton):
    """An example prompt in the empty conversation."""

    def __init__(self, drawing: str, title: str, prompt: str) -> None:
        super().__init__()
        named(self, "promptCard", f"Example prompt: {title}", prompt)
        self.prompt = prompt
        self.drawing = drawing
        self.picture = QLabel()
        heading = named(QLabel(title), "cardTitle")
        words = named(QLabel(prompt, wordWrap=True), "cardText")
        for label in (self.picture, heading, words):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.column = in_column(
            in_row(self.picture, (heading, 1), spacing=8), words, stretch(), spacing=5, margins=(14, 12, 14, 12), parent=self
        )
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)

    def sizeHint(self) -> QSize:
        return self.column.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self.column.minimumSize()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self.column.heightForWidth(width)

    def set_look(self, theme: Theme) -> None:
        """Redraws the card's picture in the accent colour."""
        self.picture.setPixmap(themes.pixmap(self.drawing, theme.accent, 18, self.devicePixelRatioF()))
