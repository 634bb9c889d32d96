"""The About dialog: a short description, the versions in use, and the folders of data and log."""

from __future__ import annotations

from PySide6 import __version__ as pyside_version
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialogButtonBox, QLabel, QWidget

from app.export.dialog import show_folder
from app.look import theme as themes
from app.look.widgets import TransientDialog, in_column, in_row, named
from engine.files.paths import data_folder
from engine.machine import provenance
from engine.machine.mlx_import import device_name

DESCRIPTION = (
    "A chat window for local language models that uses speculative decoding and shows it as it happens. Everything stays on this "
    "computer. MIT License; what is built in or downloaded has its own terms, see NOTICE."
)


def versions() -> str:
    """Returns versions and machine, one per line, for a problem report."""
    hardware = provenance.hardware()
    found = {**provenance.versions(), "PySide6": pyside_version}
    machine = ", ".join(str(hardware[name]) for name in ("processor", "machine") if hardware[name])
    lines = [f"{name} {value}" for name, value in found.items() if value and name != "platform"]
    cores = f"{hardware['cores']} {'core' if hardware['cores'] == 1 else 'cores'}"
    return "\n".join([*lines, str(found["platform"]), f"{machine}, {cores}", f"MLX computes on {device_name()}"])


class About(TransientDialog):
    """Shows name, version, licence, the versions of dependencies, and the data folder."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, "about", "About Draftlight")
        icon = QLabel(pixmap=themes.app_icon().pixmap(64, 64))
        name = named(QLabel(f"Draftlight {provenance.version()}"), "aboutName")
        description = QLabel(DESCRIPTION, wordWrap=True)
        self.versions = named(
            QLabel(
                f"{versions()}\n\nData folder: {data_folder()}",
                textFormat=Qt.TextFormat.PlainText,
                wordWrap=True,
                textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse
                | Qt.TextInteractionFlag.TextSelectableByKeyboard,
            ),
            "aboutVersions",
        )
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        self.copy_button = buttons.addButton("Copy versions", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(versions()))
        folder_button = buttons.addButton("Data folder", QDialogButtonBox.ButtonRole.ActionRole)
        folder_button.clicked.connect(lambda: show_folder(data_folder()))
        in_column(
            in_row((icon, 0, Qt.AlignmentFlag.AlignTop), (in_column(name, description, spacing=4), 1), spacing=18),
            self.versions,
            buttons,
            spacing=16,
            margins=(24, 22, 24, 16),
            parent=self,
        )
        self.setFixedWidth(34 * self.fontMetrics().lineSpacing())
