"""Exports a comparison: the answers with their rounds in one file of any format, or the samples as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.compare.comparison import Comparison
from app.compare.difference_line import result_sentences
from app.compare.sample_tally import Sampling, write_samples
from app.export.dialog import ask_for_file, busy_pointer, replace_prompt, show_folder_action, start_folder, theme_of
from app.export.kinds import ExportKind, export_session, free_name, kind_named
from app.look.banner import Banner
from app.session.settings import Settings
from engine.exports.formats import named_as
from engine.values.errors import DraftlightError


class ComparisonExporter(QObject):
    """Asks for a file, writes it, and reports in the banner where it is.

    Signals:
        exported: (folder, kind) folder and format of an export of answers.
    """

    exported = Signal(str, str)

    def __init__(self, settings: Callable[[], Settings], banner: Banner, parent: QWidget) -> None:
        super().__init__(parent)
        self._settings, self._banner, self._parent = settings, banner, parent

    def ask(self, shown: Comparison | Sampling) -> None:
        """Asks for a file and exports to it. Answers without a trace cannot be exported."""
        settings = self._settings()
        if isinstance(shown, Sampling):
            proposed = str(start_folder(settings.export_folder) / "draftlight-samples.json")
            name, _ = QFileDialog.getSaveFileName(self._parent, "Export", proposed, "JSON (*.json)")
            if name:
                path = Path(name)
                self.write_samples(shown, path if path.suffix.lower() == ".json" else free_name(named_as(path, ".json")))
        elif shown.traces:
            chosen = ask_for_file(self._parent, settings.export_folder, kind_named(settings.export_kind), "comparison")
            if chosen is not None:
                self.write_answers(shown, *chosen)

    def write_samples(self, samples: Sampling, path: Path) -> None:
        """Writes the samples to a file and reports it."""
        self._written(lambda: (write_samples(path, samples.setup, samples.target, samples.tallies),))

    def write_answers(self, comparison: Comparison, kind: ExportKind, path: Path) -> None:
        """Writes the answers of all columns to one file and reports it."""
        settings, may_replace = self._settings(), replace_prompt(self._parent)
        if self._written(
            lambda: export_session(
                comparison.traces,
                path,
                kind,
                theme_of(settings),
                comparison.plain_runs,
                settings.compare_ghosts,
                compared=True,
                may_replace=may_replace,
                verdict=result_sentences(comparison),
            )
        ):
            self.exported.emit(str(path.parent), kind.id)

    def _written(self, write: Callable[[], tuple[Path, ...]]) -> bool:
        try:
            with busy_pointer():
                written = write()
        except DraftlightError as error:
            self._banner.show_message(str(error), "error")
            return False
        if not written:
            return False
        self._banner.show_message(f"Comparison saved to {' and '.join(str(name) for name in written)}.", "note")
        action = show_folder_action(written[0].parent)
        self._banner.show_action(action.title, action.act, action.keeps_message)
        return True
