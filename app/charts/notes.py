"""The line beside a chart's title: what its lines and fillings are, in the colours they are drawn in."""

from __future__ import annotations

from app.charts.by_round import curve_styles
from app.charts.by_time import phase_looks
from app.charts.data import Material, empty_words, speed_note
from app.charts.section import Words
from app.look.theme import Theme
from engine.lens.chart_kinds import ChartName
from engine.lens.tally import PHASES

DASHES = {"match": "┈┈", "gumbel": "━━", "rejection": "╍╍"}
"""The lines of the expected curves, in letters."""


def note_wordings(name: ChartName, material: Material, theme: Theme) -> tuple[Words, ...]:
    """From the longest to the shortest; none where nothing is drawn."""
    tally = material.tally
    if empty_words(name, tally):
        return ()
    if name == "proposals":
        curves = [(colour, DASHES[rule], rule) for rule, (colour, _) in curve_styles(theme).items()]
        return _legend("expected:", *curves), _legend("", *curves), _said("lines: expected")
    if name == "alpha":
        return _said("band: 95% interval"), _said("95%")
    if name == "throughput":
        return _throughput(material, theme)
    if name == "positions":
        return _said("solid: accepted / judged; light: accepted / drafted"), _said("solid: judged; light: drafted")
    if name == "tau":
        lines = [(theme.accent, "━━", "measured")]
        if tally.taus[-1][1] == tally.taus[-1][1]:  # a number, so something is predicted
            lines.append((theme.dim, "╍╍", "predicted"))
        return (_legend("", *lines),)
    if name == "lengths":
        alpha = tally.summary.alpha
        if alpha is None or tally.jointly_judged:
            return (_said("rounds by accepted proposals"),)
        return _legend("", (theme.dim, "╍╍", f"expected at alpha {alpha:.2f}")), _said("outline: expected")
    looks = phase_looks(theme)
    parts = [(looks[phase][0], "■", phase) for phase in PHASES]
    return _legend("bottom to top:", *parts), _legend("", *parts)


def _throughput(material: Material, theme: Theme) -> tuple[Words, ...]:
    if not any(material.tally.gammas.keys() - {0}):
        return _said(f"{speed_note()}; a plain run"), _said(speed_note()), _said("")
    if material.plain is None:
        return _said(f"{speed_note()}; no baseline yet: measure the plain speed"), _said("no baseline yet"), _said("")
    where = "measured" if material.plain_fits else "measured under other conditions"
    line = (theme.dim, "╍╍", f"plain {material.plain:.1f}, {where}")
    return _legend(f"{speed_note()}", line), _legend("", line), _legend("", (theme.dim, "╍╍", f"plain {material.plain:.1f}"))


def _said(words: str) -> Words:
    return words, words


def _legend(before: str, *parts: tuple[str, str, str]) -> Words:
    """`parts`: colour, sign, name."""
    rich = [f'<span style="color:{colour}">{sign}</span>&nbsp;{name.replace(" ", "&nbsp;")}' for colour, sign, name in parts]
    plain = [f"{sign} {name}" for _, sign, name in parts]
    return " &nbsp;".join(filter(None, (before, *rich))), "  ".join(filter(None, (before, *plain)))
