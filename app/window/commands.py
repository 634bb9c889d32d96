"""All commands of the window, in one list."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from PySide6.QtCore import Qt

from app.compare.view import CompareView
from app.conversation.composer import Composer
from app.conversation.transcript import Transcript
from app.look.banner import Banner
from app.look.command import ESCAPE, Command, native_keys
from app.look.theme import APPEARANCE_TITLES
from app.look.wording import GHOST_TITLES
from app.panel.panel import SidePanel
from app.session.chat import Chat
from app.session.session import Session
from app.session.settings import PanelPage, Settings
from app.sidebar.sidebar import Sidebar
from app.window.appearance import resize_text
from app.window.chats_controller import ChatsController
from app.window.documentation import NO_DOCUMENTATION, has_documentation
from app.window.dropping import DropHandler
from app.window.header import Header
from app.window.menu_bar import edit_commands, window_menu
from app.window.messages import Messages
from app.window.models_controller import ModelsController
from app.window.new_window import open_another
from app.window.pages import Pages, compare_commands
from app.window.replay_controller import ReplayController
from app.window.side_layout import SideLayout
from app.window.slow_motion import SlowMotion
from engine.lens.pieces import Ghosts


class CommandHost(Protocol):
    """The parts and methods of the window that commands use."""

    chat: Chat
    header: Header
    banner: Banner
    transcript: Transcript
    composer: Composer
    panel: SidePanel
    sidebar: Sidebar
    sides: SideLayout
    pages: Pages
    replay_controller: ReplayController
    slow_motion: SlowMotion
    messages: Messages
    chats: ChatsController
    models: ModelsController
    drop_handler: DropHandler

    @property
    def settings(self) -> Settings:
        """The current settings."""

    def new_chat(self) -> None:
        """Starts an empty conversation."""

    def stop(self) -> None:
        """Stops the answer, or the shown comparison."""

    def escape(self) -> None:
        """Does the first applicable action of the Escape key."""

    def export(self) -> None:
        """Exports what is shown to a file that the user chooses."""

    def close(self) -> bool:
        """Closes the window."""

    def toggle_ghosts(self) -> None:
        """Switches to the next of the steps that show more or fewer ghosts."""

    def set_ghosts(self, ghosts: Ghosts) -> None:
        """Sets which ghosts are shown."""

    def toggle_reading(self) -> None:
        """Toggles between the reading view of finished answers and their tokens."""

    def find_in_chat(self) -> None:
        """Opens the search in the shown chat."""

    def open_page(self, page: PanelPage) -> None:
        """Shows a page of the panel and focuses it."""

    def open_settings(self) -> None:
        """Opens the settings window."""

    def open_palette(self) -> None:
        """Opens the command palette."""

    def open_options(self) -> None:
        """Opens the sampling options."""

    def show_tour(self) -> None:
        """Starts the tour of the window."""

    def open_documentation(self) -> None:
        """Opens the documentation on this computer."""

    def show_about(self) -> None:
        """Shows versions, licence and data folder."""

    def show_shortcuts(self) -> None:
        """Opens a dialog with every keyboard shortcut."""


def window_commands(window: CommandHost, menu_bar: bool = False) -> list[Command]:
    """Returns the commands, in the order of the menus. `menu_bar` adds those that only a menu bar has."""
    settings, messages, by_keys = window.settings, window.messages, Qt.FocusReason.ShortcutFocusReason
    appearances = [
        Command(
            f"{name}ThemeAction",
            APPEARANCE_TITLES[name],
            "View",
            partial(window.chat.preferences.set, appearance=name),
            checked=settings.appearance == name,
            group="theme",
        )
        for name in APPEARANCE_TITLES
    ]
    ghosts = [
        Command(
            f"{step}GhostsAction",
            title,
            "View",
            partial(window.set_ghosts, step),
            checked=settings.ghosts == step,
            group="ghosts",
        )
        for step, title in GHOST_TITLES.items()
    ]
    return [
        Command("escapeAction", ESCAPE, "", window.escape, ("Esc",)),
        Command("newWindowAction", "New window", "File", partial(open_another, window.banner), ("Ctrl+Shift+N",)),
        Command("settingsAction", "Settings…", "File", window.open_settings, ("Ctrl+,",), group="program"),
        Command("quitAction", "Quit", "File", window.close, ("Ctrl+Q",), group="program"),
        Command("newChatAction", "New chat", "Chat", window.new_chat, ("Ctrl+N",), group="chat"),
        Command("renameAction", "Rename chat…", "Chat", window.sidebar.rename_shown, ("F2",), group="chat"),
        Command("duplicateAction", "Duplicate chat", "Chat", window.chats.duplicate, group="chat"),
        Command("regenerateAction", "Regenerate", "Chat", messages.regenerate, ("Ctrl+R",), group="message"),
        Command(
            "previousAnswerAction", "Previous answer", "Chat", partial(messages.step_sibling, -1), ("Ctrl+[",), group="message"
        ),
        Command("nextAnswerAction", "Next answer", "Chat", partial(messages.step_sibling, 1), ("Ctrl+]",), group="message"),
        Command(
            "previousPromptAction",
            "Previous prompt wording",
            "Chat",
            partial(messages.step_sibling, -1, True),
            ("Ctrl+PgUp",),
            group="message",
        ),
        Command(
            "nextPromptAction",
            "Next prompt wording",
            "Chat",
            partial(messages.step_sibling, 1, True),
            ("Ctrl+PgDown",),
            group="message",
        ),
        Command("continueAction", "Continue answer", "Chat", messages.go_on, ("Ctrl+Shift+Return",), group="message"),
        Command(
            "deleteAnswerAction", "Delete last answer", "Chat", messages.delete_last, ("Ctrl+Shift+Backspace",), group="message"
        ),
        Command("editAction", "Edit last prompt", "Chat", messages.edit_last, ("Ctrl+Up",), group="message"),
        Command("copyAnswerAction", "Copy answer", "Chat", window.transcript.copy_answer, ("Ctrl+Shift+C",), group="message"),
        Command("stopAction", "Stop answer", "Chat", window.stop, ("Ctrl+.",), group="message"),
        Command("attachAction", "Attach files…", "Chat", window.drop_handler.attacher.ask, ("Ctrl+Shift+A",), group="message"),
        Command("openTraceAction", "Open trace…", "Chat", window.replay_controller.ask_for_trace, ("Ctrl+O",), group="files"),
        Command("exportAction", "Export…", "Chat", window.export, ("Ctrl+E",), group="files"),
        Command("exportChatAction", "Export chat as text…", "Chat", window.chats.files.export_shown, group="files"),
        Command("exportAllAction", "Export all chats…", "Chat", window.chats.files.export_all, group="files"),
        Command("importAction", "Import chats…", "Chat", window.chats.files.ask_for_import, group="files"),
        Command("saveChartsAction", "Save charts as images…", "Chat", window.panel.picture_menu.save_charts, group="files"),
        Command("shareCardAction", "Share card…", "Chat", window.panel.picture_menu.save_card, ("Ctrl+Shift+S",), group="files"),
        Command("undoDeleteAction", "Undo delete", "Chat", messages.undo_delete, group="files"),
        *(edit_commands() if menu_bar else ()),
        Command("ghostsAction", "Cycle ghosts", "View", window.toggle_ghosts, ("Ctrl+G",)),
        *ghosts,
        Command("readingAction", "Reading view", "View", window.toggle_reading, ("F6",), checked=settings.reading),
        Command("sidebarAction", "Chats", "View", window.sides.toggle_chats, ("Ctrl+B",), checked=settings.sidebar),
        Command("panelAction", "Side panel", "View", window.sides.toggle_panel, ("F3",), checked=settings.side_panel),
        Command("slowMotionAction", "Slow motion", "View", window.slow_motion.toggle, ("F8",), checked=window.slow_motion.is_on),
        *appearances,
        Command("largerAction", "Larger text", "View", partial(resize_text, window.chat, 1), ("Ctrl++", "Ctrl+="), group="text"),
        Command("smallerAction", "Smaller text", "View", partial(resize_text, window.chat, -1), ("Ctrl+-",), group="text"),
        Command("normalAction", "Reset text size", "View", partial(resize_text, window.chat, 0), ("Ctrl+0",), group="text"),
        *compare_commands(window.pages),
        Command("paletteAction", "Command palette…", "Go", window.open_palette, ("Ctrl+K",)),
        Command("findAction", "Find in chat", "Go", window.find_in_chat, ("Ctrl+F",)),
        Command("searchAction", "Search chats", "Go", window.sides.search_chats, ("Ctrl+Shift+F",)),
        Command("messageAction", "Go to the message field", "Go", window.composer.edit.setFocus, ("Ctrl+L",)),
        Command(
            "transcriptAction",
            "Go to the conversation",
            "Go",
            partial(window.transcript.setFocus, by_keys),
            ("Ctrl+J",),
        ),
        Command("ruleAction", "Go to the rules", "Go", window.header.focus_rule, ("Ctrl+D",)),
        Command("roundsAction", "Go to the rounds", "Go", partial(window.open_page, "rounds"), ("Ctrl+1",)),
        Command("chartsAction", "Go to the charts", "Go", partial(window.open_page, "charts"), ("Ctrl+2",)),
        Command("tableAction", "Go to the table", "Go", partial(window.open_page, "table"), ("Ctrl+3",)),
        Command("rulesAction", "Judge again under another rule", "Go", partial(window.open_page, "rules"), ("Ctrl+4",)),
        Command("deletedAction", "Deleted chats…", "Go", window.chats.show_deleted, group="chats"),
        Command("tracesAction", "Traces…", "Go", window.chats.show_traces, group="chats"),
        Command("playAction", "Play or pause the replay", "Go", window.replay_controller.toggle, ("Space",), group="replay"),
        Command("phaseAction", "Next phase in slow motion", "Go", window.slow_motion.forward, ("F9",), group="replay"),
        Command("modelsAction", "Models…", "Go", window.models.open, ("Ctrl+Shift+M",), group="models"),
        Command("benchAction", "Find the fastest drafter…", "Go", window.models.find_drafter, group="models"),
        Command("optionsAction", "Sampling options", "Go", window.open_options, ("Ctrl+;",), group="models"),
        *(window_menu() if menu_bar else ()),
        Command("tourAction", "Show the tour", "Help", window.show_tour),
        Command("documentationAction", "Documentation", "Help", window.open_documentation),
        Command("shortcutsAction", "Keyboard shortcuts", "Help", window.show_shortcuts, ("F1", "Ctrl+/")),
        Command("aboutAction", "About Draftlight", "Help", window.show_about),
    ]


def unavailable_reasons(session: Session, comparing: CompareView | None, at: int, may_undo_delete: bool) -> dict[str, str]:
    """Returns why each command that can be unavailable is unavailable now, and what to do about it; empty if it is available.

    Args:
        comparing: the comparison, if it is shown.
        at: index of the turn that the side views show.
        may_undo_delete: whether a deletion can be undone.
    """
    elsewhere = f"Go back to the chat first ({native_keys('F4')})." if comparing is not None else ""
    none_yet = "" if session.turns else "There is no answer yet."
    undrawn = "" if any(turn.answer.rounds for turn in session.turns) else "There is no answer yet."
    busy = "Stop the answer or wait until it has finished." if session.running is not None else ""
    replay = "Close the replay first." if session.replaying else ""
    locked = "This chat is open in another window." if session.read_only else ""
    changing = elsewhere or none_yet or busy or replay or locked
    pictures = elsewhere or undrawn
    shown = elsewhere or none_yet or busy or replay
    reasons = {"regenerateAction": changing, "editAction": changing, "copyAnswerAction": elsewhere or none_yet}
    for name, by, which in (("previousAnswerAction", -1, "earlier"), ("nextAnswerAction", 1, "later")):
        has_sibling = bool(session.turns) and session.turns[at].has_sibling(by)
        reasons[name] = shown or ("" if has_sibling else f"There is no {which} answer to this prompt.")
        index, count = session.turns[at].version if session.turns else (0, 1)
        wording = name.replace("Answer", "Prompt")
        reasons[wording] = shown or ("" if 0 <= index + by < count else f"There is no {which} wording of this prompt.")
    reasons["continueAction"] = changing or session.why_not_continue(at)
    reasons["deleteAnswerAction"] = changing
    none_deleted = "" if may_undo_delete else "No message of this chat was deleted since it was opened."
    reasons["undoDeleteAction"] = elsewhere or busy or replay or locked or none_deleted
    if comparing is None:
        comparing_only = f"Open the comparison first ({native_keys('F4')})."  # on other pages their keys have other uses
        export = "" if session.trace_paths else "There is no answer to export yet."
        stop = "" if busy else "No answer is being generated."
    else:
        comparing_only = ""
        export = "" if comparing.may_export else "There is no comparison to export yet."
        stop = "" if comparing.running else "No comparison is running."
    untitled = "" if session.turns else "A chat has a title once its first message is sent."
    reasons["renameAction"] = elsewhere or replay or locked or untitled
    # Without a replay, Space goes to the focused widget. Text fields keep it even in a replay: Qt asks them first.
    reasons["playAction"] = elsewhere or ("" if session.replaying else "Open a trace first.")
    reasons["duplicateAction"] = shown
    reasons["exportChatAction"] = elsewhere or none_yet
    reasons["findAction"] = "" if session.turns else "There is nothing to find yet."
    comparison = "Stop the comparison or wait until it has finished." if comparing is not None and comparing.running else ""
    reasons["benchAction"] = busy or comparison
    reasons["documentationAction"] = "" if has_documentation() else NO_DOCUMENTATION
    return reasons | {
        "saveChartsAction": pictures,
        "shareCardAction": pictures,
        "exportAction": export,
        "stopAction": stop,
        "startCompareAction": comparing_only,
        "divergenceAction": comparing_only,
    }
