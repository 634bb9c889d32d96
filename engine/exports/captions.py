"""Provenance of a picture, written below it in one or two lines: everything needed to generate the answer again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.lens.shared_wording import RULE_TITLES
from engine.rounds.trace import Trace
from engine.values.errors import is_whole

CHARACTER = 0.56
"""Mean width of a character as a share of the font size; slightly overestimated, so that lines fit."""


def provenance(trace: Trace) -> tuple[str, ...]:
    """Returns target, drafter, rule, gamma, budget and width of trees, temperature, seed, date and version, as far as known.
    Changes are listed in order."""
    header = trace.header
    options, versions = trace.part("options"), trace.part("versions")
    parts = [
        ("target", trace.part("target").get("name")),
        ("drafter", _changed(trace, "drafter", trace.part("drafter").get("name"))),
        ("rule", _changed(trace, "rule", options.get("rule"), RULE_TITLES)),
        ("gamma", _changed(trace, "gamma", options.get("gamma"))),
        *((name, options.get(name)) for name in ("budget", "width") if is_whole(options.get("budget"))),
        ("temperature", options.get("temperature")),
        ("seed", header.get("seed", options.get("seed"))),
        ("", _date(header.get("created"))),
        ("Draftlight", versions.get("draftlight", "")),
    ]
    named = [f"{name} {value}".strip() for name, value in parts if value not in (None, "", "unknown")]
    return tuple(named) if any(part.startswith("Draftlight") for part in named) else (*named, "Draftlight")


def lines(parts: Iterable[str], width: float, size: float, between: str = " · ") -> list[str]:
    """Joins the parts into as few lines of `width` pixels as possible; cuts a part that is longer than a line."""
    max_letters = max(8, int(width / (CHARACTER * size)))
    result: list[str] = []
    for part in parts:
        part = part if len(part) <= max_letters else part[: max_letters - 1] + "…"
        if result and len(result[-1]) + len(between) + len(part) <= max_letters:
            result[-1] += between + part
        else:
            result.append(part)
    return result


def _changed(trace: Trace, name: str, first: Any, titles: Mapping[Any, str] | None = None) -> str:
    values: Sequence[Any] = [first, *(change.get(name) for change in trace.changes)]
    named = (str(value) for value in values if value is not None)
    return " → ".join(dict.fromkeys((titles or {}).get(name, name) for name in named))


def _date(created: Any) -> str:
    """Returns the date as in "2026-11-22 03:16 UTC"; empty if unknown."""
    return f"{created[:16].replace('T', ' ')} UTC" if isinstance(created, str) and len(created) >= 16 else ""
