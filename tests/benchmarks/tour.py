"""Uses everything that the window does with chats, with real keys and a real mouse: make bench-tour

Starts an X server of its own (Xvfb) with a window manager (openbox), opens the real window on the real engine with an empty data
folder and the built-in model, and uses it through xdotool as a person would. Each step prints what it did and waits until the
window shows that it has happened; after some of them the screen is saved as a PNG (ARGS="--pictures FOLDER"). Needs xvfb, openbox
and xdotool; takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SIZE = (1440, 900)
PATIENCE = 180.0
"""Seconds for one step; the model answers slowly where there is no GPU."""


def on_display(module: str, arguments: list[str]) -> int:
    """Runs a module again on an X server of its own; its exit status."""
    missing = [name for name in ("Xvfb", "openbox", "xdotool") if shutil.which(name) is None]
    if missing:
        sys.exit(f"Needs {', '.join(missing)} (apt-get install xvfb openbox xdotool).")
    read, write = os.pipe()
    screen = f"{SIZE[0]}x{SIZE[1]}x24"
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", screen], pass_fds=[write], stderr=subprocess.DEVNULL
    )
    os.close(write)
    with os.fdopen(read) as said:
        display = f":{said.readline().strip()}"
    environment = {**os.environ, "DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
    manager = subprocess.Popen(["openbox"], env=environment, stderr=subprocess.DEVNULL)
    try:
        return subprocess.call([sys.executable, "-m", module, "--inside", *arguments], env=environment)
    finally:
        for process in (manager, server):
            process.terminate()
            process.wait()


class Guide:
    """Uses a window by key and mouse, and says what it did."""

    def __init__(self, application: Any, pictures: Path) -> None:
        self.application, self.pictures = application, pictures
        self.window: Any = None
        self.steps = self.taken = 0

    def tell(self, *words: str) -> None:
        """Has xdotool do something."""
        subprocess.run(["xdotool", *words], check=True, stdout=subprocess.DEVNULL)
        self.rest(0.15)

    def keys(self, *keys: str) -> None:
        """Presses keys, one after the other."""
        self.tell("key", "--clearmodifiers", "--delay", "40", *keys)

    def write(self, text: str) -> None:
        """Types a text."""
        self.tell("type", "--delay", "12", text)

    def click(self, widget: Any, at: Any = None, button: int = 1) -> None:
        """Clicks on a widget, in its middle unless a place in it is given."""
        self.move(widget, at)
        self.tell("click", str(button))

    def move(self, widget: Any, at: Any = None) -> None:
        """Moves the mouse onto a widget."""
        where = widget.mapToGlobal(widget.rect().center() if at is None else at)
        self.tell("mousemove", str(where.x()), str(where.y()))

    def rest(self, seconds: float) -> None:
        """Lets the window work for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.application.processEvents()
            time.sleep(0.004)

    def wait(self, what: str, holds: Callable[[], object]) -> None:
        """Waits until something is so, says it, and fails the tour if it never is."""
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > PATIENCE:
                self.picture("failed")
                sys.exit(f"FAILED: {what}")
            self.rest(0.02)
        self.steps += 1
        print(f"{self.steps:>3}  {what}", flush=True)

    def picture(self, name: str) -> None:
        """Saves what is on the screen."""
        self.rest(0.4)
        self.taken += 1
        screen = self.application.primaryScreen()
        screen.grabWindow(0).save(str(self.pictures / f"{self.taken:02}-{name}.png"))

    def later(self, seconds: float, *words: str) -> None:
        """Has xdotool do something in a while: what the window then does in a loop of its own, until it is done, needs that."""
        self.timer(seconds, lambda: subprocess.Popen(["xdotool", *words], stdout=subprocess.DEVNULL))

    def timer(self, seconds: float, act: Callable[[], object]) -> None:
        """Does something in a while."""
        from PySide6.QtCore import QTimer

        QTimer.singleShot(round(1000 * seconds), act)

    def drag(self, widget: Any, start: Any, end: Any, name: str) -> None:
        """Drags with the mouse from one place of a widget to another, with a picture on the way."""
        steps: list[str] = []
        for share in (0.2, 0.4, 0.6, 0.8, 1.0, 1.0):
            where = widget.mapToGlobal(start + (end - start) * share)
            steps += ["mousemove", str(where.x()), str(where.y()), "sleep", "0.3"]
        self.move(widget, start)
        self.later(0.1, "mousedown", "1", *steps, "sleep", "1", "mouseup", "1")
        self.timer(2.2, partial(self.picture, name))
        self.rest(4)

    def choose_file(self, words: str, path: Path) -> None:
        """Opens a file dialog from the command palette and types a path into it."""

        def answer() -> None:
            """Types as soon as the dialog is there, which has a loop of its own."""
            if any(type(each).__name__ == "QFileDialog" and each.isVisible() for each in self.application.topLevelWidgets()):
                typed = ("type", "--args", "1", "--delay", "8", str(path))
                self.later(0.7, "key", "--clearmodifiers", "ctrl+a", *typed, "sleep", "1", "key", "Return")
            else:
                self.timer(0.2, answer)

        self.timer(0.2, answer)
        self.palette(words)

    def palette(self, words: str) -> None:
        """Does what the command palette finds for these words."""
        self.keys("ctrl+k")
        self.wait(f"the command palette finds “{words}”", lambda: self.window.palette_popup.isVisible())
        self.write(words)
        self.keys("Return")

    def dialog(self, name: str) -> Any:
        """Waits for a dialog of this class and returns it."""

        def found() -> Any:
            """The dialog, if it is open."""
            windows = self.application.topLevelWidgets()
            return next((each for each in windows if type(each).__name__ == name and each.isVisible()), None)

        self.wait(f"{name} is open", found)
        self.rest(0.3)
        return found()


