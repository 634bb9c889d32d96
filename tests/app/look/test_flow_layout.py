"""Rows that wrap: where each widget goes, with sizes that no font decides."""

from __future__ import annotations

from PySide6.QtCore import QRect
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.look.flow_layout import FlowLayout


def test_rows_below_a_corner_have_its_width_too(qtbot: QtBot) -> None:
    whole = QWidget()
    qtbot.addWidget(whole)
    flow = FlowLayout(10, corner=True)
    flow.setContentsMargins(0, 0, 0, 0)
    whole.setLayout(flow)
    parts = [QWidget() for _ in range(4)]
    for part, size in zip(parts, ((100, 30), (100, 30), (240, 30), (50, 40)), strict=True):
        part.setFixedSize(*size)
        flow.addWidget(part)
    first, second, wide, _ = parts

    def places(width: int) -> list[tuple[int, int]]:
        flow.setGeometry(QRect(0, 0, width, flow.heightForWidth(width)))
        return [(part.x(), part.y()) for part in parts if not part.isHidden()]

    assert places(270) == [(0, 5), (110, 5), (0, 48), (220, 0)]
    assert flow.heightForWidth(270) == 40 + 8 + 30
    assert places(269) == [(0, 5), (0, 48), (0, 86), (219, 0)], "the second has no room beside the corner, the third none there"
    assert places(1000) == [(0, 5), (110, 5), (220, 5), (950, 0)]
    wide.hide()
    assert places(270) == [(0, 5), (110, 5), (220, 0)]
    first.hide()
    second.hide()
    assert places(270) == [(220, 0)] and flow.heightForWidth(270) == 40
