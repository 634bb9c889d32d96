"""Which typefaces are used where, and what they must be able to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QFontInfo, QFontMetricsF, QTextLayout
from PySide6.QtWidgets import QFrame, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.conversation.transcript import MEASURE, SAMPLE, Transcript
from app.look import theme as themes
from app.look import typefaces
from app.look.typefaces import CODE, TEXT, choose_family, load_bundled
from app.session.cursor import Cursor
from app.session.session import Session
from app.session.settings import Settings
from app.window.window import Window
from tests.app.driving import settle
from tests.app.fakes import FakeEngine

MOST_BYTES = 1_500_000


@pytest.mark.parametrize(
    ("wanted", "system", "platform", "available", "expected"),
    [
        (TEXT, ".AppleSystemUIFont", "darwin", (), ""),
        (CODE, "Menlo", "darwin", (), ""),
        (TEXT, "Segoe UI", "win32", ("Segoe UI",), ""),
        (CODE, "Courier New", "win32", ("Consolas", "Cascadia Mono"), "Cascadia Mono"),
        (CODE, "Courier New", "win32", ("Consolas",), "Consolas"),
        (CODE, "Courier New", "win32", (), CODE),
        (TEXT, "Cantarell", "linux", ("Cantarell",), ""),
        (TEXT, "DejaVu Sans", "linux", ("DejaVu Sans",), TEXT),
        (TEXT, "", "linux", (), TEXT),
        (CODE, "Ubuntu Mono", "linux", (), ""),
        (CODE, "Liberation Mono", "linux", (), CODE),
    ],
)
def test_good_system_fonts_are_used_and_others_replaced(
    wanted: str, system: str, platform: str, available: tuple[str, ...], expected: str
) -> None:
    assert choose_family(wanted, system, platform, available) == expected


def test_bundled_fonts_load_and_have_licences(qapp: object) -> None:
    assert {TEXT, CODE} <= set(load_bundled())
    files = list(typefaces.FONTS_FOLDER.iterdir())
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for name in ("OFL-inter.txt", "OFL-jetbrains-mono.txt"):
        licence = (typefaces.FONTS_FOLDER / name).read_text(encoding="utf-8")
        assert "SIL OPEN FONT LICENSE Version 1.1" in licence and licence.startswith("Copyright")
        assert "Reserved Font Name" not in licence.split("-----")[0], "no name is reserved"
    notice = (Path(__file__).parents[3] / "NOTICE").read_text(encoding="utf-8")
    assert TEXT in notice and CODE in notice and "assets/fonts/" in notice


def test_figures_keep_their_width_as_digits_change(qapp: object) -> None:
    metrics = QFontMetricsF(themes.figure_font(1.0, 19))
    assert len({metrics.horizontalAdvance(digit * 4) for digit in "0123456789"}) == 1


def test_code_has_no_ligatures(qapp: object) -> None:
    """The twin: the same face as its makers set it joins an arrow into one sign."""
    assert CODE in load_bundled(), "it is loaded here, since a Mac, which has a face of its own, has not done so"
    ours, theirs = themes.mono_font(1.0), themes.mono_font(1.0)
    for font in (ours, theirs):
        font.setFamilies([CODE])
    for tag in theirs.featureTags():
        theirs.unsetFeature(tag)
    glyphs = []
    for font in (ours, theirs):
        layout = QTextLayout("->-", font)
        layout.beginLayout()
        layout.createLine()
        layout.endLayout()
        glyphs.append([index for run in layout.glyphRuns() for index in run.glyphIndexes()])
    assert glyphs[0][0] == glyphs[0][2], "a hyphen is a hyphen"
    assert glyphs[0] != glyphs[1]


@pytest.mark.parametrize("scale", [0.8, 1.0, 1.8])
def test_a_line_of_the_conversation_holds_65_to_75_letters_and_a_few_more_in_a_wide_view(qtbot: QtBot, scale: float) -> None:
    transcript = Transcript(Session(), themes.LIGHT, scale, "all", Cursor())
    qtbot.addWidget(transcript)
    letter = QFontMetricsF(themes.reading_font(scale)).horizontalAdvance(SAMPLE) / len(SAMPLE)
    assert 65 <= transcript.column_in(round(800 * scale)).width() / letter <= 75
    assert 80 <= transcript.column_in(round(1300 * scale)).width() / letter <= 90
    widths = [transcript.column_in(width).width() for width in range(640, 2600, 20)]
    assert widths == sorted(widths) and widths[-1] / letter <= 90, "it never narrows as the view widens"
    assert transcript.column_in(400).width() <= 400, "a narrow view has less"
    assert 65 <= MEASURE <= 75


def test_every_label_of_the_window_has_the_text_typeface(qtbot: QtBot, home: Path) -> None:
    window = Window(FakeEngine(), Settings())
    qtbot.addWidget(window)
    window.show()
    allowed = {QFontInfo(font).family() for font in (themes.body_font(1.0), themes.mono_font(1.0))}
    for label in window.findChildren(QLabel):
        assert QFontInfo(label.font()).family() in allowed, label.objectName() or label.text()
    window.close()


def test_on_a_wide_screen_the_panel_takes_more(qtbot: QtBot, home: Path) -> None:
    window = Window(FakeEngine(), Settings())
    qtbot.addWidget(window)
    window.show()
    shares = {}
    for width in (1280, 1600, 1920, 2560, 3840):
        window.resize(width, 900)
        settle()
        shares[width] = window.panel.width()
        assert window.column.width() >= min(1000, width / 2.2), "the conversation keeps its room"
    assert list(shares.values()) == sorted(shares.values())
    assert shares[1600] <= 560 and shares[2560] > 900
    window.close()


@pytest.mark.parametrize("size", [(1280, 800), (700, 700), (2560, 1440)])
def test_the_welcome_page_is_aligned_with_the_message_field(qtbot: QtBot, home: Path, size: tuple[int, int]) -> None:
    window = Window(FakeEngine(), Settings())
    qtbot.addWidget(window)
    window.resize(*size)
    window.show()
    card = window.column.welcome.findChild(QPushButton, "promptCard")
    frame = window.composer.findChild(QFrame, "composerFrame")
    assert card is not None and frame is not None
    edges = [widget.mapTo(window, QPoint(0, 0)).x() for widget in (card, frame)]
    assert abs(edges[0] - edges[1]) <= 16, "the frame of the field stands out a little"
    window.close()
