"""Converts SVG to PNG. A module of its own, because only this needs Qt; no display is needed."""

from __future__ import annotations

import functools
import os
import sys

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QGuiApplication, QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgRenderer

from engine.exports.svg import FONT, MONO


def to_image(svg: str, factor: float = 2.0) -> QImage:
    """Renders the picture with `factor` pixels per unit of the drawing, in the fonts of this machine.

    Raises:
        ValueError: it is not an SVG document.
    """
    _application()
    general, fixed = (_font(is_mono).family() for is_mono in (False, True))
    renderer = QSvgRenderer(QByteArray(svg.replace(FONT, general).replace(MONO, fixed).encode()))
    if not renderer.isValid():
        raise ValueError("not an SVG document")
    image = QImage(QSize(*(round(side * factor) for side in renderer.defaultSize().toTuple())), QImage.Format.Format_ARGB32)
    image.fill(QColor(0, 0, 0, 0))
    painter = QPainter(image)
    painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
    renderer.render(painter)
    painter.end()
    return image


def to_png(svg: str, factor: float = 2.0) -> bytes:
    """Returns the picture as the content of a PNG file."""
    return png_of(to_image(svg, factor))


def png_of(image: QImage) -> bytes:
    """Returns an image as the content of a PNG file."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(buffer.data().data())


def _font(mono: bool) -> QFont:
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont if mono else QFontDatabase.SystemFont.GeneralFont)


def text_width(text: str, size: float, bold: bool = False, mono: bool = False) -> float:
    """Returns the width of a text in the font in which pictures are drawn on this machine."""
    _application()
    return _metrics(size, bold, mono).horizontalAdvance(text)


@functools.cache
def _metrics(size: float, bold: bool, mono: bool) -> QFontMetricsF:
    font = _font(mono)
    font.setPixelSize(round(size))
    font.setWeight(font.Weight.DemiBold if bold else font.Weight.Normal)
    return QFontMetricsF(font)


@functools.cache
def _application() -> QGuiApplication:
    """Returns the program's application object, or creates one without a window."""
    existing = QGuiApplication.instance()
    if isinstance(existing, QGuiApplication):
        return existing
    if sys.platform != "darwin":  # on a Mac this works without a display; elsewhere there may be none
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    return QGuiApplication(["draftlight"])
