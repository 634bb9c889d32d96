"""Fields take what a person types, and a wheel that passes over them changes nothing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QSlider, QWidget
from pytestqt.qtbot import QtBot

from app.look.fields import BudgetBox, GammaBox, SeedField
from tests.app.driving import Open, type_in


@pytest.mark.parametrize("typed", ["auto", "a", "au", "AUTO", "Auto", "0"])
def test_auto_can_be_typed(typed: str, qtbot: QtBot) -> None:
    box = GammaBox()
    qtbot.addWidget(box)
    box.show()
    box.selectAll()
    qtbot.keyClicks(box, "7")
    assert box.value() == 7
    box.selectAll()
    qtbot.keyClicks(box, typed)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert (box.value(), box.text()) == (0, "auto")


@pytest.mark.parametrize("typed", ["b", "autos", "65", "999", "-1", "u", "1e1", "7.5"])
def test_nothing_else_becomes_auto(typed: str, qtbot: QtBot) -> None:
    box = GammaBox()
    qtbot.addWidget(box)
    box.show()
    box.setValue(7)
    box.selectAll()
    qtbot.keyClicks(box, typed)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert box.value() == 7 and box.text() == typed and "1 to 64, or auto" in box.reason


def test_auto_typed_in_the_header_is_requested(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(gamma=4)
    window.header.gamma.setFocus()
    window.header.gamma.selectAll()
    qtbot.keyClicks(window.header.gamma, "au")
    window.composer.edit.setFocus()
    assert window.settings.gamma == "auto"
    window.composer.set_text("Hello")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert engine.requests[0].options.gamma == "auto"


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("scale", [0.8, 1.0, 1.8])
@pytest.mark.parametrize("last", [7, 4242, 2**53 - 1])
def test_a_seed_that_was_drawn_does_not_look_typed(last: int, scale: float, qtbot: QtBot) -> None:
    field = SeedField()
    qtbot.addWidget(field)
    field.describe("A seed.")
    field.set_look(scale)
    field.show_last(last)
    assert field.seed is None and field.text() == ""
    words = field.lineEdit().placeholderText()
    assert words == f"random (last {last})" if last < 10**6 else f"last {last}", "even the longest is named"
    assert field.fontMetrics().horizontalAdvance(words) <= field.width() - 4
    assert field.toolTip() == f"A seed. The last one was {last}."
    field.show_value(last)
    assert field.seed == last
    assert field.fontMetrics().horizontalAdvance(field.text()) <= field.width() - 4
    field.show_value(None)
    field.show_last(None)
    assert field.lineEdit().placeholderText() == "random"


def wheel(control: QWidget, by: int) -> None:
    middle = QPointF(control.rect().center())
    up = Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(
        middle,
        QPointF(control.mapToGlobal(middle.toPoint())),
        QPoint(),
        QPoint(0, by),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        up,
        False,
    )
    QApplication.sendEvent(control, event)


def value(control: QWidget) -> object:
    if isinstance(control, QComboBox):
        return control.currentIndex()
    return control.value() if isinstance(control, QSlider) else control.text()  # type: ignore[attr-defined]


def test_the_wheel_changes_no_control_without_the_keyboard(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(gamma=4)
    window.pages.open_compare()
    window.replay_controller.bar.show()
    controls = [control for kind in (QComboBox, QAbstractSpinBox, QSlider) for control in window.findChildren(kind)]
    assert len(controls) > 20
    window.setFocus()
    for control in controls:
        before = value(control)
        for by in (120, -120, -120):
            wheel(control, by)
            assert value(control) == before, control.accessibleName()
        assert control.focusPolicy() != Qt.FocusPolicy.WheelFocus, "it would get the keyboard"


def test_the_wheel_changes_a_control_that_has_the_keyboard(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(gamma=4)
    window.activateWindow()
    window.header.gamma.setFocus()
    qtbot.waitUntil(window.header.gamma.hasFocus)
    wheel(window.header.gamma, 120)
    assert window.header.gamma.value() == 5


def test_a_budget_is_a_number_automatic_or_a_chain(qtbot: QtBot) -> None:
    box = BudgetBox()
    qtbot.addWidget(box)
    box.show()
    taken: list[object] = []
    box.taken.connect(taken.append)
    for value, text in ((None, "chain"), ("auto", "auto"), (8, "8")):
        box.show_value(value)
        assert (box.text(), box.setting) == (text, value)
    for typed, value in (("chain", None), ("64", 64), ("a", "auto"), ("c", None), ("64", 64), ("0", "auto"), ("chain", None)):
        type_in(qtbot, box, typed)
        assert box.setting == value == taken[-1]
    type_in(qtbot, box, "65")
    assert "a whole number from 1 to 64, auto, or chain" in box.reason and box.setting is None
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    box.show_value(1)
    for _ in range(2):
        qtbot.keyClick(box, Qt.Key.Key_Down)
    assert box.setting is None and taken[-2:] == ["auto", None], "auto and chain are below 1"
