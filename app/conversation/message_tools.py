"""The tools of the messages in view: arrows between siblings, and a button that opens the menu of a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QLabel, QMenu, QToolButton, QWidget

from app.conversation.answer_view import AnswerView
from app.conversation.blocks import AnswerBlock, Block, UserBlock
from app.conversation.floating_buttons import FloatingButtons, WidgetPool
from app.look.theme import Theme
from app.look.widgets import icon_button, in_row, named, tint
from app.session.session import Turn

MessageAction = Literal["copy", "edit", "regenerate", "continue", "replay", "compare", "new chat", "delete"]
Message = tuple[int, bool]
"""Index of a turn, and whether its prompt is meant rather than its answer."""
TITLES: dict[MessageAction, tuple[str, str]] = {
    "copy": ("Copy prompt", "Copy answer"),
    "edit": ("Edit prompt", "Edit answer…"),
    "regenerate": ("", "Regenerate"),
    "continue": ("", "Continue answer"),
    "replay": ("", "Replay"),
    "compare": ("", "Compare with other settings"),
    "new chat": ("", "Branch into a new chat"),
    "delete": ("Delete prompt and what follows", "Delete answer and what follows"),
}
"""Menu titles of the actions on a prompt and on an answer; empty where an action does not apply."""


class SiblingSwitch(QWidget):
    """Shows "1/2" between two arrows.

    Signals:
        stepped: (turn, -1 or 1, whether prompts) the user wants the previous or the next answer or prompt.
    """

    stepped = Signal(int, int, bool)

    def __init__(self, parent: QWidget, prompts: bool) -> None:
        super().__init__(parent)
        self.turn, self.prompts = 0, prompts
        named(self, "siblingSwitch", "Wordings of this prompt" if prompts else "Answers to this prompt")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.back = self._arrow("Previous wording of this prompt" if prompts else "Previous answer to this prompt", "left", -1)
        self.forth = self._arrow("Next wording of this prompt" if prompts else "Next answer to this prompt", "right", 1)
        self.words = named(QLabel(), "siblingWords")
        in_row(self.back, self.words, self.forth, parent=self)
        self.hide()

    def _arrow(self, words: str, icon: str, by: int) -> QToolButton:
        button = icon_button(icon, words, partial(self._step, by))
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _step(self, by: int) -> None:
        self.stepped.emit(self.turn, by, self.prompts)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Redraws both arrows in the theme's colours at the text scale."""
        tint(self.back, theme, scale)
        tint(self.forth, theme, scale)

    def show_place(self, turn: int, index: int, many: int, running: bool) -> None:
        """Shows the message at `index` of `many` siblings in a turn; hides itself if there is only one."""
        self.turn = turn
        self.setAccessibleDescription(f"{index + 1} of {many}")
        self.words.setText(f"{index + 1}/{many}")
        self.back.setEnabled(index > 0 and not running)
        self.forth.setEnabled(index + 1 < many and not running)
        self.setVisible(many > 1)
        self.adjustSize()


