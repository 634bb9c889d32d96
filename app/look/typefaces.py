"""Chooses the window's typefaces: those of the system if they are good, else two bundled ones.

macOS and Windows have typefaces made for screens. On Linux the general font may be any, and the fixed-width font of Windows is
Courier New. Characters that a typeface lacks are drawn in another one, as everywhere in Qt.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

from PySide6.QtGui import QFont, QFontDatabase, QFontInfo

FONTS_FOLDER = Path(__file__).resolve().parents[2] / "assets" / "fonts"
TEXT, CODE = "Inter", "JetBrains Mono"
GOOD_TEXT = (
    "Inter, Inter Variable, Adwaita Sans, Cantarell, Fira Sans, IBM Plex Sans, Noto Sans, Open Sans, Red Hat Text, Roboto, "
    "Source Sans 3, Ubuntu, Ubuntu Sans"
)
GOOD_CODE = (
    "JetBrains Mono, Adwaita Mono, Cascadia Code, Cascadia Mono, Fira Code, Fira Mono, IBM Plex Mono, Noto Sans Mono, "
    "Roboto Mono, Source Code Pro, Ubuntu Mono, Ubuntu Sans Mono"
)
GOOD_FAMILIES = {TEXT: frozenset(GOOD_TEXT.split(", ")), CODE: frozenset(GOOD_CODE.split(", "))}
"""Families on a Linux desktop that are used instead of the bundled ones."""
WINDOWS_CODE_FAMILIES = ("Cascadia Mono", "Consolas")
"""Fixed-width families of Windows, the preferred one first."""


@lru_cache(maxsize=1)
def load_bundled() -> tuple[str, ...]:
    """Loads the bundled fonts once, and returns the families that Qt found in them. Requires an application object."""
    families: dict[str, None] = {}
    for path in sorted([*FONTS_FOLDER.glob("*.otf"), *FONTS_FOLDER.glob("*.ttf")]):
        number = QFontDatabase.addApplicationFont(str(path))
        families.update(dict.fromkeys(QFontDatabase.applicationFontFamilies(number) if number >= 0 else ()))
    return tuple(families)


def choose_family(wanted: str, system: str, platform: str, available: tuple[str, ...]) -> str:
    """Returns the family to use for text or code; "" uses the system's font.

    Args:
        wanted: `TEXT` or `CODE`. system: family of the system's font for it. platform: as `sys.platform`.
        available: families installed on the system.
    """
    if platform == "darwin" or (platform == "win32" and wanted == TEXT):
        return ""
    if platform == "win32":
        return next((family for family in WINDOWS_CODE_FAMILIES if family in available), wanted)
    return "" if system in GOOD_FAMILIES[wanted] else wanted


@lru_cache(maxsize=2)
def _face(wanted: str) -> QFont:
    system = QFontDatabase.SystemFont
    font = QFontDatabase.systemFont(system.GeneralFont if wanted == TEXT else system.FixedFont)
    system_family = QFontInfo(font).family()
    family = choose_family(wanted, system_family, sys.platform, tuple(QFontDatabase.families()))
    if family and (family not in (TEXT, CODE) or family in load_bundled()):
        font.setFamilies([family, system_family] if system_family else [family])
    return font


def text_face() -> QFont:
    """Returns a new font for text; the caller sets its size."""
    return QFont(_face(TEXT))


def code_face() -> QFont:
    """Returns a new fixed-width font without ligatures, so that every character of a token is visible; the caller sets its
    size."""
    font = QFont(_face(CODE))
    for feature in ("calt", "liga"):
        font.setFeature(QFont.Tag(feature), 0)
    return font


def figure_face() -> QFont:
    """Returns a new font for figures that change in place: the text font with digits of equal width."""
    font = text_face()
    font.setFeature(QFont.Tag("tnum"), 1)
    return font