def open_window() -> Any:
    """The window as `draftlight` opens it, on the real engine."""
    from app.window.launch import make_window

    window = make_window(argparse.Namespace())
    window.show()
    window.activateWindow()
    return window


def accepted(answer: Any) -> list[tuple[int, int]]:
    """Round and position of each accepted proposal that has an alternative."""
    proposals = ((each.index, at, proposal) for each in answer.rounds for at, proposal in enumerate(each.proposals))
    return [(index, at) for index, at, each in proposals if each.status == "accepted" and len(each.target_top) > 1]


def first_start(guide: Guide) -> None:
    """The tour of the first start, and a first answer that is stopped and goes on."""
    window = guide.window
    guide.wait("the first start shows the tour by itself", lambda: window.tour.isVisible())
    guide.wait("the model is loaded meanwhile", lambda: window.session.model is not None)
    guide.picture("tour")
    guide.keys("Return")
    guide.wait("Enter leads to the lens", lambda: window.tour.title.text() == "The lens")
    guide.picture("tour-lens")
    guide.click(window.tour.skip)
    guide.wait("the tour is skipped by a click", lambda: not window.tour.isVisible())
    guide.click(window.composer.edit)
    guide.write("Write a short story about a lighthouse.")
    guide.keys("Return")
    guide.wait(
        "an answer is streamed", lambda: len(window.session.turns) == 1 and window.session.turns[0].answer.tally.rounds > 8
    )
    guide.picture("streaming")
    guide.keys("Escape")
    guide.wait("Escape stops it", lambda: window.session.running is None)
    answer = window.session.turns[0].answer
    guide.keys("ctrl+shift+Return")
    guide.wait(
        "it goes on where it ended",
        lambda: (
            window.session.answer is not answer and window.session.answer.tally.rounds > 3 and accepted(window.session.answer)
        ),
    )
    guide.keys("Escape")
    guide.wait("and is stopped again", lambda: window.session.running is None)


