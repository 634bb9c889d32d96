"""Starts the window."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from dataclasses import replace
from functools import partial

import pyqtgraph as pg
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QApplication

from app.compare import column_text
from app.conversation import screen_reader
from app.look import theme as themes
from app.session import settings as stored
from app.session.lazy_engine import LazyEngine
from app.session.machines import split_launch
from app.session.settings import Settings
from app.window.dropping import OpenedFiles
from app.window.new_window import cascade_geometry
from app.window.window import Window
from engine.chats import ChatStore
from engine.machine.macos import name_program
from engine.rounds.trace import Trace
from engine.runtime.interface import EngineLike
from engine.runtime.process.client import RESTART_NOTE, ProcessEngine
from engine.runtime.process.launch import Launch, is_python
from engine.runtime.worker import Engine
from engine.values.drafter_kinds import default_drafter

_log = logging.getLogger(__name__)


def run(arguments: argparse.Namespace) -> int:
    """Runs the window until it is closed; returns the exit status. `arguments` are those of `make_window`."""
    application = make_application()
    opened = OpenedFiles(application)
    window = make_window(arguments)
    window.first_painted.connect(lambda: opened.deliver_to(window.drop_handler.open))
    previous = signal.signal(signal.SIGINT, lambda *_: window.close())
    window.show()
    status = application.exec()
    signal.signal(signal.SIGINT, previous)
    if window.ended_in_time is False:
        _log.warning("The engine had not ended when the window closed")
    window.deleteLater()
    return status


def make_window(arguments: argparse.Namespace) -> Window:
    """Returns the window with its stored settings, not shown yet; on the first start it begins with the tour.

    Args:
        arguments: `target` and `drafter` override the settings. A `trace` is replayed, and no engine starts until the user leaves
            the replay.
    """
    path = stored.settings_path()
    is_new = not path.exists()
    settings, note = stored.load(path)
    trace: Trace | None = getattr(arguments, "trace", None)
    settings = replace(with_arguments(settings, arguments), geometry=cascade_geometry(settings.geometry))
    window = Window(LazyEngine(engine_for, settings), settings, path, note, ChatStore)
    if trace is None:
        uses_chat_models = not (getattr(arguments, "target", None) or getattr(arguments, "drafter", None))
        window.first_painted.connect(partial(window.chats.restore, uses_chat_models))
        window.first_painted.connect(window.sidebar.start)
        if is_new:
            window.first_painted.connect(window.show_tour)
    else:
        window.replay_controller.show(trace)
    return window


def engine_for(settings: Settings, after: threading.Event | None = None) -> EngineLike:
    """Returns the engine that the settings ask for. It starts requests only once `after` is set: the previous engine has then
    freed its memory."""
    if settings.split:
        return ProcessEngine(split_launch(), after=after, restart_note=RESTART_NOTE)
    if settings.separate_process:
        return ProcessEngine(Launch(arguments={"measures": True}), after=after, restart_note=RESTART_NOTE)
    return Engine(measures=True, after=after)


SWITCH_SECONDS = 0.0003
"""Python's thread switch interval in seconds. A round often needs the GIL; with the default of 5 ms it waited for many repaints,
and answers were 7 to 13 % slower with every view open."""


def make_application() -> QApplication:
    """Returns the only QApplication, with Draftlight's style and icon."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # Numbers use a decimal point everywhere: in a locale with decimal commas, a typed 0.7 would become 0.
    QLocale.setDefault(QLocale.c())
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    existing = QApplication.instance()
    application = existing if isinstance(existing, QApplication) else _new_application()
    # By default, Tab on a Mac skips buttons and the tabs of the panel.
    application.styleHints().setTabFocusBehavior(Qt.TabFocusBehavior.TabFocusAllControls)
    return application


def _new_application() -> QApplication:
    if is_python():
        name_program("Draftlight")  # else a Mac's menu bar shows the name of the interpreter
    application = QApplication(sys.argv)  # macOS also sends file arguments as open events, which Qt drops if it has argv
    application.setApplicationName("draftlight")
    application.setApplicationDisplayName("Draftlight")
    application.setDesktopFileName("draftlight")
    application.setStyle("Fusion")
    if is_python():  # else it would replace the application's own icon in the Dock
        application.setWindowIcon(themes.app_icon())
    screen_reader.install()
    column_text.install()
    pg.setConfigOptions(antialias=False)
    return application


def with_arguments(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Returns the settings with the target and drafter of the command line."""
    target = getattr(arguments, "target", None)
    drafter = getattr(arguments, "drafter", None)
    if target is not None and target != settings.target:
        settings = replace(settings, target=target, drafter=drafter or default_drafter())
    return settings if drafter is None else replace(settings, drafter=drafter)
