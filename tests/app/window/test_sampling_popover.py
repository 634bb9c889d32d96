"""The sampling options: what they set, and that they can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractSpinBox, QApplication
from pytestqt.qtbot import QtBot

from app.window.sampling_popover import CHOICES
from engine.types import LoadFinished
from tests.app.driving import Open, ask, reset_options
from tests.app.fakes import MODEL


def test_options_reach_the_next_request(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    window.header.gamma.setValue(9)
    window.header.temperature.setValue(1.3)
    window.header.seed.lineEdit().setText("123")
    window.header.seed.editingFinished.emit()
    window.options.fields["top_p"].widget.setValue(0.9)
    window.options.fields["top_k"].widget.setValue(40)
    window.options.fields["max_tokens"].widget.setValue(64)
    window.options.fields["budget"].widget.setValue(6)
    window.options.fields["stop"].widget.setPlainText("END\n\\n\\n")
    window.options.fields["system_prompt"].widget.setPlainText("Be brief.")
    for name, entry in (("thinking", "Off"), ("kv_bits", "4 bits")):
        window.options.fields[name].widget.setCurrentText(entry)
    ask(qtbot, window)
    options, messages = engine.requests[0].options, engine.requests[0].messages
    assert (options.gamma, options.temperature, options.seed, options.top_p, options.top_k) == (9, 1.3, 123, 0.9, 40)
    assert (options.max_tokens, options.budget, options.stop) == (64, 6, ("END", "\n\n"))
    assert messages[0].content == "Be brief."
    assert (options.kv_bits, engine.requests[0].thinking) == (4, "off")
    reset_options(window)
    assert all(window.options.fields[name].widget.currentIndex() == 0 for name in CHOICES), "the first is the default"


def test_resetting_to_defaults_can_be_undone(qtbot: QtBot, share_window: Open) -> None:
    written = "You are a patient teacher.\n\nExplain every step. "
    window, _ = share_window(system_prompt=written, stop=("END",), top_k=40)
    before = window.settings
    reset_options(window)
    assert (window.settings.system_prompt, window.settings.stop, window.settings.top_k) == ("", (), 0)
    assert "reset" in window.banner.label.text()
    window.banner.action.click()
    assert window.settings == before and window.banner.isHidden()
    assert window.options.fields["system_prompt"].widget.toPlainText() == written
    reset_options(window)
    window.options.fields["system_prompt"].widget.setPlainText("Be brief.")
    assert window.banner.isHidden(), "Undo would replace what was written since"
    window.chat.change("system_prompt", "")
    reset_options(window)
    assert window.banner.isHidden(), "there was nothing to reset"


def test_thinking_is_disabled_if_the_template_has_no_switch(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    box = window.options.fields["thinking"].widget
    assert not box.isEnabled()
    assert "no switch" in box.toolTip()
    engine.say(LoadFinished(replace(MODEL, switches_thinking=True), 0.1))
    qtbot.waitUntil(box.isEnabled)
    assert "no switch" not in box.toolTip()


@pytest.mark.parametrize("scale", [1.0, 1.8])
def test_every_number_can_be_read_where_it_is_set(qtbot: QtBot, share_window: Open, scale: float) -> None:
    """Some versions of Qt leave the text of a spin box without buttons one pixel of room under a style sheet."""
    window, _ = share_window(gamma="auto", temperature=1.25, max_tokens=100_000, text_scale=scale)
    window.open_options()
    numbers = window.findChildren(QAbstractSpinBox)
    assert len(numbers) == 9
    for number in numbers:
        edit = number.lineEdit()
        assert number.isVisible()
        assert edit.width() >= edit.fontMetrics().horizontalAdvance(edit.text()), number.accessibleName()
        assert edit.geometry().intersected(number.rect()).width() >= edit.width() - 2
    window.options.close()


def test_the_options_have_their_final_height_when_first_opened(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    heights = []
    for _ in range(2):
        window.open_options()
        heights.append(window.options.height())
        window.options.close()
    assert heights[0] == heights[1]


@pytest.mark.parametrize(("room", "scrolls"), [(2000, False), (300, True)])
def test_the_options_scroll_on_a_low_screen(qtbot: QtBot, share_window: Open, room: int, scrolls: bool) -> None:
    window, _ = share_window()
    options = window.options
    window.open_options()
    options.fit(room)
    options.area.verticalScrollBar().setValue(0)
    QApplication.processEvents()
    assert options.height() <= room
    assert (options.area.verticalScrollBar().maximum() > 0) == scrolls
    last, view = options.fields["kv_bits"].widget, options.area.viewport()

    def in_view() -> bool:
        return view.rect().contains(last.mapTo(view, last.rect().center()))

    assert in_view() != scrolls
    options.fields["top_p"].widget.setFocus(Qt.FocusReason.TabFocusReason)
    while not last.hasFocus():
        focused = QApplication.focusWidget()
        assert focused is not None and focused.objectName() != "quietButton", "Tab comes past the last field"
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    assert in_view()
    window.options.close()
