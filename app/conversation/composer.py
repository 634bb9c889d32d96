"""The message field with its buttons, the chips of attached files and of active settings, and the display of the context use.

Long pasted texts are attached like a file; a preview shows them and can put them into the message instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QMimeData, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QPlainTextEdit, QPushButton, QSizePolicy, QWidget

from app.look import theme as themes
from app.look.command import native_keys
from app.look.flow_layout import wrapping
from app.look.placing import limit_to_screen
from app.look.theme import DARK, Theme
from app.look.widgets import (
    ElidedLabel,
    FocusFrame,
    TransientDialog,
    icon_button,
    in_column,
    in_row,
    local_files,
    named,
    plain_tip,
    push_button,
    restyle,
    scrolling,
    stretch,
    tint,
)
from app.look.wording import DEFINITIONS
from app.session.active_settings import ActiveSetting
from app.session.attachments import Attachment, is_attachable, joined, taken_apart
from engine.values.wording import amount

MAX_LINES = 9
"""Most lines of the field."""
LONGEST_PASTED, MOST_PASTED_LINES = 4000, 60
"""Limits (in letters and lines) above which a pasted text becomes an attachment; in the field, it would hide the conversation."""
PREVIEW_SIZE = QSize(680, 520)
LONGEST_NAME = 28
"""Letters of a file's name on its chip."""
SHARE = 0.5
"""Largest share of the height below the header that the composer takes for a long message."""
CHIPS_SHARE = 0.2
"""Largest share of that height for the attached files."""


