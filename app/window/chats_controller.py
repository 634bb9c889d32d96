"""Connects the chat store to the window: restores the last chat, and opens, copies and deletes chats."""

from __future__ import annotations

import contextlib
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.conversation.transcript import Transcript
from app.look.banner import Banner
from app.look.wording import target_title
from app.session.chat import Chat
from app.session.stored_chat import StoredChat
from app.sidebar.deleted_dialog import DeletedDialog
from app.sidebar.traces_dialog import TracesDialog
from app.window.chat_files import ChatFiles
from engine.chats import ChatStore, ChatSummary, Conversation, UnsentText
from engine.values.errors import DraftlightError
from engine.values.wording import amount

OpenedChat = tuple[Conversation, tuple[UnsentText, ...], bool]
"""A stored chat, its drafts, and whether this window holds its lock."""
LOCK_CHECK_MS = 2000
"""Milliseconds between checks whether another window holds the lock of the shown chat."""


class ChatsController(QObject):
    """Connects the chat store to the shown conversation.

    Attributes:
        files: imports and exports chats.
        is_restoring: the last chat is being restored; text typed meanwhile is meant for it.

    Signals:
        comparison_requested: (number) the user chose a comparison in the list.
    """

    comparison_requested = Signal(int)

    def __init__(self, chat: Chat, banner: Banner, transcript: Transcript, window: QWidget) -> None:
        super().__init__(window)
        self._chat, self._banner, self._transcript, self._window = chat, banner, transcript, window
        self.files = ChatFiles(chat, banner, window, self.open)
        self._timer = QTimer(self, interval=LOCK_CHECK_MS)
        self._timer.timeout.connect(self.check_lock)
        self._requested_chat: int | None = None
        self.is_restoring = False

    def restore(self, models: bool = True) -> None:
        """Shows the last chat, loads its models, and imports the traces of earlier versions.

        Args:
            models: whether to load the models of the chat; else those of the settings are loaded.
        """
        keeper, number = self._chat.keeper, self._chat.settings.conversation
        self._timer.start()
        if number is None:
            self._chat.models.load()
        else:
            self._requested_chat = number
            keeper.read(partial(_read_chat, number, None), partial(self._show_first, models), self._restore_failed)
        keeper.read(partial(_read_drafts, None), self._load_new_chat_draft)
        keeper.write(ChatStore.import_traces, self._report_imported)
        keeper.tidy(self._chat.recorder.notify)  # traces may take less space now

    def go_to(self, number: int, message: int | None) -> None:
        """Shows a chat that the user chose, scrolled to a message if one is given."""
        self._banner.hide()
        if number == self._chat.stored_chat.number and not self._chat.session.read_only:
            self._scroll_to(message)
        else:
            self.open(number, message)

    def open(self, number: int, message: int | None = None) -> None:
        """Reads a chat and shows it, on the branch of a message and scrolled to it if one is given. A running answer is stopped
        and kept."""
        keeper = self._chat.keeper
        if not self._chat.session.replaying:
            self._requested_chat = number
            keeper.read(partial(_read_unless_comparison, number, message), partial(self._show, number, message), self._report)

    def _scroll_to(self, message: int | None) -> None:
        """Scrolls to a message of the shown chat."""
        if message is not None:
            turns = self._chat.session.turns
            at = next((at for at, turn in enumerate(turns) if message in (turn.stored_id, turn.answer.stored_id)), None)
            if at is not None:
                self._transcript.go_to(at, prompt=turns[at].stored_id == message)

    @Slot()
    def check_lock(self) -> None:
        """Checks whether this window holds the lock of the shown chat, and takes the lock if it is free."""
        keeper, number = self._chat.keeper, self._chat.stored_chat.number
        if number is not None:
            keeper.read(lambda store: store.hold.take(number), partial(self._apply_lock, number))

    def _apply_lock(self, number: int, has_lock: bool) -> None:
        chat = self._chat
        if number != chat.stored_chat.number or chat.session.replaying:
            return
        if has_lock and chat.session.read_only:
            self.open(number)  # another window may have changed it
        elif not has_lock and chat.session.idle:
            chat.set_read_only()

    def stop(self) -> None:
        """Stops the checks: the window is closing."""
        self._timer.stop()

    def duplicate(self, at: int | None = None) -> None:
        """Copies the shown chat, or the path to the answer of a turn, and shows the copy."""
        keeper, stored, turns = self._chat.keeper, self._chat.stored_chat, self._chat.session.turns
        turn = None if at is None else turns[at]

        def copy(store: ChatStore) -> int | None:
            """Returns the id of the copy; None if the chat is not stored."""
            up_to = None if turn is None else turn.stored_id if turn.answer.stored_id is None else turn.answer.stored_id
            return None if stored.number is None else store.duplicate(stored.number, up_to)

        keeper.write(copy, self._show_copy)

    @Slot(int)
    def duplicate_by_id(self, number: int) -> None:
        """Copies a chat and shows the copy."""
        self._chat.keeper.write(lambda store: store.duplicate(number), self._show_copy)

    @Slot(object)
    def _show_copy(self, number: int | None) -> None:
        self._chat.recorder.written.emit()
        if number is not None:
            self.open(number)
            self._banner.show_message("This is a copy. The chat it was made from is still in the list.", "note")

    def delete(self, number: int) -> None:
        """Deletes a chat and offers to undo it. A chat that is open in another window is not deleted."""
        keeper, chat = self._chat.keeper, self._chat
        shown = number == chat.stored_chat.number and not chat.session.read_only

        def delete(store: ChatStore) -> bool:
            """Returns whether it was deleted."""
            if not shown and store.hold.is_elsewhere(number):
                return False
            store.delete(number)
            return True

        if shown:
            chat.new()
            self._offer_undo(number, shown)
        keeper.write(delete, partial(self._report_deletion, number, shown))

    def _report_deletion(self, number: int, shown: bool, deleted: bool) -> None:
        self._chat.recorder.notify(deleted)
        if not deleted:
            self._banner.show_message("This chat is open in another window. Close it there, then delete it.", "note")
        elif not shown:
            self._offer_undo(number, shown)

    def _offer_undo(self, number: int, shown: bool) -> None:
        self._banner.show_message("Chat deleted.", "note")
        self._banner.show_action("Undo", partial(self._undo, number, shown))

    def _undo(self, number: int, shown: bool) -> None:
        self._chat.keeper.write(lambda store: store.restore(number), self._chat.recorder.notify)
        if shown and not self._chat.session.turns:
            self.open(number)

    def show_deleted(self) -> None:
        """Shows the deleted chats that can still be restored."""
        self._chat.keeper.read(lambda store: store.conversations(deleted=True), self._list_deleted, self._report)

    def _list_deleted(self, chats: tuple[ChatSummary, ...]) -> None:
        if not chats:
            self._banner.show_message("There are no deleted chats.", "note")
            return
        dialog = DeletedDialog(chats, self._window)
        dialog.restored.connect(self._restore_deleted)
        dialog.open()

    @Slot(list)
    def _restore_deleted(self, numbers: list[int]) -> None:
        *others, last = numbers
        for number in others:
            self._chat.keeper.write(partial(_restore, number), self._chat.recorder.notify, self._report)
        self._chat.keeper.write(partial(_restore, last), partial(self._report_restored, numbers), self._report)

    def _report_restored(self, numbers: list[int], result: object) -> None:
        self._banner.show_message("Chat restored." if len(numbers) == 1 else f"{amount(len(numbers), 'chat')} restored.", "note")
        self._banner.show_action("Show", partial(self.open, numbers[0]))
        self._chat.recorder.notify(result)

    @Slot(str, tuple)
    def offer_folder_undo(self, folder: str, numbers: tuple[int, ...]) -> None:
        """Reports that a folder was removed and offers to undo it."""
        self._banner.show_message(f"The folder {folder} was removed. Its chats are still in the list.", "note")
        self._banner.show_action("Undo", partial(self._undo_folder_removal, folder, numbers))

    def _undo_folder_removal(self, folder: str, numbers: tuple[int, ...]) -> None:
        def fill(store: ChatStore) -> None:
            """Moves the chats back into the folder, if they still exist."""
            for number in numbers:
                with contextlib.suppress(DraftlightError):
                    store.move(number, folder)

        self._chat.keeper.write(fill, self._chat.recorder.notify)

    def show_traces(self) -> None:
        """Shows the disk space that traces take and lets the user choose how long they are kept."""
        TracesDialog(self._chat, self._window).open()

    def _load_new_chat_draft(self, unsent: tuple[UnsentText, ...]) -> None:
        """Loads the draft of a new chat; it goes before anything the user has typed meanwhile."""
        self._chat.drafts.add(StoredChat(), unsent)
        if unsent and not self._chat.stored_chat.is_begun:
            self._chat.opened.emit()

    def _show_first(self, models: bool, opened: OpenedChat) -> None:
        """Shows the last chat, unless the user has already started or opened another."""
        conversation = self._load_drafts(opened)
        session, has_lock = self._chat.session, opened[2]
        if not session.turns and not session.replaying and self._chat.stored_chat.number is None and has_lock:
            if self._requested_chat == conversation.about.id:
                self.is_restoring = True
                self._chat.show(conversation, models)
                self.is_restoring = False
        if self._chat.models.is_pending or session.model is None:
            self._chat.models.load()

    def _restore_failed(self, message: str) -> None:
        self._report(message)
        self._chat.models.load()

    def _load_drafts(self, opened: OpenedChat) -> Conversation:
        conversation, unsent, _ = opened
        self._chat.drafts.add(StoredChat(conversation.about.id), unsent)
        return conversation

    def _show(self, number: int, message: int | None, opened: OpenedChat | None) -> None:
        if opened is None:
            if self._requested_chat == number:
                self.comparison_requested.emit(number)
            return
        chat, conversation = self._chat, self._load_drafts(opened)
        if self._requested_chat != conversation.about.id or chat.session.replaying:
            return
        chat.show(conversation, read_only=not opened[2])
        if chat.session.read_only:
            pass  # a read-only chat needs no models
        elif chat.models.is_pending and chat.session.target != chat.settings.target and not chat.stored_chat.lacks_model:
            model = target_title(chat.settings.target)
            self._banner.show_message(f"This chat uses {model}, which is loaded when you send a message.", "note")
            self._banner.show_action("Load now", self._chat.models.load)
        self._scroll_to(message)

    def _report(self, message: str) -> None:
        self._banner.show_message(message, "note")

    def _report_imported(self, count: int) -> None:
        if count:
            answers = (
                "One answer of an earlier version is" if count == 1 else f"{amount(count, 'answer')} of an earlier version are"
            )
            self._banner.show_message(f"{answers} in the list of chats now.", "note")
            self._chat.recorder.written.emit()


def _restore(number: int, store: ChatStore) -> None:
    store.restore(number)


def _read_unless_comparison(number: int, message: int | None, store: ChatStore) -> OpenedChat | None:
    """Returns a chat; None for a comparison, whose lock nobody needs, since it is not changed."""
    return None if store.is_comparison(number) else _read_chat(number, message, store)


def _read_chat(number: int, message: int | None, store: ChatStore) -> OpenedChat:
    has_lock = store.hold.take(number)
    if has_lock:
        store.end_interrupted()  # the process that had it before may have been killed
    if message is not None and has_lock:
        with contextlib.suppress(DraftlightError):  # a chat opens even if the store is not writable
            store.choose(message)
    return store.open(number), _read_drafts(number, store) if has_lock else (), has_lock


def _read_drafts(number: int | None, store: ChatStore) -> tuple[UnsentText, ...]:
    with contextlib.suppress(DraftlightError):  # chats are shown even without drafts
        return store.unsent.take(number)
    return ()
