"""The colours of code on the background of code blocks. They differ from the colours that mark tokens."""

from __future__ import annotations

from app.look.colours import Theme

_COLOURS = {
    "dark": {"keyword": "#c792ea", "string": "#a5d6a7", "comment": "#939bad", "number": "#f2b88a", "name": "#82b1ff"},
    "light": {"keyword": "#7b3fb0", "string": "#1b7037", "comment": "#5c6472", "number": "#9c4a14", "name": "#1f5fbf"},
}


def code_colours(theme: Theme) -> dict[str, str]:
    """Returns the colour of each kind of word in code; kinds that are missing have the colour of the text."""
    return _COLOURS[theme.name]