def messages(guide: Guide) -> None:
    """Branching, versions, editing either side, finding."""
    from PySide6.QtCore import QPoint

    from app.session.cursor import Place

    window = guide.window
    index, at = accepted(window.session.turns[0].answer)[0]
    area = window.transcript.pointing.area(Place(0, index, proposal=at))
    guide.move(window.transcript.viewport(), area.center())
    guide.wait("resting on a token shows its verdict", lambda: window.verdicts.card.isVisible())
    guide.picture("verdict")
    guide.tell("click", "1")
    guide.wait("a click pins it", lambda: window.cursor_place.pin_place is not None)
    many = len(window.session.turns[0].answers)
    button = next(each for each in window.verdicts.card.alternatives if each.isVisible() and each.isEnabled())
    guide.click(button)
    guide.wait("an alternative branches the answer", lambda: len(window.session.turns[0].answers) == many + 1)
    guide.wait("the branch grows", lambda: window.session.turns[0].answer.tally.rounds > 2)
    guide.keys("Escape")
    guide.wait("it is stopped", lambda: window.session.running is None)
    guide.keys("ctrl+bracketleft")
    guide.wait("Ctrl+[ shows the version before", lambda: window.session.turns[0].shown == many - 1)
    guide.picture("versions")

    more = next(button for button, message in window.transcript.tools.more.shown if message == (0, False))
    guide.click(more)
    guide.rest(0.4)
    guide.picture("message-menu")
    guide.keys("Down", "Down", "Return")
    editor = guide.dialog("AnswerEditor")
    guide.keys("ctrl+a")
    guide.write("The lighthouse was dark, and nobody had lit the lamp for years.")
    guide.picture("edit-answer")
    guide.click(editor.keep)
    guide.wait("the edited answer stands beside the others", lambda: window.session.turns[0].answer.edited)
    guide.picture("edited")
    guide.click(window.composer.edit)
    guide.write("Who lived there?")
    guide.keys("Return")
    guide.wait("a second prompt builds on it", lambda: len(window.session.turns) == 2 and window.session.answer.tally.rounds > 4)
    guide.keys("Escape")
    guide.wait("it is stopped", lambda: window.session.running is None)
    guide.keys("ctrl+f")
    guide.write("lighthouse")
    guide.wait("Ctrl+F finds words in the chat", lambda: " of " in window.column.find_bar.count.text())
    guide.picture("find")
    guide.keys("Escape")
    guide.click(window.composer.edit, QPoint(8, 8))
    guide.keys("Up")
    guide.wait("Up in an empty field edits the last prompt", lambda: window.composer.text == "Who lived there?")
    guide.keys("ctrl+a")
    guide.write("Who built it?")
    guide.keys("Return")
    guide.wait("the other wording stands beside it", lambda: window.session.turns[-1].version == (1, 2))
    guide.keys("Escape")
    guide.wait("it is stopped", lambda: window.session.running is None)


def chats(guide: Guide, folder: Path) -> None:
    """Folders, titles, pins, deleting and bringing back, search, files."""
    window = guide.window
    sidebar = window.sidebar

    def row(title: str) -> Any:
        """Where a row of the list stands, in the list's viewport; None without one."""
        model = sidebar.model
        found = [at for at in range(model.rowCount()) if str(model.index(at).data()).startswith(title)]
        return sidebar.list.visualRect(model.index(found[0])).center() if found else None

    guide.keys("ctrl+n")
    guide.write("Name three colours.")
    guide.keys("Return")
    guide.wait("a second chat is in the list", lambda: row("Name three") is not None and row("Write a short") is not None)
    guide.wait("it is answered", lambda: window.session.turns and window.session.turns[0].answer.tally.rounds > 1)
    guide.keys("Escape")
    guide.wait("and stopped", lambda: window.session.running is None)
    guide.rest(0.5)
    guide.click(sidebar.list.viewport(), row("Write a short"), button=3)
    guide.rest(0.4)
    guide.picture("chat-menu")
    guide.keys(*["Down"] * 6, "Right", "Return")  # Move to folder, New folder…
    guide.dialog("QInputDialog")
    guide.write("Stories")
    guide.keys("Return")
    guide.wait("a folder is made", lambda: row("Stories") is not None)
    guide.rest(0.3)
    start, end = row("Name three"), row("Stories")
    guide.drag(sidebar.list.viewport(), start, end, "dragging")
    guide.wait("a chat is dragged into it", lambda: sidebar.model.at(sidebar.model.index(1)).chat_count == 2)
    guide.click(sidebar.list.viewport(), row("Stories"))
    guide.wait("the folder lists its chats alone", lambda: row("All chats") is not None)
    guide.picture("folder")
    guide.click(sidebar.list.viewport(), row("All chats"))
    guide.wait("and all chats again", lambda: row("All chats") is None)
    guide.click(sidebar.list.viewport(), row("Name three"))
    guide.wait("a click on a chat leaves the keyboard to the message", window.composer.edit.hasFocus)
    guide.keys("ctrl+shift+f", "Down", "F2", "ctrl+a")
    guide.write("Colours")
    guide.keys("Return")
    guide.wait("F2 renames a chat", lambda: row("Colours") is not None)
    guide.keys("p")
    guide.wait("P pins it", lambda: row("Pinned") is not None)
    guide.keys("Delete")
    guide.wait("Delete deletes it", lambda: row("Colours") is None)
    guide.picture("deleted")
    guide.click(window.banner.action)
    guide.wait("Undo brings it back", lambda: row("Colours") is not None)
    guide.keys("ctrl+shift+f")
    guide.write("lighthouse")
    guide.wait("a search finds words of messages", lambda: sidebar.model.chat_count == 1 and sidebar.list.delegate.shows_hits)
    guide.picture("search")
    guide.keys("Return")
    guide.wait("Enter opens what was found", lambda: len(window.session.turns) == 2)
    guide.keys("ctrl+shift+f", "Escape")

    guide.choose_file("Export all", folder / "all.json")
    guide.wait("all chats are exported", lambda: (folder / "all.json").is_file() and window.banner.isVisible())
    document = json.loads((folder / "all.json").read_text())
    for chat in document["conversations"]:
        chat["title"], chat["origin"], chat["pinned"], chat["folder"] = f"Again: {chat['title']}", "", False, ""
    (folder / "again.json").write_text(json.dumps(document))
    guide.choose_file("Import chats", folder / "again.json")
    guide.wait("chats are imported", lambda: row("Again: Colours") is not None)
    guide.picture("imported")