class PromptEdit(QPlainTextEdit):
    """Grows with its text up to `most_lines` lines.

    Signals:
        submitted: Enter was pressed. recalled: Up was pressed in an empty field.
        files_given: (paths) files were pasted that can be attached. text_given: (text) a long text was pasted.
        undone: Undo was pressed, and the last change was an attachment (see `may_undo`).

    Attributes:
        folds: whether a long pasted text is emitted as a signal rather than inserted.
        may_undo: returns whether the last change was an attachment, so that Undo is emitted as a signal.
    """

    submitted = Signal()
    recalled = Signal()
    files_given = Signal(list)
    text_given = Signal(str)
    undone = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.most_lines = MAX_LINES
        self.folds = True
        self.may_undo: Callable[[], bool] = lambda: False
        named(self, "composer", "Message", "Enter sends, Shift+Enter starts a new line, Escape stops the answer.")
        self.setPlaceholderText("Ask something")
        self.setTabChangesFocus(True)
        self.setFrameShape(QPlainTextEdit.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(self.fit)

    def fit(self) -> None:
        """Fits the height to the lines of the text."""
        lines = min(self.most_lines, max(1, round(self.document().size().height())))
        self.setFixedHeight(self.fontMetrics().lineSpacing() * lines + 8)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
        elif event.key() == Qt.Key.Key_Up and not self.toPlainText():
            self.recalled.emit()
        elif event.matches(QKeySequence.StandardKey.Undo) and self.may_undo():
            self.undone.emit()
        else:
            super().keyPressEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Inserts pasted text unless it is long; long texts and files are emitted as signals instead."""
        if paths := dropped_files(source):
            self.files_given.emit(paths)
        elif self.folds and source.hasText() and is_long(source.text()):
            self.text_given.emit(source.text())
        else:
            super().insertFromMimeData(source)


def dropped_files(data: QMimeData) -> list[Path]:
    """Returns the dragged or pasted files if all of them can be attached; empty otherwise."""
    paths = local_files(data)
    return paths if len(paths) == len(data.urls()) and all(map(is_attachable, paths)) else []


def is_long(text: str) -> bool:
    """Returns whether a pasted text is attached instead of inserted into the field."""
    return bool(text.strip()) and (len(text) > LONGEST_PASTED or text.count("\n") >= MOST_PASTED_LINES)


def pasted(text: str, taken: Collection[str]) -> Attachment:
    """Returns a pasted text as an attachment, with a name that is not in `taken`."""
    number, name = 1, "Pasted text.txt"
    while name in taken:
        number += 1
        name = f"Pasted text {number}.txt"
    return Attachment(name, text.replace("\r\n", "\n").replace("\r", "\n"))


class AttachmentPreview(TransientDialog):
    """A dialog with the whole text of an attachment.

    Signals:
        unfolded: the user wants the text in the message field instead.
    """

    unfolded = Signal()

    def __init__(self, attachment: Attachment, scale: float, parent: QWidget) -> None:
        super().__init__(parent, "attachmentPreview", attachment.name)
        self.words = named(QPlainTextEdit(attachment.text, readOnly=True), "attachmentText", attachment.name)
        self.words.setFont(themes.mono_font(scale))
        self.words.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.unfold = push_button("Put it in as text", "quietButton", self._unfold)
        close = push_button("Close", "quietButton", self.reject)
        in_column(
            (self.words, 1), in_row(self.unfold, stretch(), close, spacing=8), spacing=10, margins=(14, 14, 14, 12), parent=self
        )
        self.resize(limit_to_screen(parent, PREVIEW_SIZE))
        self.words.setFocus(Qt.FocusReason.OtherFocusReason)

    def _unfold(self) -> None:
        self.accept()
        self.unfolded.emit()


class Chip(QFrame):
    """The chip of an attached file: its name, which opens a preview, the number of its tokens, and a button that removes it."""

    def __init__(self, attachment: Attachment) -> None:
        super().__init__()
        self.setObjectName("attachmentChip")
        self.attachment = attachment
        self.words = named(QPushButton(), "chipName", f"Preview of {attachment.name}")
        self.remove = named(icon_button("close", plain_tip(f"Remove {attachment.name}")), label=f"Remove {attachment.name}")
        in_row(self.words, self.remove, spacing=2, margins=(10, 0, 2, 0), parent=self)
        self.show_tokens(None)

    def show_tokens(self, tokens: int | None) -> None:
        """Shows the number of tokens of the file, once it is known."""
        name = self.attachment.name
        short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 :]}"
        words = "" if tokens is None else f"  {amount(tokens, 'token')}"
        self.words.setText((short + words).replace("&", "&&"))
        changed = " Its line endings were changed to those of Unix." if self.attachment.normalised else ""
        self.setToolTip(plain_tip(f"{name}, {amount(self.attachment.lines, 'line')}.{changed}"))
        self.setAccessibleName(f"Attached file: {name}{words}")


class ActiveChip(QFrame):
    """The chip of an active setting, such as the system prompt: one button opens its editor, the other one removes it."""

    def __init__(self, active: ActiveSetting, opened: Callable[[], object], removed: Callable[[], object]) -> None:
        super().__init__()
        self.setObjectName("activeChip")
        self.active = active
        self.open = push_button(active.label.replace("&", "&&"), "activeOpen", lambda: opened())
        self.open.setAutoDefault(False)
        named(self.open, label=active.name, description=f"{active.tip} Opens where it is changed.")
        self.open.setToolTip(plain_tip(active.tip))
        self.remove = named(
            icon_button("close", plain_tip(active.removal), lambda: removed()), label=active.removal, description=active.removal
        )
        for button in (self.open, self.remove):
            button.setCursor(Qt.CursorShape.ArrowCursor)
        in_row(self.open, self.remove, spacing=0, margins=(1, 0, 1, 0), parent=self)


class Composer(QWidget):
    """The field, its attachments, the hint, and the buttons that send and stop.

    Signals:
        sent: (text) the user wants an answer. stopped: Stop. recalled: the user wants the last prompt back.
        files_wanted: the user wants to choose files. attached: (Attachment) a file was attached and its tokens are to be counted.
        changed: the text or the attachments changed.
        active_opened, active_removed: (kind) the user opens or removes an active setting.
    """

    sent = Signal(str)
    stopped = Signal()
    recalled = Signal()
    files_wanted = Signal()
    attached = Signal(object)
    changed = Signal()
    active_opened = Signal(str)
    active_removed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._running = False
        self._raw = False
        self._room = 1000
        self._theme: Theme = DARK
        self._scale = 1.0
        self.frame = named(FocusFrame(), "composerFrame")
        self.edit = PromptEdit()
        self.frame.watch(self.edit)
        self.frame.setCursor(Qt.CursorShape.IBeamCursor)
        self.active_chips: list[ActiveChip] = []
        self._active = named(wrapping(6), label="In force in this chat")
        self.chips: list[Chip] = []
        # Changes to undo: the attachment, the text of the field, and whether it was attached rather than put in as text.
        self._folded: list[tuple[Attachment, str, bool]] = []
        self._chips = wrapping(6)
        self.clip = named(
            icon_button(
                "attach", f"Attach text or code files ({native_keys('Ctrl+Shift+A')}), or drop them here", self.files_wanted.emit
            ),
            label="Attach files",
        )
        self.clip.setCursor(Qt.CursorShape.ArrowCursor)
        self.edit_note = named(QLabel(), "editNote")
        self.hint = named(ElidedLabel(), "composerHint")
        self.hint.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.context = named(QLabel(), "contextUse", "Context use")
        self.send = self._button("sendButton", "Send", "Send the message (Enter)")
        self.stop = self._button("stopButton", "Stop", "Stop the answer (Esc)")
        self.send.clicked.connect(self.submit)
        self.stop.clicked.connect(self.stopped)
        self.edit.submitted.connect(self.submit)
        self.edit.recalled.connect(self.recalled)
        self.edit.text_given.connect(self._fold)
        self.edit.undone.connect(self._undo)
        self.edit.may_undo = lambda: bool(self._folded) and self._folded[-1][1] == self.edit.toPlainText()
        self.edit.textChanged.connect(self._refresh)
        self.chip_area = scrolling(self._chips)  # for many files in a low window
        self.chip_area.setAccessibleName("Attached files")
        self._chips.setObjectName("panelBody")
        in_column(
            self.edit_note,
            self._active,
            self.chip_area,
            self.edit,
            in_row(self.clip, (self.hint, 1), self.context, self.send, self.stop, spacing=12),
            spacing=8,
            margins=(14, 10, 10, 9),
            parent=self.frame,
        )
        self.margins = in_row(self.frame, margins=(44, 6, 44, 16), parent=self)
        self.chip_area.hide()
        self._active.hide()
        self.set_running(False)
        self.set_editing("")

    def _button(self, name: str, title: str, words: str) -> QPushButton:
        button = named(push_button(title, name), label=title, description=words, tip=words)
        button.setCursor(Qt.CursorShape.ArrowCursor)
        return button

    @property
    def text(self) -> str:
        """The prompt so far: the typed text, including blanks at its ends, and the attachments."""
        return joined(self.edit.toPlainText(), (chip.attachment for chip in self.chips))

    def set_text(self, text: str) -> None:
        """Puts another prompt in the field, with the text cursor at its end and the keyboard on it."""
        self.show_text(text)
        self.edit.setFocus()

    def show_text(self, text: str) -> None:
        """Replaces the prompt without moving the keyboard focus."""
        typed, attachments = taken_apart(text)
        self._folded.clear()
        for chip in [*self.chips]:
            self._take_out(chip)
        self.edit.setPlainText(typed)
        self.attach(attachments)
        self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)

    def attach(self, attachments: Sequence[Attachment]) -> None:
        """Adds files that go with the message; one that is there already is not added again."""
        for attachment in attachments:
            if any(chip.attachment == attachment for chip in self.chips):
                continue
            chip = Chip(attachment)
            chip.remove.clicked.connect(partial(self._remove, chip))
            chip.words.clicked.connect(partial(self._preview, chip))
            chip.setCursor(Qt.CursorShape.ArrowCursor)
            tint(chip.remove, self._theme, self._scale)
            self.chips.append(chip)
            layout = self._chips.layout()
            assert layout is not None
            layout.addWidget(chip)
            self.attached.emit(attachment)
        self._show_chips()

    def show_active(self, active: Sequence[ActiveSetting]) -> None:
        """Shows a chip for each active setting of the chat."""
        if list(active) == [chip.active for chip in self.active_chips]:
            return
        focused = QApplication.focusWidget()
        had_focus = focused is not None and any(chip.isAncestorOf(focused) for chip in self.active_chips)
        layout = self._active.layout()
        assert layout is not None
        for chip in self.active_chips:
            _delete(chip)
        self.active_chips = [
            ActiveChip(each, partial(self.active_opened.emit, each.kind), partial(self.active_removed.emit, each.kind))
            for each in active
        ]
        for chip in self.active_chips:
            layout.addWidget(chip)
            chip.show()  # a hidden chip would not count when the field is measured
            tint(chip.remove, self._theme, self._scale)
        self._active.setVisible(bool(active))
        self.set_room(self._room)
        if had_focus:
            self.edit.setFocus()

    @Slot(str)
    def _fold(self, text: str) -> None:
        """Attaches a long text that was pasted."""
        attachment = pasted(text, {chip.attachment.name for chip in self.chips})
        self._folded.append((attachment, self.edit.toPlainText(), True))
        self.attach([attachment])

    def _preview(self, chip: Chip) -> None:
        preview = AttachmentPreview(chip.attachment, self._scale, self.window())
        preview.unfolded.connect(partial(self._unfold, chip))
        preview.open()

    def _unfold(self, chip: Chip) -> None:
        """Replaces an attachment by its text in the field."""
        if chip in self.chips:
            self._take_out(chip)
            self.edit.insertPlainText(chip.attachment.text)
            self._folded.append((chip.attachment, self.edit.toPlainText(), False))
            self.edit.setFocus()

    @Slot()
    def _undo(self) -> None:
        """Undoes the last change that attached a pasted text, or that put an attachment into the field as text."""
        attachment, _, was_attached = self._folded.pop()
        if was_attached:
            for chip in [each for each in self.chips if each.attachment == attachment]:
                self._take_out(chip)
        else:
            self.edit.undo()
            self.attach([attachment])

    def show_tokens(self, attachment: Attachment, tokens: int | None) -> None:
        """Shows the number of tokens of a file on its chip."""
        for chip in self.chips:
            if chip.attachment == attachment:
                chip.show_tokens(tokens)
        self._show_chips()

    def _remove(self, chip: Chip) -> None:
        self._folded = [each for each in self._folded if each[0] != chip.attachment]
        self._take_out(chip)
        self.edit.setFocus()

    def _take_out(self, chip: Chip) -> None:
        self.chips.remove(chip)
        _delete(chip)
        self._show_chips()

    def _show_chips(self) -> None:
        self.chip_area.setVisible(bool(self.chips))
        self.set_room(self._room)
        self._refresh()

    def _fit_chips(self) -> None:
        """Fits the height to the rows of chips, up to a share of the room; more rows scroll, with the focused chip in view."""
        if self.chips:
            tallest = max(chip.sizeHint().height() for chip in self.chips)
            wanted = self._chips.heightForWidth(max(1, self.chip_area.viewport().width()))
            self.chip_area.setFixedHeight(min(wanted, max(tallest, int(CHIPS_SHARE * self._room))) + 1)

    def set_running(self, running: bool) -> None:
        """Shows Stop in place of Send while an answer is running."""
        had_focus = self.send.hasFocus() or self.stop.hasFocus()
        self._running = running
        self.send.setVisible(not running)
        self.stop.setVisible(running)
        if had_focus:
            (self.stop if running else self.edit).setFocus()
        self._refresh()

    def set_raw(self, raw: bool) -> None:
        """Sets whether the model continues the text instead of answering it, so that blanks and line breaks at its ends count."""
        self._raw = raw
        self.edit.folds = not raw  # an attachment has a fence, which is wrong in a text that the model continues
        self.edit.setPlaceholderText("Write the beginning of a text" if raw else "Ask something")

    def show_hint(self, words: str) -> None:
        """Shows a hint; empty for the default one about the keys."""
        self.hint.setText(words or ("Esc to stop" if self._running else "Enter to send, Shift+Enter for a new line"))

    def show_context(self, words: str, why: str = "") -> None:
        """Shows the context use; empty if unknown. `why` warns of the consequences if the prompt does not fit."""
        if words == self.context.text() and why == self.context.accessibleDescription():
            return
        self.context.setText(words)
        self.context.setAccessibleDescription(why or words)
        self.context.setToolTip(f"<p>{why or DEFINITIONS['context']}</p>")
        self.context.setVisible(bool(words))
        if self.context.property("warns") != bool(why):
            restyle(self.context, "warns", bool(why))

    def set_editing(self, what: str) -> None:
        """Shows the note that something is being edited, such as "the last prompt"; an empty text hides it."""
        self.edit_note.setText(f"Editing {what}. Press Esc to cancel.")
        self.edit_note.setVisible(bool(what))
        self.set_room(self._room)

    def _refresh(self) -> None:
        ready = bool(self.chips) or bool(self.edit.toPlainText().strip())
        self.changed.emit()
        self.send.setEnabled(ready)
        self.send.setIcon(themes.icon("send", self._theme.on_accent if ready else self._theme.faint))

    @Slot()
    def submit(self) -> None:
        """Sends the prompt, unless it is empty or an answer is running."""
        if self.text.strip() and not self._running:
            self.sent.emit(self.text if self._raw else self.text.strip())

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the reading font to the prompt, fits the field's height to it, and recolours the buttons."""
        font = themes.reading_font(scale)
        self.edit.setFont(font)
        self.set_room(self._room)
        self._theme, self._scale = theme, scale
        self._refresh()
        for tool in (self.clip, *(chip.remove for chip in self.chips), *(chip.remove for chip in self.active_chips)):
            tint(tool, theme, scale)
        for button in (self.send, self.stop):
            button.setIconSize(QSize(round(15 * scale), round(15 * scale)))
        self.stop.setIcon(themes.icon("stop", theme.background))

    def set_room(self, height: int) -> None:
        """Sets the height below the header, of which the composer takes at most half."""
        self._room = height
        self._fit_chips()
        around = self.sizeHint().height() - self.edit.height()
        self.edit.most_lines = max(1, min(MAX_LINES, int((SHARE * height - around) / self.edit.fontMetrics().lineSpacing())))
        self.edit.fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.chips and event.size().width() != event.oldSize().width():
            self.set_room(self._room)

    def set_column(self, left: int, width: int, whole: int) -> None:
        """Aligns the frame with the transcript's column."""
        self.margins.setContentsMargins(max(10, left - 14), 6, max(10, whole - left - width - 14), 16)


def _delete(chip: QWidget) -> None:
    """Removes a chip from its layout and deletes it."""
    chip.hide()
    chip.setParent(None)
    chip.deleteLater()
