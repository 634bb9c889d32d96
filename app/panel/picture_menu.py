"""Images from the window: a chart as PNG or SVG, all charts at once, and the share card."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from app.export import pictures
from app.export.dialog import busy_pointer, replace_prompt, show_folder_action, start_folder
from app.export.kinds import PICTURES, free_name
from app.export.raster import to_image
from app.look.banner import Banner
from app.look.command import set_availability
from app.look.theme import Theme
from app.look.widgets import named
from app.session.chat import Chat
from app.session.cursor import ShownAnswer
from app.session.session import Answer
from engine.exports import export
from engine.exports.formats import named_as
from engine.lens.chart_kinds import CHARTS, ChartName
from engine.rounds.trace import Trace
from engine.values.errors import DraftlightError

NO_ANSWER = "There is no answer yet."
KINDS = {".png": "PNG image (*.png)", ".svg": "SVG image (*.svg)"}


class PictureMenu(QObject):
    """The actions that save or copy a chart or an answer as an image. Images have the colours of the window.

    Signals:
        definition_requested: (key, screen position) what the chart means.
    """

    definition_requested = Signal(str, QPoint)

    def __init__(self, chat: Chat, shown: ShownAnswer, banner: Banner, parent: QWidget) -> None:
        super().__init__(parent)
        self._chat, self._shown, self._banner, self._parent = chat, shown, banner, parent
        self._theme = "dark"
        self._chart: ChartName = "proposals"
        self.menu = named(QMenu(parent, toolTipsVisible=True), label="Chart options")
        self.save_png = self.menu.addAction("Save as PNG…", partial(self._save_chart, ".png"))
        self.save_svg = self.menu.addAction("Save as SVG…", partial(self._save_chart, ".svg"))
        self.copy = self.menu.addAction("Copy image", self._copy_chart)
        self.menu.addAction("What this means", self._explain)

    def set_look(self, theme: Theme) -> None:
        """Sets the theme of images."""
        self._theme = theme.name

    # One chart.

    @Slot(str, QPoint)
    def open_menu(self, chart: ChartName, position: QPoint) -> None:
        """Opens the menu of a chart at a screen position."""
        self._chart, self._position = chart, position
        has_answer = self._answer() is not None
        for action in (self.save_png, self.save_svg, self.copy):
            set_availability(action, "" if has_answer else NO_ANSWER)
        self.menu.popup(position)

    def chart_svg(self, chart: ChartName) -> str:
        """Returns a chart of the shown answer as SVG; empty without an answer."""
        trace = self._trace()
        return "" if trace is None else pictures.chart_svg(trace, chart, self._theme)

    def _save_chart(self, ending: str) -> None:
        svg = self.chart_svg(self._chart)
        path = self._ask_for_path(CHARTS[self._chart].title, self._chart, ending) if svg else None
        if path is not None:
            self._write(partial(pictures.save, svg, path), path)

    @Slot()
    def _copy_chart(self) -> None:
        if svg := self.chart_svg(self._chart):
            QGuiApplication.clipboard().setImage(to_image(svg, pictures.PNG_FACTOR))
            self._chat.say(f"“{CHARTS[self._chart].title}” was copied as an image.")

    @Slot()
    def _explain(self) -> None:
        self.definition_requested.emit(CHARTS[self._chart].key, self._position)

    # All charts.

    @Slot()
    def save_charts(self) -> None:
        """Saves every chart of the shown answer to a folder, as PNG and as SVG."""
        if (trace := self._trace_or_note()) is None:
            return
        start = str(start_folder(self._chat.settings.export_folder))
        chosen = QFileDialog.getExistingDirectory(self._parent.window(), "Choose a folder for the images", start)
        if chosen:
            folder = Path(chosen)
            write = partial(pictures.save_charts, trace, folder, self._theme, replace_prompt(self._parent.window()))
            self._write(write, folder / "charts")

    @Slot()
    def save_card(self) -> None:
        """Saves the share card of the shown answer."""
        if (trace := self._trace_or_note()) is None:
            return
        path = self._ask_for_path("Share card", "card", ".png")
        if path is not None:
            card = PICTURES["card"]
            self._write(partial(export.write, [trace], card, path, theme=self._theme, ghosts=self._chat.settings.ghosts), path)

    # Helpers.

    def _answer(self) -> Answer | None:
        """Returns the shown answer; None if there is none or it has no rounds to draw."""
        answer = self._shown.answer
        return answer if answer is not None and answer.rounds else None

    def _trace(self) -> Trace | None:
        """Returns the trace that images are drawn from; None without an answer. Reads a file, which is slow for a long answer."""
        answer, session = self._answer(), self._chat.session
        return None if answer is None else pictures.trace_of(session.turns[self._shown.turn], session.plain_run(answer))

    def _ask_for_path(self, title: str, name: str, ending: str) -> Path | None:
        """Asks for the path of an image; returns None if the dialog was cancelled."""
        answer = self._answer()
        stem = "answer" if answer is None or not answer.trace_path else Path(answer.trace_path).stem
        offered = start_folder(self._chat.settings.export_folder) / f"draftlight-{stem}-{name}{ending}"
        filters = ";;".join(KINDS.values())
        chosen, kind = QFileDialog.getSaveFileName(self._parent.window(), title, str(offered), filters, KINDS[ending])
        if not chosen:
            return None
        path = Path(chosen)
        if path.suffix.lower() in KINDS:
            return path
        return free_name(named_as(path, next((suffix for suffix, title in KINDS.items() if title == kind), ending)))

    def _write(self, write: Callable[[], object], path: Path) -> None:
        try:
            with busy_pointer():
                if not write():
                    return
        except DraftlightError as error:
            self._chat.say(str(error), "error")
            return
        written = f"{path}" if path.suffix else f"{len(CHARTS)} charts in {path.parent}"
        self._chat.preferences.set(export_folder=str(path.parent))
        self._chat.say(f"Saved: {written}.", action=show_folder_action(path.parent))

    def _trace_or_note(self) -> Trace | None:
        """Returns the trace that images are drawn from; None, with a message to the user, if there is nothing to draw."""
        trace = self._trace()
        if trace is None:
            self._chat.say(NO_ANSWER)
        return trace