class MessageTools(QObject):
    """The arrows and buttons of all messages in view.

    Signals:
        stepped: (turn, -1 or 1, whether prompts) the user wants another sibling.
        wanted: (action, turn, whether its prompt) the user chose an action of a message.
    """

    stepped = Signal(int, int, bool)
    wanted = Signal(str, int, bool)

    def __init__(self, view: AnswerView, make: Callable[[], QToolButton], parent: QObject) -> None:
        """Args:
        make: creates a hidden button with three dots.
        """
        super().__init__(parent)
        self._view = view
        self._look: tuple[Theme, float] | None = None
        self._measured = self._switch(prompts=False)
        self.answer_switches = WidgetPool[SiblingSwitch, tuple[int, AnswerBlock, float]](partial(self._switch, prompts=False))
        self.prompt_switches = WidgetPool[SiblingSwitch, tuple[int, UserBlock, float]](partial(self._switch, prompts=True))
        self.more = FloatingButtons[QToolButton, Message](make, self.open_menu)

    def _switch(self, prompts: bool) -> SiblingSwitch:
        switch = SiblingSwitch(self._view.viewport(), prompts)
        switch.stepped.connect(self.stepped)
        if self._look is not None:
            switch.set_look(*self._look)
        return switch

    def set_look(self, theme: Theme, scale: float) -> None:
        """Redraws everything in the theme's colours at the text scale."""
        self._look = (theme, scale)
        for switch in (self._measured, *self.answer_switches.widgets, *self.prompt_switches.widgets):
            switch.set_look(theme, scale)
        for button in self.more.widgets:
            tint(button, theme, scale)

    def reserve_room(self, blocks: Sequence[Block]) -> None:
        """Reserves room for the arrows of messages with siblings. Takes all blocks of the conversation, in order."""
        turns = self._view.session.turns
        if len(blocks) != 2 * len(turns):
            return  # the blocks still belong to the previous conversation
        for index, block in enumerate(blocks):
            turn = turns[index // 2]
            if isinstance(block, UserBlock):
                block.reserve(float(self._measured.sizeHint().height()) if turn.version[1] > 1 else 0.0)
            elif isinstance(block, AnswerBlock) and block.answer is turn.answer and turn.siblings:
                block.reserve(self._width(len(turn.siblings)) + 8.0)

    def _width(self, many: int) -> int:
        """Returns the width of a switch between `many` siblings, in pixels."""
        metrics = self._measured.words.fontMetrics()
        words = metrics.horizontalAdvance(f"{many}/{many}") - metrics.horizontalAdvance(self._measured.words.text())
        return self._measured.sizeHint().width() + words

    def place(self, in_view: Sequence[tuple[int, Block, float]], size: int) -> None:
        """Places the tools of the messages in view, which are given as (index, block, y of its top in the viewport)."""
        session, column = self._view.session, self._view.column
        running = session.running is not None or session.replaying
        turns = session.turns
        in_view = [placed for placed in in_view if placed[0] // 2 < len(turns)]
        answers = [(index // 2, block, top) for index, block, top in in_view if isinstance(block, AnswerBlock)]
        prompts = [(index // 2, block, top) for index, block, top in in_view if isinstance(block, UserBlock)]
        if any(block.answer is not turns[at].answer for at, block, _ in answers):
            answers, prompts = [], []  # another conversation, which is not laid out yet
        last = len(turns) - 1
        with_siblings = [placed for placed in reversed(answers) if turns[placed[0]].siblings]  # the newest keeps its widget
        for switch, (at, answer, top) in self.answer_switches.show_for(with_siblings):
            switch.show_place(at, turns[at].shown, len(turns[at].answers), running)
            switch.move(column.right() - switch.width() + 8, round(top + answer.line / 2 - 3 - switch.height() / 2))
        with_versions = [placed for placed in prompts if turns[placed[0]].version[1] > 1]
        for switch, (at, prompt, top) in self.prompt_switches.show_for(with_versions):
            switch.show_place(at, *turns[at].version, running)
            switch.move(column.right() - switch.width() + 4, round(top + prompt.bubble.bottom() + 1))
        messages: list[tuple[Message, int, int]] = []
        for at, answer, top in answers:
            if not answer.answer.running and not session.replaying:
                x = column.right() - (4 * size + 12 if at == last else size)
                messages.append(((at, False), x, round(top + answer.footer_top - 5)))
        for at, prompt, top in prompts:
            if not running and prompt.prompt:
                x = column.left() + round(prompt.bubble.left()) - size - 4
                middle = top + prompt.bubble.top() + min(prompt.bubble.height(), 2 * size) / 2
                messages.append(((at, True), max(0, x), round(middle - size / 2)))
        for (button, message), (_, x, y) in zip(
            self.more.show_for([message for message, _, _ in messages]), messages, strict=True
        ):
            words = "More about this prompt" if message[1] else "More about this answer"
            if button.accessibleName() != words:
                button.setAccessibleName(words)
                button.setToolTip(words)
            button.setGeometry(x, y, size, size)

    def open_menu(self, message: Message) -> None:
        """Opens the menu of a message below its button."""
        button = self._button_of(message)
        menu = QMenu(self._view.viewport())
        self.fill(menu, message)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()) if button is not None else QCursor.pos())

    def _button_of(self, message: Message) -> QToolButton | None:
        return next((button for button, other in self.more.shown if other == message), None)

    def fill(self, menu: QMenu, message: Message) -> None:
        """Adds the actions on a message to a menu."""
        at, prompt = message
        turn, session = self._view.session.turns[at], self._view.session
        idle = session.idle
        for wish, titles in TITLES.items():
            title = titles[0 if prompt else 1]
            if not title or (wish == "continue" and session.why_not_continue(at)):
                continue
            if wish == "delete":
                menu.addSeparator()
            action = menu.addAction(title, partial(self.wanted.emit, wish, at, prompt))
            reads = session.read_only and wish in ("replay", "compare", "new chat")
            action.setEnabled(_can(wish, turn, prompt) and (idle or reads or wish == "copy"))


def _can(wish: MessageAction, turn: Turn, prompt: bool) -> bool:
    """Returns whether a message has the data that an action needs."""
    if prompt:
        return True
    match wish:
        case "regenerate" | "compare":
            return bool(turn.prompt)
        case "replay":
            return turn.answer.trace_path is not None and not turn.answer.running
        case "edit" | "copy":
            return not turn.answer.missing
    return True
