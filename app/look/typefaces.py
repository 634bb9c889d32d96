"""Which typefaces the window is set in: the system's own where they are good ones, else two that come along.

macOS and Windows have a face made for their screens. On Linux the general font may be anything, and the fixed-width one of
Windows is Courier New. A script that a face lacks is written in one that has it, as Qt does everywhere.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

from PySide6.QtGui import QFont, QFontDatabase, QFontInfo

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "fonts"
TEXT, CODE = "Inter", "JetBrains Mono"
GOOD_TEXT = (
    "Inter, Inter Variable, Adwaita Sans, Cantarell, Fira Sans, IBM Plex Sans, Noto Sans, Open Sans, Red Hat Text, Roboto, "
    "Source Sans 3, Ubuntu, Ubuntu Sans"
)
GOOD_CODE = (
    "JetBrains Mono, Adwaita Mono, Cascadia Code, Cascadia Mono, Fira Code, Fira Mono, IBM Plex Mono, Noto Sans Mono, "
    "Roboto Mono, Source Code Pro, Ubuntu Mono, Ubuntu Sans Mono"
)
GOOD = {TEXT: frozenset(GOOD_TEXT.split(", ")), CODE: frozenset(GOOD_CODE.split(", "))}
"""Faces of a Linux desktop that are as good as the ones in their place."""
ON_WINDOWS = ("Cascadia Mono", "Consolas")
"""Fixed-width faces of Windows, the better one first."""


@lru_cache(maxsize=1)
def bundled() -> tuple[str, ...]:
    """Loads the faces that come along, once, and returns the families Qt has read from them. There must be an application."""
    families: dict[str, None] = {}
    for path in sorted([*FOLDER.glob("*.otf"), *FOLDER.glob("*.ttf")]):
        number = QFontDatabase.addApplicationFont(str(path))
        families.update(dict.fromkeys(QFontDatabase.applicationFontFamilies(number) if number >= 0 else ()))
    return tuple(families)


def chosen(wanted: str, system: str, platform: str, available: tuple[str, ...]) -> str:
    """The family to set text or code in; "" leaves the choice to the system.

    Args:
        wanted: `TEXT` or `CODE`. system: the family of the system's font for it. platform: as `sys.platform` has it.
        available: the families of the system.
    """
    if platform == "darwin" or (platform == "win32" and wanted == TEXT):
        return ""
    if platform == "win32":
        return next((family for family in ON_WINDOWS if family in available), wanted)
    return "" if system in GOOD[wanted] else wanted


@lru_cache(maxsize=2)
def _face(wanted: str) -> QFont:
    system = QFontDatabase.SystemFont
    font = QFontDatabase.systemFont(system.GeneralFont if wanted == TEXT else system.FixedFont)
    own = QFontInfo(font).family()
    family = chosen(wanted, own, sys.platform, tuple(QFontDatabase.families()))
    if family and (family not in (TEXT, CODE) or family in bundled()):
        font.setFamilies([family, own] if own else [family])
    return font


def text_face() -> QFont:
    """A new font for text, of no particular size."""
    return QFont(_face(TEXT))


def code_face() -> QFont:
    """A new fixed-width font of no particular size, in which every letter of a token is drawn as itself: no ligatures."""
    font = QFont(_face(CODE))
    for feature in ("calt", "liga"):
        font.setFeature(QFont.Tag(feature), 0)
    return font


def figure_face() -> QFont:
    """A new font for figures that change in place: that of the text, with digits of one width."""
    font = text_face()
    font.setFeature(QFont.Tag("tnum"), 1)
    return font
