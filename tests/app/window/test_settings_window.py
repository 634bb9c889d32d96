"""The settings window: all of the table is in it, it can be searched, acts at once, and sets things back."""

from __future__ import annotations

import stat
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QComboBox, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.look.fields import NumberField
from app.session import settings as stored
from app.session.setting_table import BY_NAME, REMEMBERED, SETTINGS, Choice, Number
from app.session.settings import Settings
from app.window.settings_window import SettingsWindow
from engine.files.logs import log_path
from engine.files.paths import data_folder
from engine.types import RANGES, LoadFinished
from tests.app.driving import Open, settle
from tests.app.fakes import MODEL
from tests.app.look.test_large_text import cut_off


def shown(window: SettingsWindow) -> list[str]:
    return [name for name, row in window.rows.items() if row.isVisible()]


def test_every_setting_is_described_once_or_only_remembered() -> None:
    names = [setting.name for setting in SETTINGS] + list(REMEMBERED)
    assert sorted(names) == sorted(field.name for field in fields(Settings))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_controls_offer_exactly_the_allowed_values(setting: Any) -> None:
    match setting.form:
        case Number():
            allowed = RANGES[setting.name]
            kind = int if allowed.whole else float
            wanted: list[Any] = [kind(allowed.lowest), kind(allowed.highest)]
        case Choice(entries):
            wanted = [value for _, value in entries]
        case _:
            wanted = [Settings().default(setting.name)]
    for value in wanted:
        assert getattr(Settings(**{setting.name: value}), setting.name) == value
    assert Settings().default(setting.name) == getattr(Settings(), setting.name)
    titles = [title for title, _ in setting.form.entries] if isinstance(setting.form, Choice) else []
    said = [setting.said(value) for value in wanted]
    assert said == titles or not {"", "None", "True", "False", "()"}.intersection(said), "as its control shows it"


def test_settings_apply_at_once_can_be_searched_and_reset(
    qtbot: QtBot, open_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(path=path)
    qtbot.keyClick(window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    dialog = window.findChild(SettingsWindow)
    assert dialog is not None and dialog.isVisible() and shown(dialog) == list(BY_NAME)
    assert dialog.focusWidget() is dialog.search

    dialog.search.setText("LIKELY tokens")
    assert shown(dialog) == ["top_p", "top_k", "min_p", "repetition_penalty"]
    dialog.search.setText("no such thing")
    assert (
        shown(dialog) == [] and "No settings match “no such thing”" in dialog.no_matches.text() and dialog.no_matches.isVisible()
    )
    dialog.search.clear()

    def field(name: str) -> Any:
        return dialog.rows[name].field.widget

    top_k, theme, system, panel = field("top_k"), field("appearance"), field("system_prompt"), field("side_panel")
    assert isinstance(top_k, NumberField) and isinstance(theme, QComboBox) and isinstance(system, QPlainTextEdit)
    top_k.setValue(40)
    theme.setCurrentText("Light theme")
    system.setPlainText("Be brief.")
    panel.click()
    field("gamma").setValue(3)
    field("reading").click()
    field("text_scale").setValue(1.2)
    now = window.settings
    assert (now.top_k, now.appearance, now.system_prompt, now.side_panel) == (40, "light", "Be brief.", False)
    assert (now.gamma, now.reading, now.text_scale) == (3, True, 1.2)
    assert window.transcript.reading and window.panel.isHidden() and window.options.fields["top_k"].widget.value() == 40
    assert window.header.gamma.value() == 3, "every place that shows a setting shows it"
    window.header.gamma.setValue(5)
    assert field("gamma").value() == 5
    assert stored.load(path)[0] == window.settings
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    reset = dialog.rows["top_k"].reset
    assert reset.isVisible() and "default: 0" in reset.toolTip() and not dialog.rows["min_p"].reset.isVisible()
    reset.click()
    assert window.settings.top_k == 0 and not reset.isVisible()
    engine.say(LoadFinished(replace(MODEL, sampling=(("top_k", 20),)), 0.1))
    qtbot.waitUntil(lambda: window.settings.top_k == 20)
    top_k.setValue(7)
    reset.click()
    assert window.settings.top_k == 20, "the default is what the model recommends"

    changed = window.settings
    dialog.reset_all.setFocus()
    dialog.reset_all.click()
    assert dialog.focusWidget() is dialog.reset_all, "the key that reset them undoes it"
    assert all(getattr(window.settings, name) == window.settings.default(name) for name in BY_NAME)
    assert window.settings.target == changed.target, "what is only remembered stays"
    dialog.reset_all.click()
    assert window.settings == changed, "and all of it can be undone"

    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    dialog.data.click()
    dialog.logs.click()
    assert [Path(url.toLocalFile()) for url in opened] == [data_folder(), log_path().parent]
    assert all(Path(url.toLocalFile()).is_dir() for url in opened)
    dialog.close()


@pytest.mark.parametrize(
    ("name", "written"), [("system_prompt", "Two lines\nthat took me long. "), ("stop", ("one\ntwo", "three"))]
)
def test_the_reset_of_a_text_is_undone_with_the_same_button(qtbot: QtBot, share_window: Open, name: str, written: object) -> None:
    window, _ = share_window(**{name: written})
    window.open_settings()
    dialog = window.findChild(SettingsWindow)
    assert dialog is not None
    row = dialog.rows[name]
    row.reset.setFocus()
    qtbot.keyClick(row.reset, Qt.Key.Key_Space)
    assert not getattr(window.settings, name) and (row.reset.text(), row.reset.isVisible()) == ("Undo", True)
    qtbot.keyClick(dialog.focusWidget(), Qt.Key.Key_Space)
    assert getattr(window.settings, name) == written and row.reset.text() == "Reset"
    row.reset.click()
    window.chat.change("top_k", 40)
    dialog.reset_all.click()
    dialog.reset_all.click()
    assert window.settings.top_k == 40 and row.reset.text() == "Undo", "another reset does not take it away"
    assert isinstance(row.field.widget, QPlainTextEdit)
    row.field.widget.setPlainText("Something else")
    assert row.reset.text() == "Reset"
    row.field.widget.clear()
    assert not row.reset.isVisible(), "what was written last has an undo of its own"
    dialog.close()


@pytest.mark.usefixtures("fonts")
def test_with_large_text_in_a_narrow_window_nothing_is_cut_off(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(text_scale=RANGES["text_scale"].highest)
    window.open_settings()
    dialog = window.findChild(SettingsWindow)
    assert dialog is not None
    for width in (560, 900):
        dialog.resize(width, 600)
        settle()
        assert not list(cut_off(dialog))
        assert dialog.area.widget().width() <= dialog.area.viewport().width()
    dialog.close()


def test_writing_makes_the_settings_file_private(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(0o644)
    stored.save(path, Settings(system_prompt="A secret."))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