def settings(guide: Guide) -> None:
    """The settings window and a preset."""
    window = guide.window
    guide.keys("ctrl+semicolon")
    guide.wait("the sampling options are open", lambda: window.options.isVisible())
    guide.click(window.options.fields["system_prompt"].widget)
    guide.write("Answer in one short sentence.")
    guide.later(0.8, "key", "Down", "Return")  # Save as…
    guide.click(window.options.presets.more)
    guide.wait("a preset can be named", lambda: window.options.presets.name.isVisible())
    guide.write("Terse")
    guide.keys("Return")
    guide.wait("the preset is made", lambda: [each.name for each in window.settings.presets] == ["Terse"])
    guide.picture("preset")
    guide.keys("Escape", "ctrl+comma")
    dialog = guide.dialog("SettingsWindow")
    guide.picture("settings")
    guide.write("system prompt")
    row = dialog.rows["system_prompt"]
    guide.wait(
        "a search leaves the settings that it finds", lambda: 0 < sum(each.isVisible() for each in dialog.rows.values()) < 5
    )
    guide.picture("settings-found")
    guide.click(row.reset)
    guide.wait("Reset sets one back", lambda: not window.settings.system_prompt and not row.reset.isVisible())
    guide.click(dialog.search)
    guide.keys("ctrl+a")
    guide.write("max tokens")
    guide.wait("another search", lambda: dialog.rows["max_tokens"].isVisible())
    guide.click(dialog.rows["max_tokens"].field.widget.lineEdit())
    guide.keys("ctrl+a")
    guide.write("24")
    guide.wait("a setting is changed at once", lambda: window.settings.max_tokens == 24)
    guide.picture("settings-changed")
    guide.keys("Escape")
    guide.palette("Terse")
    guide.wait("the preset is used from the palette", lambda: window.settings.system_prompt == "Answer in one short sentence.")


def attached(guide: Guide, folder: Path) -> None:
    """A text file, and the count of the context."""
    window = guide.window
    composer = window.composer
    (folder / "keeper.py").write_bytes(b"def keep(lamp):\r\n    return lamp.light()\r\n")
    guide.keys("ctrl+n")
    guide.choose_file("Attach", folder / "keeper.py")
    guide.wait("a file is attached, and counted", lambda: composer.chips and "token" in composer.chips[0].words.text())
    guide.wait("the context counts it", lambda: " of " in composer.context.text())
    before = composer.context.text()
    guide.write("What does this function return?")
    guide.wait("and what is typed", lambda: composer.context.text() != before)
    guide.picture("attached")
    guide.keys("Return")
    guide.wait("it is answered", lambda: window.session.turns and window.session.turns[0].answer.finish is not None)
    guide.picture("attached-answer")


