"""Colours, fonts and icons: everything that determines how the window looks.

The palette is set before any style sheet, so that widgets the sheet does not name have the right colours too. The colours are
defined in `app/look/colours.py`. No state is shown by colour alone.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.look.colours import DARK as DARK
from app.look.colours import LIGHT as LIGHT
from app.look.colours import Theme as Theme
from app.look.typefaces import code_face, figure_face, text_face

Appearance = Literal["system", "dark", "light"]
APPEARANCE_TITLES: dict[Appearance, str] = {"system": "Match system theme", "dark": "Dark theme", "light": "Light theme"}
APPEARANCES: tuple[Appearance, ...] = tuple(APPEARANCE_TITLES)


def assets_folder() -> Path:
    """Returns the folder of icons and other assets, next to this package."""
    return Path(__file__).resolve().parents[2] / "assets"


SCHEMES = {"system": Qt.ColorScheme.Unknown, "dark": Qt.ColorScheme.Dark, "light": Qt.ColorScheme.Light}


def set_platform_scheme(appearance: Appearance) -> None:
    """Sets the colour scheme of title bars and native dialogs; Unknown leaves it to the desktop."""
    QGuiApplication.styleHints().setColorScheme(SCHEMES[appearance])


def resolve(appearance: Appearance) -> Theme:
    """Returns the theme for `appearance`; "system" follows the desktop, and is dark if the desktop states none."""
    if appearance == "system":
        return LIGHT if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Light else DARK
    return LIGHT if appearance == "light" else DARK


def body_font(scale: float, pixels: float = 13) -> QFont:
    """Returns the font of controls and labels; `pixels` is its size at text scale 1, `scale` the text scale of the window."""
    return sized(text_face(), scale * pixels)


def reading_font(scale: float) -> QFont:
    """Returns the font of prompts and answers, larger than that of the controls."""
    return body_font(scale, 16)


def mono_font(scale: float, pixels: float = 13) -> QFont:
    """Returns the fixed-width font of code and tokens; `pixels` is its size at text scale 1."""
    return sized(code_face(), scale * pixels)


def figure_font(scale: float, pixels: float) -> QFont:
    """Returns the font of figures that change in place, with digits of equal width; `pixels` is its size at text scale 1."""
    return sized(figure_face(), scale * pixels)


def sized(font: QFont, pixels: float, weight: QFont.Weight | None = None) -> QFont:
    """Returns a copy of the font in another size and, if given, weight."""
    other = QFont(font)
    other.setPixelSize(round(pixels))
    if weight is not None:
        other.setWeight(weight)
    return other


def palette(theme: Theme) -> QPalette:
    """Returns a palette with every role that the Fusion style uses, so that no colour of another theme remains."""
    roles = QPalette.ColorRole
    colours = {
        roles.Window: theme.background,
        roles.WindowText: theme.text,
        roles.Base: theme.panel,
        roles.AlternateBase: theme.raised,
        roles.Text: theme.text,
        roles.PlaceholderText: theme.faint,
        roles.Button: theme.raised,
        roles.ButtonText: theme.text,
        roles.BrightText: theme.rejected,
        roles.Highlight: theme.accent,
        roles.HighlightedText: theme.on_accent,
        roles.Accent: theme.accent,
        roles.Link: theme.accent,
        roles.LinkVisited: theme.accent,
        roles.ToolTipBase: theme.raised,
        roles.ToolTipText: theme.text,
        roles.Light: theme.raised,
        roles.Midlight: theme.raised,
        roles.Mid: theme.line,
        roles.Dark: theme.line,
        roles.Shadow: theme.background,
    }
    result = QPalette()
    for role, colour in colours.items():
        result.setColor(role, QColor(colour))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.faint))
    return result


@lru_cache(maxsize=256)
def _svg(name: str) -> str:
    return (assets_folder() / "icons" / f"{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=256)
def icon(name: str, colour: str) -> QIcon:
    """Returns one of Draftlight's icons in a colour, rendered separately at each size so that it is sharp."""
    result = QIcon()
    for pixels in (16, 20, 32, 40, 64):
        result.addPixmap(pixmap(name, colour, pixels))
    return result


@lru_cache(maxsize=256)
def pixmap(name: str, colour: str, pixels: int, ratio: float = 1.0) -> QPixmap:
    """Returns an icon as a pixmap. `pixels`: size in logical pixels; `ratio`: device pixels per logical one."""
    renderer = QSvgRenderer(QByteArray(_svg(name).replace("currentColor", colour).encode()))
    picture = QPixmap(QSize(round(pixels * ratio), round(pixels * ratio)))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    renderer.render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    return picture


def app_icon() -> QIcon:
    """Returns the application's icon, rendered from its SVG in the sizes from 16 to 256 pixels that desktops use."""
    renderer = QSvgRenderer(str(assets_folder() / "app-icon.svg"))
    result = QIcon()
    for pixels in (16, 32, 64, 128, 256):
        picture = QPixmap(pixels, pixels)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        renderer.render(painter)
        painter.end()
        result.addPixmap(picture)
    return result
