"""What all HTML files have in common: one page that holds no script and loads nothing, and how it writes what users wrote.

Its content policy forbids both, so that even a browser can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from engine.exports.report_style import stylesheet
from engine.lens.pieces import without_controls

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, body: str, sheet: str = "") -> str:
    """The whole document. `title` is plain text, `body` HTML, `sheet` is put after the common style sheet."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} – Draftlight</title><style>{stylesheet()}{sheet}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def text(words: str) -> str:
    """The text as HTML shows it, in content and in quoted attributes; control characters become their pictures."""
    return escape(without_controls(words))


def facts(entries: Iterable[tuple[str, Any]]) -> str:
    """A list of labels and values; those without a value are left out, and hashes look like code."""
    shown = ((label, text(worded(value))) for label, value in entries if value not in (None, ""))
    rows = (f"<dt>{label}</dt><dd>{f'<code>{value}</code>' if 'SHA' in label else value}</dd>" for label, value in shown)
    return f"<dl class=facts>{''.join(rows)}</dl>"


def pairs(table: Mapping[str, Any]) -> str:
    """A table as one line: names and values, those that are None left out."""
    return ", ".join(f"{str(key).replace('_', ' ')} {worded(value)}" for key, value in table.items() if value is not None)


def worded(value: Any) -> str:
    """A value of JSON for people."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return " ".join(repr(entry) for entry in value) or "none"
    return "off" if value is False else "on" if value is True else str(value)