def full(guide: Guide, folder: Path) -> None:
    """A conversation that is too long: refused, then without its oldest turn."""
    window = guide.window
    long = "The sea was grey and the lamp was out. " * 1100
    said = [("user", long), ("assistant", "So it was."), ("user", "Who saw it?"), ("assistant", "Nobody did.")]
    messages = [{"id": at + 1, "parent": at or None, "role": role, "text": text} for at, (role, text) in enumerate(said)]
    chat = {"title": "A long night", "messages": messages, "created": time.time(), "updated": time.time()}
    (folder / "long.json").write_text(json.dumps({"schema": "draftlight.chats/1", "conversations": [chat]}))
    guide.choose_file("Import chats", folder / "long.json")
    guide.wait("a long chat is imported", lambda: window.banner.action.isVisible() and window.banner.action.text() == "Show")
    guide.click(window.banner.action)
    guide.wait("Show opens it", lambda: len(window.session.turns) == 2)
    guide.click(window.composer.edit)
    guide.write("Why was it out?")
    guide.wait("the context says that it is full", lambda: "too long" in window.composer.context.text())
    guide.keys("Return")
    guide.wait("it is refused, with a way out", lambda: window.banner.action.isVisible() and len(window.session.turns) == 2)
    guide.picture("full")
    guide.click(window.banner.action)
    guide.wait("without the oldest turn it is answered", lambda: window.session.turns[-1].answer.finish is not None)
    guide.picture("left-out")


def views(guide: Guide) -> None:
    """Traces, reading view, comparison, keys, About, the light theme, and a smaller window with the charts."""
    window = guide.window
    guide.click(window.sidebar.traces)
    guide.dialog("TracesDialog")
    guide.picture("traces")
    guide.keys("Escape")
    guide.keys("F6")
    guide.wait("F6 shows the reading view", lambda: window.settings.reading)
    guide.picture("reading")
    guide.keys("F6", "F4")
    guide.wait("F4 shows the comparison", lambda: window.pages.comparing is not None)
    guide.picture("compare")
    guide.keys("F4", "F1")
    guide.dialog("ShortcutSheet")
    guide.picture("keys")
    guide.keys("Escape")
    guide.palette("About")
    guide.dialog("About")
    guide.picture("about")
    guide.keys("Escape")
    guide.palette("Light theme")
    guide.wait("the light theme", lambda: window.settings.appearance == "light")
    guide.picture("light")


def restart(guide: Guide) -> None:
    """The window comes back as it was left."""
    window = guide.window
    guide.keys("ctrl+2")
    guide.wait("Ctrl+2 shows the charts", lambda: window.settings.panel_page == "charts")
    guide.tell("windowsize", str(int(window.winId())), "1290", "760")
    guide.tell("windowmove", str(int(window.winId())), "90", "60")
    guide.wait("the window is smaller and stands elsewhere", lambda: (window.width(), window.height()) == (1290, 760))
    guide.rest(0.5)
    guide.keys("ctrl+b")
    guide.wait("Ctrl+B hides the chats", lambda: not window.sidebar.isVisible())
    shown, place = [turn.prompt for turn in window.session.turns], window.geometry()
    guide.picture("before-restart")
    guide.keys("ctrl+q")
    guide.wait("Ctrl+Q closes the window", lambda: not window.isVisible())
    guide.window = window = open_window()
    guide.wait("after a restart the chat is there again", lambda: [turn.prompt for turn in window.session.turns] == shown)
    guide.wait("and its rounds", lambda: all(not turn.answer.unread for turn in window.session.turns[-1:]))
    guide.wait("the window stands where it stood", lambda: window.geometry() == place)
    kept = window.settings
    guide.wait("in the light theme, without the chats", lambda: kept.appearance == "light" and not window.sidebar.isVisible())
    guide.wait("the charts are open", lambda: window.panel.charts.isVisible())
    guide.wait("without the tour", lambda: not window.tour.isVisible())
    guide.wait("the model is loaded", lambda: window.session.model is not None)
    guide.picture("restarted")
    window.close()


def tour(pictures: Path, folder: Path) -> None:
    """All of it, and a restart."""
    from app.window.launch import make_application

    guide = Guide(make_application(), pictures)
    guide.window = open_window()
    first_start(guide)
    messages(guide)
    chats(guide, folder)
    settings(guide)
    attached(guide, folder)
    full(guide, folder)
    views(guide)
    restart(guide)
    print(f"{guide.steps} steps, {guide.taken} pictures in {pictures}")


def main() -> None:
    """On a display of its own, then the tour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, default=Path("tour"), help="folder for the PNGs")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.pictures.mkdir(parents=True, exist_ok=True)
    if not asked.inside:
        sys.exit(on_display("tests.benchmarks.tour", sys.argv[1:]))
    from engine.files.paths import models_folder

    models = models_folder()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        if models.is_dir():
            (home / "models").symlink_to(models)
        os.environ["DRAFTLIGHT_HOME"] = str(home)
        tour(asked.pictures, Path(folder))


if __name__ == "__main__":
    main()
