"""The controls in the header, and the line below them that says what the rule does."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.window.window import Window
from engine.types import RULES
from engine.values.drafter_kinds import DRAFTERS
from tests.app.driving import Open, answered, ask, at_rest, choose, settle, status, wait_for_answer


def places(window: Window) -> dict[str, tuple[int, int, int, int]]:
    """Where everything is, without what an editor's own parts do."""
    found = {}
    for number, widget in enumerate(window.findChildren(QWidget)):
        if widget.isVisible() and widget.window() is window:
            corner = widget.mapTo(window, QPoint(0, 0))
            found[f"{number} {widget.objectName()} {widget.accessibleName()}"] = (
                corner.x(),
                corner.y(),
                widget.width(),
                widget.height(),
            )
    return found


def test_tab_reaches_the_rule_in_force(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(rule="rejection")
    window.header.drafter.setFocus()
    qtbot.keyClick(window.header.drafter, Qt.Key.Key_Tab)
    assert window.header.rule.buttons["rejection"].hasFocus()
    qtbot.keyClick(window.header.rule.buttons["rejection"], Qt.Key.Key_Right)
    assert window.settings.rule == "gumbel"
    assert window.header.rule.buttons["gumbel"].hasFocus()


def test_a_note_explains_rules_that_coincide(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    header = window.header
    assert header.rule_note.startswith("Gumbel: ")
    window.header.temperature.setValue(0)
    assert "temperature 0" in header.rule_note
    window.header.temperature.setValue(0.8)
    choose(window.header.drafter, "none")
    assert "Without a drafter" in header.rule_note
    choose(window.header.drafter, "ngram")
    assert "without probabilities" in header.rule_note
    choose(window.header.drafter, "head")
    window.header.rule.buttons["rejection"].click()
    assert header.rule_note.startswith("Rejection: ")
    header.strip.help.click()
    assert header.rule_note in header.strip.popover.explanation.text()


def test_the_note_on_the_rules_describes_the_running_answer(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "Generating, round 2" in status(window))
    window.header.temperature.setValue(0)
    assert "draw with the same noise" in window.header.rule_note
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    assert "draw with the same noise" in window.header.rule_note, "it goes on describing the answer that was given"
    window.chat.new()
    assert "At temperature 0" in window.header.rule_note


def test_gamma_below_one_is_automatic(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    window.header.gamma.setValue(0)
    assert window.header.gamma.text() == "auto"
    ask(qtbot, window)
    assert engine.requests[0].options.gamma == "auto"


def test_a_drawn_seed_is_shown_and_can_be_pinned(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    answered(qtbot, window)
    assert window.header.seed.text() == ""
    assert window.header.seed.lineEdit().placeholderText() == "random (last 4242)"
    assert not window.header.pin.isChecked()
    assert "4242" in window.header.pin.toolTip()
    qtbot.mouseClick(window.header.pin, Qt.MouseButton.LeftButton)
    assert window.header.seed.text() == "4242"
    window.messages.regenerate()
    assert engine.requests[1].options.seed == 4242
    wait_for_answer(qtbot, window)
    qtbot.mouseClick(window.header.pin, Qt.MouseButton.LeftButton)
    assert window.settings.seed is None


@pytest.mark.parametrize("width", [560, *(pytest.param(width, marks=pytest.mark.full) for width in (700, 1440)), 1000])
def test_nothing_moves_when_a_control_gets_the_keyboard(qtbot: QtBot, share_window: Open, width: int) -> None:
    window, _ = share_window()
    window.resize(width, 800)
    for page in ("chat", "compare"):
        if page == "compare":
            window.pages.open_compare()
        window.setFocus()
        settle()
        before = places(window)
        kinds = (QComboBox, QAbstractSpinBox, QLineEdit, QAbstractButton)
        controls = [control for kind in kinds for control in window.findChildren(kind) if control.isVisible()]
        assert len(controls) > 12
        for control in controls:
            control.setFocus()
            settle()
            assert places(window) == before, control.accessibleName()


@pytest.mark.usefixtures("fonts")
def test_nothing_moves_when_another_drafter_or_rule_is_chosen(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(rule="match")
    watched = [
        *window.header.rule.buttons.values(),
        window.header.gamma,
        window.header.seed,
        window.column.stack,
        window.composer,
    ]

    def where() -> list[tuple[QPoint, int]]:
        settle()
        return [(widget.mapTo(window, QPoint(0, 0)), widget.width()) for widget in watched]

    for width in (560, 700, 900, 1276, 1440):
        window.resize(width, 800)
        before = at_rest(qtbot, where)
        for drafter in DRAFTERS:
            window.chat.change("drafter", drafter)
            assert where() == before, (width, drafter)
            for rule in RULES:
                window.chat.change("rule", rule)
                assert where() == before, (width, drafter, rule)


@pytest.mark.usefixtures("fonts")
def test_the_header_has_one_row_on_an_ordinary_screen(share_window: Open) -> None:
    window, _ = share_window()
    chips = [window.header.target.parentWidget(), window.header.seed.parentWidget()]
    for width in (1276, 1330, 1400, 1440):
        window.resize(width, 800)
        settle()
        assert chips[0].y() == chips[1].y(), width  # type: ignore[union-attr]


@pytest.mark.usefixtures("fonts")
def test_large_text_in_the_smallest_window_cuts_no_rule(share_window: Open) -> None:
    window, _ = share_window(text_scale=1.5)
    window.resize(1, 1)
    settle()
    for button in window.header.rule.buttons.values():
        assert button.width() >= button.sizeHint().width(), button.text()
