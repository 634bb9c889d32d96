"""Runs a window that asks in a new chat and keeps it open, until the test kills or closes it."""

from __future__ import annotations

import sys
from functools import partial

from PySide6.QtCore import QSocketNotifier

from app.session.settings import load, settings_path
from app.window.launch import make_application
from app.window.window import Window
from engine.chats import ChatStore
from tests.app.window.test_chats import TracingEngine


def main() -> None:
    """Asks, says what is stored, and does what it is told. With --hold the answer never comes."""
    application = make_application()
    engine = TracingEngine()
    engine.hold = "--hold" in sys.argv
    path = settings_path()
    window = Window(engine, load(path)[0], path, "", partial(ChatStore, wait=5.0))
    window.show()
    window.chat.models.load()
    window.chat.recorder.written.connect(lambda: print("stored", flush=True))
    window.send("Of the other window")
    asked = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read)

    def obey() -> None:
        """Changes a setting, or closes."""
        words = sys.stdin.readline().split()
        if not words or words[0] == "close":
            asked.setEnabled(False)
            window.close()
            application.quit()
        else:
            window.chat.preferences.set(**{words[0]: float(words[1])})
            print("kept", flush=True)

    asked.activated.connect(obey)
    application.exec()


if __name__ == "__main__":
    main()
