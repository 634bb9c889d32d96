"""Whether everything can be read: contrasts as WCAG 2.2 defines them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

import app.look.stylesheet
from app.look.colours import code_colours
from app.look.theme import DARK, LIGHT, Theme, assets_folder

BODY = 4.5


def luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in QColor(colour).getRgbF()[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_matches_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_text_has_enough_contrast_on_every_background(theme: Theme) -> None:
    grounds = ("background", "panel", "raised")
    pairs = [(ink, ground) for ink in ("text", "dim", "faint") for ground in grounds]
    pairs += [("text", ground) for ground in ("accepted_tint", "warning_tint", "code", "selection")]
    pairs += [("dim", ground) for ground in ("accepted_tint", "selection")]  # ghosts are dim where they are selected
    pairs += [(ghost, "background") for ghost in ("ghost", "faint", "rejected")]
    pairs += [("on_accent", "accent"), ("on_accepted", "accepted")]
    poor = {pair: contrast(getattr(theme, pair[0]), getattr(theme, pair[1])) for pair in pairs}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < BODY} == {}


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_code_colours_have_enough_contrast_also_on_accepted_tokens(theme: Theme) -> None:
    for ink, colour in code_colours(theme).items():
        for ground in (theme.code, theme.accepted_tint):
            assert contrast(colour, ground) >= BODY, (ink, ground)


@pytest.mark.parametrize("folder", ["plain", "two words", "Zoë's", "a (copy)", '12" {old}; new', "back\\slash"])
def test_the_program_can_be_in_a_folder_of_any_name(
    folder: str, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).symlink_to(assets_folder(), target_is_directory=True)
    monkeypatch.setattr(app.look.stylesheet, "assets_folder", lambda: tmp_path / folder)
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.resize(20, 20)
    sheet = app.look.stylesheet.stylesheet(LIGHT, 1.0)
    picture = app.look.stylesheet.quoted(str(tmp_path / folder / "icons" / "chevron-light.svg"))
    widget.setStyleSheet(f"{sheet} QWidget {{ background: white; image: url({picture}); }}")
    grabbed = widget.grab().toImage()  # Qt warns of a sheet that it cannot read to its end, which fails the test
    assert any(grabbed.pixelColor(x, y) != QColor("white") for x in range(20) for y in range(20))
