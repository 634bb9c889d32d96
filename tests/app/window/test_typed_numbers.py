"""Numbers are typed key by key, wherever the window takes them: what is typed is what comes into force, or it is said why not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtGui import QFontInfo
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.look.fields import NumberField
from app.window.settings_window import SettingsWindow
from app.window.window import Window
from tests.app.driving import Open, answered, ask, type_in, wait_for_answer
from tests.app.fakes import STORY, story_rounds
from tests.app.look.test_fields import wheel


@pytest.fixture
def german() -> Iterator[None]:
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.German, QLocale.Country.Germany))
    yield
    QLocale.setDefault(before)


def fields_of(window: Window) -> Iterator[tuple[str, str, NumberField]]:
    """Every number of the window by place and setting, its place opened."""
    header = window.header
    for name, field in (("temperature", header.temperature), ("gamma", header.gamma), ("seed", header.seed)):
        yield "header", name, field
    window.open_options()
    for name in ("top_p", "top_k", "min_p", "repetition_penalty", "max_tokens"):
        yield "options", name, number_of(window.options.fields[name].widget)
    window.options.close()
    window.open_settings()
    dialog = window.findChild(SettingsWindow)
    assert dialog is not None
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "gamma", "seed", "text_scale"):
        yield "settings", name, number_of(dialog.rows[name].field.widget)
    dialog.close()


def number_of(widget: QWidget) -> NumberField:
    assert isinstance(widget, NumberField)
    return widget


TYPED = {
    "temperature": (("0.8", 0.8), ("1.5", 1.5), ("0,35", 0.35)),
    "top_p": (("0.5", 0.5), (",95", 0.95)),
    "min_p": (("0.05", 0.05), ("0,125", 0.125)),
    "repetition_penalty": (("1.15", 1.15), ("1,05", 1.05)),
    "top_k": (("40", 40), ("0", 0)),
    "max_tokens": (("2048", 2048), ("7", 7)),
    "gamma": (("12", 12), ("auto", "auto")),
    "seed": (("9007199254740991", 2**53 - 1), (" 42 ", 42)),
    "text_scale": (("0.9", 0.9), ("1,1", 1.1)),
}
REFUSED = {
    "temperature": ("9", "-1", "abc", "1.2.3", "٣"),
    "top_p": ("7", "1.01"),
    "min_p": ("2",),
    "repetition_penalty": ("4",),
    "top_k": ("1.5", "1000001"),
    "max_tokens": ("1e3", "1000001"),
    "gamma": ("999", "65", "-1", "autos"),
    "seed": ("-4", "1e3", "4 2", "٣", "9007199254740992"),
    "text_scale": ("3",),
}


@pytest.mark.usefixtures("german")
def test_a_typed_number_sets_only_its_setting(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    for place, name, field in fields_of(window):
        for text, value in TYPED[name]:
            before = getattr(window.settings, name)
            type_in(qtbot, field, text, None)
            assert getattr(window.settings, name) == before, "no key alone sets anything"
            qtbot.keyClick(field, Qt.Key.Key_Tab if value == 7 else Qt.Key.Key_Return)
            assert getattr(window.settings, name) == value and field.setting == value, (place, name, text)
            assert not field.reason and not field.has_pending_text
        for text in REFUSED[name]:
            paste(field, text)
            assert field.text() == text and field.allowed.short in field.reason, (place, name, text)
            qtbot.keyClick(field, Qt.Key.Key_Return)
            assert getattr(window.settings, name) == value and field.text() == text and field.reason, "it can be mended"
            qtbot.keyClick(field, Qt.Key.Key_Escape)
            assert field.isVisible() and not field.reason and field.setting == value, "Escape restores the value"


def paste(field: NumberField, text: str) -> None:
    field.setFocus()
    field.selectAll()
    field.lineEdit().insert(text)  # what a paste does


def test_a_refused_number_is_replaced_by_the_value_with_a_reason(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(gamma=4, temperature=0.8)
    gamma = window.header.gamma
    type_in(qtbot, gamma, "999", Qt.Key.Key_Tab)
    assert not gamma.hasFocus() and (gamma.text(), window.settings.gamma) == ("4", 4)
    assert "“999”" in gamma.reason and gamma.allowed.short in gamma.reason and "stays 4" in gamma.reason
    type_in(qtbot, window.header.temperature, "", None)
    qtbot.keyClick(window.header.temperature, Qt.Key.Key_Delete)
    assert window.header.temperature.text() == "" and not window.header.temperature.reason
    window.composer.edit.setFocus()
    assert window.header.temperature.text() == "0.80" and "It stays 0.80." in window.header.temperature.reason
    type_in(qtbot, window.header.seed, "5")
    type_in(qtbot, window.header.seed, "", None)
    qtbot.keyClick(window.header.seed, Qt.Key.Key_Backspace)
    qtbot.keyClick(window.header.seed, Qt.Key.Key_Tab)
    assert window.settings.seed is None and not window.header.seed.reason, "an empty field is a random seed"


def test_numbers_are_typed_while_an_answer_runs_and_escape_does_not_stop_it(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(rounds=story_rounds(STORY * 20), temperature=0.3, gamma=4)
    engine.pause_after = 2
    ask(qtbot, window)
    answer = window.session.turns[0].answer
    qtbot.waitUntil(lambda: answer.tally.rounds == 2)
    temperature, gamma = window.header.temperature, window.header.gamma
    type_in(qtbot, gamma, "1", None)
    window.chat.received.emit([])  # whatever comes meanwhile brings the header up to date
    window.chat.changed.emit()
    assert gamma.text() == "1" and not answer.changes and window.settings.gamma == 4
    qtbot.keyClicks(gamma, "2")
    qtbot.keyClick(gamma, Qt.Key.Key_Escape)
    assert gamma.text() == "4" and window.session.running is answer, "the first Escape is the field's"
    type_in(qtbot, temperature, "0.85", None)
    qtbot.keyClick(temperature, Qt.Key.Key_Tab)
    assert window.settings.temperature == 0.85
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    assert answer.finish == "cancelled"


def test_a_typed_number_applies_before_a_command_runs(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    answered(qtbot, window)
    type_in(qtbot, window.header.temperature, "1.25", None)
    qtbot.keyClick(window.header.temperature, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert engine.requests[1].options.temperature == 1.25
    wait_for_answer(qtbot, window)
    window.composer.set_text("More.")
    type_in(qtbot, window.header.gamma, "9", None)
    window.composer.send.setFocus(Qt.FocusReason.MouseFocusReason)
    qtbot.mouseClick(window.composer.send, Qt.MouseButton.LeftButton)
    assert engine.requests[2].options.gamma == 9
    wait_for_answer(qtbot, window)
    type_in(qtbot, window.header.seed, "77", None)
    window.close()
    assert window.settings.seed == 77


def test_arrow_keys_step_within_the_range_and_the_wheel_only_with_the_keyboard(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(gamma=2, temperature=0.3)
    gamma, temperature = window.header.gamma, window.header.temperature
    type_in(qtbot, temperature, "0.5", Qt.Key.Key_Up)
    assert window.settings.temperature == 0.6, "what is typed counts first"
    type_in(qtbot, temperature, "5", Qt.Key.Key_Up)
    assert window.settings.temperature == 5
    type_in(qtbot, gamma, "2", Qt.Key.Key_Down)
    qtbot.keyClick(gamma, Qt.Key.Key_Down)
    assert (window.settings.gamma, gamma.text()) == ("auto", "auto")
    qtbot.keyClick(gamma, Qt.Key.Key_Down)
    qtbot.keyClick(gamma, Qt.Key.Key_Up)
    assert window.settings.gamma == 1
    wheel(gamma, 120)
    assert window.settings.gamma == 2
    wheel(temperature, -120)
    assert window.settings.temperature == 5, "it has not the keyboard"


def test_a_value_beyond_the_range_is_shown_as_it_is(qtbot: QtBot, open_window: Open) -> None:
    """As an older chat or the recommendation of a publisher may have it."""
    window, _ = open_window(temperature=7.125)
    assert window.header.temperature.text() == "7.125"
    window.header.temperature.setFocus()
    qtbot.keyClick(window.header.temperature, Qt.Key.Key_Tab)
    assert window.settings.temperature == 7.125, "who passes by changes nothing"


def test_numbers_keep_their_font_whatever_the_theme(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    window.pages.toggle()
    fields = window.findChildren(NumberField)
    assert len(fields) > 3
    window.pages.toggle()
    window.chat.change("seed", 7)
    first = {field: QFontInfo(field.lineEdit().font()).family() for field in fields}
    assert all(first[field] == QFontInfo(field.font()).family() for field in fields)
    assert first[window.header.gamma] == first[window.header.seed] != QFontInfo(window.header.drafter.font()).family()
    for theme in ("light", "dark"):
        window.chat.change("appearance", theme)
        assert {field: QFontInfo(field.lineEdit().font()).family() for field in fields} == first
