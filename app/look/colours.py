"""The colours of the window and of every picture, as plain values, because pictures are also drawn without a window."""

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
