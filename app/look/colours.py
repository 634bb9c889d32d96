"""The colours of the window, of code in it and of every picture, as plain values, because pictures are also drawn without a
window."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from engine.exports import svg


@dataclass(frozen=True, slots=True)
class Theme(svg.Palette):
    """The colours shared with pictures, and those of the window alone, as #rrggbb.

    Attributes:
        muted: dimmed text while the tokens of one kind are highlighted.
        agreed: the line next to compared texts, as far as they are the same.
    """

    name: str
    raised: str
    faint: str
    on_accent: str
    on_accepted: str
    agreed: str
    muted: str
    selection: str
    code: str
    warning_tint: str


DARK = Theme(
    **asdict(svg.DARK),
    name="dark",
    raised="#232833",
    faint="#8a92a3",
    on_accent="#0c1218",
    on_accepted="#0c1218",
    agreed="#35596f",
    muted="#666d79",
    selection="#223f5a",
    code="#1a1d24",
    warning_tint="#33251e",
)
LIGHT = Theme(
    **asdict(svg.LIGHT),
    name="light",
    raised="#eceef1",
    faint="#646c7a",
    on_accent="#ffffff",
    on_accepted="#ffffff",
    agreed="#9cc4da",
    muted="#878d97",
    selection="#c2ddf1",
    code="#ffffff",
    warning_tint="#fbece3",
)


_COLOURS = {
    "dark": {"keyword": "#c792ea", "string": "#a5d6a7", "comment": "#939bad", "number": "#f2b88a", "name": "#82b1ff"},
    "light": {"keyword": "#7b3fb0", "string": "#1b7037", "comment": "#5c6472", "number": "#9c4a14", "name": "#1f5fbf"},
}


def code_colours(theme: Theme) -> dict[str, str]:
    """Returns the colour of each kind of word in code; kinds that are missing have the colour of the text."""
    return _COLOURS[theme.name]
