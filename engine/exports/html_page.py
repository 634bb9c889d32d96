"""Common parts of all HTML exports: the page, its style sheet, tables and charts, and the escaping of users' text.

A page contains no script and loads nothing; its Content-Security-Policy makes the browser enforce both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Generic, Literal, TypeVar

from engine.exports.svg import DARK, FONT, LIGHT, Palette
from engine.lens.pieces import without_controls
from engine.values.wording import size

Row = TypeVar("Row")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, body: str, sheet: str = "") -> str:
    """Returns the whole document. `title` is plain text, `body` HTML; `sheet` follows the common style sheet."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} – Draftlight</title><style>{stylesheet()}{sheet}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def text(words: str) -> str:
    """Escapes a text for content and quoted attributes; replaces control characters by their visible symbols."""
    return escape(without_controls(words))


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table: its head, a function from a row to its cell (HTML), and the CSS class of cells without figures."""

    head: str
    cell: Callable[[Row], str]
    look: Literal["", "words", "chips"] = ""


def table(label: str, columns: Sequence[Column[Row]], rows: Iterable[Row | str]) -> Iterator[str]:
    """Yields a table in a scroll area of its own.

    Args:
        label: for screen readers.
        columns: the first one names the row.
        rows: a string is a heading (HTML) of the rows below it.
    """
    yield f"<div class=scroll tabindex=0 role=region aria-label='{label}'><table><thead><tr>"
    yield "".join(f"<th scope=col{' class=words' if column.look else ''}>{column.head}</th>" for column in columns)
    yield "</tr></thead><tbody>"
    for row in rows:
        if isinstance(row, str):
            yield f"<tr><td class=category colspan={len(columns)}>{row}</td></tr>"
            continue
        looks = [f" class={column.look}" if column.look else "" for column in columns]
        first, *others = (column.cell(row) for column in columns)
        cells = (f"<td{look}>{cell}</td>" for look, cell in zip(looks[1:], others, strict=True))
        yield f"<tr><th scope=row{looks[0]}>{first}</th>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def figure(value: float | None, decimals: int = 2) -> str:
    """Formats a figure, or returns a dash for None."""
    return "–" if value is None else f"{value:,.{decimals}f}"


def interval(ends: tuple[float | None, float | None] | None, missing: str = "–") -> str:
    """Formats an interval, or returns `missing` if it is not known."""
    low, high = ends or (None, None)
    return missing if low is None or high is None else f"{low:.2f} to {high:.2f}"


def facts(entries: Iterable[tuple[str, Any]]) -> str:
    """Returns a list of labels and values; leaves out empty values and shows hashes as code."""
    shown = ((label, text(readable(value))) for label, value in entries if value not in (None, ""))
    rows = (f"<dt>{label}</dt><dd>{f'<code>{value}</code>' if 'SHA' in label else value}</dd>" for label, value in shown)
    return f"<dl class=facts>{''.join(rows)}</dl>"


def pairs(table: Mapping[str, Any]) -> str:
    """Returns names and values in one line; leaves out those that are None."""
    return ", ".join(f"{str(key).replace('_', ' ')} {readable(value)}" for key, value in table.items() if value is not None)


def readable(value: Any) -> str:
    """Returns a JSON value in readable form."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return " ".join(repr(entry) for entry in value) or "none"
    return "off" if value is False else "on" if value is True else str(value)


def chart(title: str, picture: str, words: str) -> str:
    """Returns a picture (HTML) with its title and a caption."""
    return f"<figure><h3>{title}</h3>{picture}<figcaption><small>{words}</small></figcaption></figure>"


def bars(title: str, rows: Iterable[tuple[str, float | None, str]], words: str, maximum: float | None = None) -> str:
    """Returns a figure with a bar for each row (name, value, format or "bytes" for sizes). `title` and `words` are HTML."""
    known = [(name, value, form) for name, value, form in rows if value is not None]
    if not known:
        return ""
    top = maximum or max(value for _, value, _ in known) or 1.0
    lines = "".join(
        f"<span class=name>{text(name)}</span><span class=figure>{size(value) if form == 'bytes' else form.format(value)}</span>"
        f"<span class=track aria-hidden=true><span class=fill style='width: {value / top:.1%}'></span></span>"
        for name, value, form in known
    )
    return chart(title, f"<div class=rows>{lines}</div>", words)


