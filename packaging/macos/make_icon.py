"""Converts assets/app-icon.svg to an icon for macOS, without tools of macOS: python packaging/macos/make_icon.py FILE.icns"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QBuffer, QIODevice, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

SOURCE = Path(__file__).resolve().parents[2] / "assets" / "app-icon.svg"
SIZES = {b"ic11": 32, b"ic12": 64, b"ic07": 128, b"ic13": 256, b"ic08": 256, b"ic14": 512, b"ic09": 512, b"ic10": 1024}
"""Types of entries with a PNG, and its side in pixels; ic11 to ic14 are for screens with two pixels per point."""
DRAWN = 824 / 1024 * 512 / 448
"""Share of the icon's side that the drawing takes. Its body, 448 of 512 units, is then as wide as in macOS's own icons."""


def png(renderer: QSvgRenderer, side: int) -> bytes:
    """Returns the drawing as a PNG of `side` pixels, with the margin of macOS's own icons."""
    image = QImage(side, side, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    margin = side * (1 - DRAWN) / 2
    painter = QPainter(image)
    renderer.render(painter, QRectF(margin, margin, side * DRAWN, side * DRAWN))
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return bytes(buffer.data().data())


def icns(renderer: QSvgRenderer) -> bytes:
    """Returns the bytes of an icon file: a header, then each picture with its type and length, all numbers big-endian."""
    pictures = {side: png(renderer, side) for side in set(SIZES.values())}
    entries = b"".join(kind + struct.pack(">I", 8 + len(pictures[side])) + pictures[side] for kind, side in SIZES.items())
    return b"icns" + struct.pack(">I", 8 + len(entries)) + entries


def main() -> None:
    """Writes the icon."""
    path = Path(sys.argv[1])
    application = QGuiApplication.instance() or QGuiApplication([])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(icns(QSvgRenderer(str(SOURCE))))
    del application


if __name__ == "__main__":
    main()
