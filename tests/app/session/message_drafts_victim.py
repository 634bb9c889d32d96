"""Runs a window with typed but unsent text until the test kills it."""

from __future__ import annotations

from app.session.settings import Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.chats import ChatStore
from tests.app.fakes import FakeEngine


def main() -> None:
    """Types, and waits."""
    application = make_application()
    window = Window(FakeEngine(), Settings(), None, "", ChatStore)
    window.show()
    window.composer.edit.insertPlainText("Half a message")
    application.exec()


if __name__ == "__main__":
    main()
