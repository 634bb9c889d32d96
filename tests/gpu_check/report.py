"""Writes the report of `make gpu-check` as HTML, from the document that is also written as JSON.

Names of users and places are removed from the document before.
"""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine.exports.html_page import Column, bars, chart, facts, page, pairs, table, text
from engine.exports.svg import VARIABLES
from engine.exports.svg_charts import draw
from engine.lens.chart_spec import Axis, ChartSpec, Line, Panel
from engine.values.wording import seconds, size

REPOSITORY = Path(__file__).parents[2]
FORMAT = "draftlight.gpu-check/1"
_PATH = re.compile(r"(?<![\w.:/])[~…]?(?:/[^\s/'\"<>:,()]+)+/(?=[^\s/'\"<>:,()])")
_SHEET = """
.verdict { border-left: 4px solid var(--accepted); padding-left: 12px; font-weight: 600; }
.verdict.failed { border-color: var(--rejected); }
.tile a { color: inherit; text-decoration: none; }
.tile dd { font-size: 13.5px; }
.state { display: inline-block; font-size: 12.5px; font-weight: 600; padding: 0 8px; border-radius: 9px;
  border: 1px solid var(--dim); }
.state.passed { border-color: var(--accepted); } .state.failed { border-color: var(--rejected); border-width: 2px; }
.state.skipped { color: var(--dim); border-style: dashed; }
section h2 .state { vertical-align: 3px; margin-left: 6px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere;
  font: 12px/1.45 ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 10px 14px; max-height: 420px;
  overflow: auto; }
.charts { margin: 12px 0; }
"""


def anonymous(value: Any) -> Any:
    """The value with each string's folders left out of paths, and without the names of user and machine."""
    if isinstance(value, dict):
        return {key: anonymous(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [anonymous(entry) for entry in value]
    if not isinstance(value, str):
        return value
    for place in (REPOSITORY, Path.home()):  # which may have spaces in them
        value = value.replace(f"{place}/", "…/")
    value = _PATH.sub("…/", value)
    for name, instead in ((_user(), "USER"), (platform.node(), "HOST")):
        if len(name) > 2 and name != "root":
            value = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", instead, value)
    return value


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return ""


def to_html(document: dict[str, Any]) -> str:
    """The report as one HTML document."""
    title = f"GPU check: {document['device'].get('name', 'no device')}"
    return page(title, "".join(_body(document, title)), _SHEET)


def _body(document: dict[str, Any], title: str) -> Iterator[str]:
    device, parts = document["device"], document["parts"]
    hardware = device.get("hardware", {})
    memory = hardware.get("memory_bytes")
    machine = [hardware.get("processor") or hardware.get("machine"), f"{hardware.get('cores')} cores", memory and size(memory)]
    yield f"<header><h1>{text(title)}</h1><p class=dim>{text(', '.join(word for word in machine if word))}. "
    yield f"Draftlight, commit {text(str(device.get('commit'))[:12])}, "
    yield f"{text(document['created'].replace('T', ' ').removesuffix('+00:00'))} UTC.</p></header>"
    if not device.get("gpu"):
        yield "<p class=note><b>No GPU took part.</b> MLX computes on the processor here: no figure is a GPU's.</p>"
    if document["quick"]:
        yield "<p class=note>A quick run: everything was tried once, and the figures mean nothing.</p>"
    failed = [part["title"] for part in parts if part["status"] == "failed"]
    verdict = (
        f"Failed: {', '.join(failed)}." if failed else "Nothing failed." if document["passed"] else "MLX has no device here."
    )
    yield f"<p class='verdict{'' if document['passed'] else ' failed'}'>{text(verdict)}</p><dl class=tiles>"
    for part in parts:
        yield f"<div class=tile><dt><a href='#{part['name']}'>{text(part['title'])}</a> {_state(part)}</dt>"
        yield f"<dd>{text(part['summary'])}</dd></div>"
    yield "</dl>"
    for part in parts:
        yield from _section(part)
    yield "<h2 id=machine>Machine</h2>"
    yield facts(
        [
            ("device", device.get("name")),
            ("back-end", device.get("backend")),
            ("driver", pairs(device.get("driver") or {})),
            ("MLX says", pairs(device.get("mlx") or {})),
            ("machine", pairs(hardware)),
            ("versions", pairs(device.get("versions") or {})),
            ("commit", device.get("commit")),
            ("what failed", None if "name" in device else device.get("details")),
        ]
    )


def _state(part: dict[str, Any]) -> str:
    return f"<span class='state {part['status']}'>{part['status']}</span>"


def _section(part: dict[str, Any]) -> Iterator[str]:
    yield f"<section><h2 id={part['name']}>{text(part['title'])} {_state(part)}</h2><p>{text(part['summary'])}</p>"
    peak = part.get("peak_memory")
    took = f"Took {seconds(part['seconds'])}" + (f", MLX's arrays at most {size(peak)}" if peak else "")
    yield f"<p class=dim>{took}.</p>"
    for entry in part.get("tables", []):
        if entry["rows"]:
            yield from _table(entry)
    if part.get("details"):
        yield f"<pre>{text(part['details'])}</pre>"
    yield "</section>"


def _table(entry: dict[str, Any]) -> Iterator[str]:
    yield f"<h3>{text(entry['title'])}</h3>"
    drawn = [*([_bars(entry)] if entry["bars"] else []), *(_line(entry, name) for name in entry["line"])]
    if drawn:
        yield f"<div class=charts>{''.join(drawn)}</div>"
    columns = [_column(text(head), at, at < entry["words"]) for at, head in enumerate(entry["heads"])]
    yield from table(text(entry["title"]), columns, entry["rows"])
    if entry["note"] and not drawn:
        yield f"<small>{text(entry['note'])}</small>"


def _column(head: str, at: int, words: bool) -> Column[list[Any]]:
    return Column(head, lambda row: _cell(row[at]), "words" if words else "")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else text(str(value))


def _bars(entry: dict[str, Any]) -> str:
    at = entry["heads"].index(entry["bars"])
    heads = ["T " if head == "temperature" else "" for head in entry["heads"][: entry["words"]]]
    names = [", ".join(f"{head}{word}" for head, word in zip(heads, row, strict=False)) for row in entry["rows"]]
    rows = [(name, row[at], "{:.2f}") for name, row in zip(names, entry["rows"], strict=True)]
    return bars(text(entry["bars"]).capitalize(), rows, text(entry["note"]))


def _line(entry: dict[str, Any], name: str) -> str:
    at, first = entry["heads"].index(name), entry["heads"][0]
    points = [(row[0], row[at]) for row in entry["rows"]]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    line = Line(np.array([x for x, _ in points]), np.array([y for _, y in points]), "accent", dots=4)
    panel = Panel(Axis(0, 1.1 * max(y for _, y in points)), (line,))
    drawing = draw("rows", ChartSpec(Axis(low, max(high, low + 1)), (panel,), name), VARIABLES, across=first)
    return chart(text(name).capitalize(), drawing.inline(), text(entry["note"]))
