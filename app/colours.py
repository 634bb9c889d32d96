"""The colours of the window and of every picture, as plain values: pictures are drawn where there is no window, too."""

from __future__ import annotations

from dataclasses import dataclass


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


DARK = Theme(
    name="dark",
    background="#14161b",
    panel="#1a1d24",
    raised="#232833",
    line="#2e3440",
    text="#e7e9ee",
    dim="#a3abba",
    faint="#8a92a3",
    accent="#56b4e9",
    on_accent="#0c1218",
    accepted_tint="#1d303d",
    accepted_edge="#35596f",
    rejected="#ee8350",
    unjudged="#8a92a3",
    correction="#e6a817",
    bonus="#b58ce0",
    match="#e7e9ee",
    selection="#2f5f86",
    code="#1a1d24",
    warning_tint="#33251e",
)
LIGHT = Theme(
    name="light",
    background="#f6f6f4",
    panel="#ffffff",
    raised="#eceef1",
    line="#dcdfe5",
    text="#1c2027",
    dim="#535c6b",
    faint="#646c7a",
    accent="#0072b2",
    on_accent="#ffffff",
    accepted_tint="#d9e8f0",
    accepted_edge="#9cc4da",
    rejected="#bb4713",
    unjudged="#646c7a",
    correction="#8f6200",
    bonus="#7a4fb3",
    match="#1c2027",
    selection="#a9d2ee",
    code="#ffffff",
    warning_tint="#fbece3",
)
THEMES = {theme.name: theme for theme in (DARK, LIGHT)}
