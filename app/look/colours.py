"""The colours of the window and of every picture, as plain values: pictures are drawn where there is no window, too."""

from __future__ import annotations

from dataclasses import dataclass

from engine.exports import drawing


@dataclass(frozen=True, slots=True)
class Theme:
    """Colour tokens as #rrggbb; `accepted_tint` is the wash behind accepted tokens, already mixed with `background`."""

    name: str
    background: str
    panel: str
    raised: str
    line: str
    text: str
    dim: str
    faint: str
    accent: str
    on_accent: str
    accepted_tint: str
    accepted_edge: str
    rejected: str
    unjudged: str
    correction: str
    bonus: str
    match: str
    selection: str
    code: str
    warning_tint: str


def _theme(name: str, shared: drawing.Palette, **own: str) -> Theme:
    """The colours that pictures have too, and those of the window alone."""
    return Theme(
        name=name,
        background=shared.background,
        panel=shared.panel,
        line=shared.line,
        text=shared.text,
        dim=shared.dim,
        accent=shared.accepted,
        accepted_tint=shared.tint,
        rejected=shared.rejected,
        unjudged=shared.unjudged,
        correction=shared.correction,
        bonus=shared.bonus,
        **own,
    )


DARK = _theme(
    "dark",
    drawing.DARK,
    raised="#232833",
    faint="#8a92a3",
    on_accent="#0c1218",
    accepted_edge="#35596f",
    match="#e7e9ee",
    selection="#2f5f86",
    code="#1a1d24",
    warning_tint="#33251e",
)
LIGHT = _theme(
    "light",
    drawing.LIGHT,
    raised="#eceef1",
    faint="#646c7a",
    on_accent="#ffffff",
    accepted_edge="#9cc4da",
    match="#1c2027",
    selection="#a9d2ee",
    code="#ffffff",
    warning_tint="#fbece3",
)
THEMES = {theme.name: theme for theme in (DARK, LIGHT)}