def stylesheet() -> str:
    """Returns the common style sheet; colours are CSS variables, named after the fields of `Palette`."""
    return _SHEET.replace("LIGHT_COLOURS", _variables(LIGHT)).replace("DARK_COLOURS", _variables(DARK)).replace("FONT", FONT)


def _variables(palette: Palette) -> str:
    return " ".join(f"--{name.replace('_', '-')}: {colour};" for name, colour in asdict(palette).items())


_SHEET = """
:root { color-scheme: light dark; LIGHT_COLOURS }
@media screen and (prefers-color-scheme: dark) { :root { DARK_COLOURS } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--background); color: var(--text); font: 15px/1.5 FONT; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 120px; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 44px 0 8px; padding-top: 18px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 26px 0 8px; }
p { margin: 6px 0; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.dim, small { color: var(--dim); }
small { font-size: 12.5px; line-height: 1.4; display: block; }
.note { border: 1px solid var(--rejected); border-radius: 10px; padding: 10px 14px; margin: 14px 0; }
.prompt { background: var(--panel); border: 1px solid var(--line); border-radius: 14px; padding: 12px 16px; margin: 12px 0 20px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 12px 0; }
.tile { flex: 1 1 220px; background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 12px 14px; }
.tile dt { color: var(--dim); font-size: 13px; }
.tile dd { margin: 0; }
.value { font-size: 24px; font-weight: 600; font-variant-numeric: tabular-nums; }
.unit { color: var(--dim); font-size: 13px; margin-left: 5px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 430px), 1fr)); gap: 14px; }
figure { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; margin: 0; padding: 12px 14px; }
figure h3 { margin: 0 0 4px; }
figure svg { display: block; width: 100%; height: auto; }
.answer { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 18px 20px; font-size: 16px;
  line-height: 1.75; white-space: pre-wrap; overflow-wrap: anywhere; max-width: 75ch; }
.accepted { background: var(--accepted-tint); border-radius: 3px; }
.given { color: var(--dim); }
.answer [data-word] { white-space: normal; }
.answer code { font-size: .88em; white-space: pre-wrap; }
.correction { text-decoration: underline 1px var(--correction); text-underline-offset: 4px; }
.bonus { text-decoration: underline dotted 1.5px var(--bonus); text-underline-offset: 4px; }
.rejected { color: var(--ghost); text-decoration: line-through; font-size: .88em; }
.unjudged { color: var(--unjudged); outline: 1px dashed var(--unjudged); outline-offset: -1px; border-radius: 3px;
  font-size: .88em; text-decoration: none; }
.fold { font-weight: inherit; cursor: pointer; }
.fold::before { content: "⋯" attr(data-n); color: var(--unjudged); outline: 1px dashed var(--unjudged); outline-offset: -1px;
  border-radius: 3px; font-size: .8em; padding: 0 3px; margin: 0 3px; white-space: nowrap; }
.fold .unjudged, .fold:focus-within::before { display: none; }
.fold:focus-within .unjudged { display: inline; }
.fold:focus-within::after { content: none !important; }
.answer .rejected, .answer .unjudged { user-select: none; -webkit-user-select: none; }
.answer [data-d]:hover { box-shadow: 0 0 0 2px var(--accent); border-radius: 3px; }
[data-d]:hover::after, [data-w]:hover::after { content: attr(data-d) attr(data-w);
  position: fixed; z-index: 2; left: 50%; bottom: 16px;
  transform: translateX(-50%); width: max-content; max-width: min(94vw, 760px); white-space: pre-wrap; text-align: left;
  background: var(--panel); color: var(--text); border: 1px solid var(--dim); border-radius: 12px; padding: 10px 16px;
  font: 13px/1.5 ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; box-shadow: 0 8px 30px #0006; }
.switch { display: flex; align-items: center; gap: 10px; margin: 6px 0; font: 12.5px/1.4 FONT; color: var(--dim); }
.switch::before { content: attr(data-words); order: 1; }
.switch::after { content: ""; flex: 1; order: 2; border-top: 1px solid var(--dim); }
.rules { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 10px 14px; margin: 10px 0; }
.bars { display: grid; grid-template-columns: 5em minmax(0, 460px); gap: 5px 12px; align-items: center; margin: 8px 0; }
.bars > span { font-size: 13px; color: var(--dim); }
.bars > .force { color: var(--text); font-weight: 600; }
.bar { position: relative; height: 12px; background: var(--background); border-radius: 3px; }
.bar b { display: block; height: 100%; border-radius: 3px; }
.bar i { position: absolute; top: -3px; bottom: -3px; width: 2px; background: var(--text); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; margin: 10px 0; font-size: 13px;
  color: var(--dim); }
.legend span span, .legend del { color: var(--text); padding: 0 3px; }
.legend .rejected { color: var(--ghost); } .legend .unjudged { color: var(--unjudged); }
.toggle { margin: 0 0 0 auto; padding: 0; border: 0; color: var(--text); }
.toggle legend { float: left; padding: 0; } .toggle label { margin-left: 10px; }
section:has(.toggle [value=none]:checked) .answer :is(.rejected, .fold),
section:has(.toggle [value=rejected]:checked) .answer .fold { display: none; }
.scroll { overflow: auto; max-height: 560px; border: 1px solid var(--line); border-radius: 12px; background: var(--panel); }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--panel); color: var(--dim); font-weight: 500; z-index: 1; }
th.words, td.words { text-align: left; }
td.chips { text-align: left; white-space: normal; min-width: 260px; }
.chips > span { display: inline-block; margin: 0 12px 2px 0; white-space: pre; }
.tree { max-width: 100%; } .tree svg { display: block; width: 100%; height: auto; }
.chips small { display: inline; margin-left: 5px; }
.chips .accepted, .chips .rejected, .chips .unjudged { padding: 0 3px; }
tbody tr:hover { background: var(--background); }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; font-size: 13.5px; margin: 8px 0; }
.facts dt { color: var(--dim); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
code { font: 12.5px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.rows { display: grid; grid-template-columns: minmax(9em, max-content) minmax(120px, 1fr) max-content; grid-auto-flow: dense;
  gap: 7px 14px; align-items: center; margin: 14px 0 0; font-size: 13.5px; }
.rows .name { grid-column: 1; overflow-wrap: anywhere; }
.rows .figure { grid-column: 3; text-align: right; font-variant-numeric: tabular-nums; }
.rows .figure small { display: inline; }
.rows .track { grid-column: 2; position: relative; height: 20px; border-radius: 3px; background: var(--background); }
.rows .track > * { position: absolute; }
.fill { left: 0; top: 5px; bottom: 5px; background: var(--accent); border-radius: 3px; }
.rows + small, figcaption { margin-top: 10px; }
@media (max-width: 560px) { .facts { grid-template-columns: 1fr; } .facts dd { margin-bottom: 6px; }
  .rows { grid-template-columns: 1fr max-content; gap: 2px 10px; }
  .rows .figure { grid-column: 2; } .rows .track { grid-column: 1 / -1; margin-bottom: 9px; } }
@media print { body { background: none; } main { max-width: none; padding: 0; }
  .charts { grid-template-columns: 1fr 1fr; } h2, h3 { break-after: avoid; } tr { break-inside: avoid; }
  table { font-size: 10px; } th, td { padding: 2px 5px; } td.chips { min-width: 0; } td.words { white-space: pre-wrap; }
  .scroll { max-height: none; overflow: visible; } .toggle { display: none; } figure, .tile, .rules { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
