"""The popover that explains a figure: its formula, the numbers of this answer, and their meaning."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from app.look.theme import Theme, mono_font
from app.look.widgets import in_column, named, push_button, text_label
from app.panel.definitions import Definition

WIDTH = 380


class DefinitionPopover(QFrame):
    """Floats beside the widget that opened it; Escape or a click elsewhere closes it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint | Qt.WindowType.NoDropShadowWindowHint)
        named(self, "popover", "Definition")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._scale = 1.0
        self._run: Callable[[], object] | None = None
        self.title, self.formula, self.here, self.words = (
            text_label(f"definition{name}") for name in ("Title", "Formula", "Here", "Words")
        )
        self.action = push_button("", "quietButton")
        self.action.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.action.clicked.connect(self._act)
        in_column(self.title, self.formula, self.here, self.words, self.action, spacing=8, margins=(18, 14, 18, 16), parent=self)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the fixed-width font to formula and figures at the text scale; colours come from the style sheet."""
        self._scale = scale
        for label in (self.formula, self.here):
            label.setFont(mono_font(scale, 12))

    def show_definition(
        self, definition: Definition, beside: QPoint, action: tuple[str, Callable[[], object]] | None = None
    ) -> None:
        """Opens with the upper left corner at a screen position, moved if needed to fit the screen.

        Args:
            action: (title, function) of a button below the words.
        """
        self.title.setText(definition.title)
        self.formula.setText(definition.formula)
        self.formula.setHidden(not definition.formula)
        self.here.setText("\n".join(definition.here))
        self.here.setHidden(not definition.here)
        self.words.setText(definition.words)
        self.setAccessibleDescription(" ".join(filter(None, (definition.formula, *definition.here, definition.words))))
        self._run = None if action is None else action[1]
        self.action.setHidden(action is None)
        if action is not None:
            self.action.setText(action[0])
        self._place(beside)
        self.show()
        (self.action if action is not None else self).setFocus(Qt.FocusReason.PopupFocusReason)

    def _place(self, beside: QPoint) -> None:
        self.ensurePolished()
        width = round(WIDTH * self._scale)
        layout = self.layout()
        assert layout is not None
        layout.invalidate()  # the layout has cached the size for other words
        self.resize(width, layout.totalHeightForWidth(width))
        parent = self.parentWidget()
        screen = (parent.screen() if parent is not None else self.screen()).availableGeometry()
        left = max(screen.left() + 8, min(beside.x(), screen.right() - width - 8))
        self.move(left, max(screen.top() + 8, min(beside.y(), screen.bottom() - self.height() - 8)))

    def _act(self) -> None:
        run = self._run
        self.close()
        if run is not None:
            run()
