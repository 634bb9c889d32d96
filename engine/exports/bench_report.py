"""A benchmark as one HTML file: the recommended setting and its confidence, the settings side by side, and every figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from engine.exports.html_page import Column, bars, chart, facts, figure, interval, page, pairs, table, text
from engine.exports.svg import VARIABLES
from engine.exports.svg_charts import draw
from engine.lens.chart_spec import Axis, ChartSpec, Level, Line, Panel
from engine.machine import provenance
from engine.tools.bench.chooser import Decision, advice, has_several_rules, setting_words
from engine.tools.bench.report import METHOD, Results
from engine.tools.bench.statistics import ALL, BenchFigures, grouped, noise_of_plain, plain_rates
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import is_whole
from engine.values.requests.bench import BenchSetting
from engine.values.wording import amount, listed, size

_SHEET = """
.choice { background: var(--panel); border: 1px solid var(--line); border-radius: 14px; padding: 16px 20px 18px; margin: 18px 0; }
.choice h2 { border: 0; margin: 0; padding: 0; font-size: 22px; line-height: 1.3; text-wrap: balance; }
.choice p { max-width: 75ch; }
.choice .dim { font-size: 13px; margin: 0 0 2px; }
.rows .named { font-weight: 600; }
.range { top: 8px; height: 4px; background: var(--dim); border-radius: 2px; opacity: .55; }
.spot { top: 5px; width: 10px; height: 10px; margin-left: -5px; border-radius: 50%; border: 2px solid var(--dim);
  background: var(--panel); }
.named .spot, .named + .figure + .track .spot { border-color: var(--accent); background: var(--accent); }
.dot { top: 8.5px; width: 3px; height: 3px; margin-left: -1.5px; border-radius: 50%; background: var(--text); opacity: .75; }
.plain { top: -4px; bottom: -4px; border-left: 1px dashed var(--dim); }
.rows .ticks { background: none; height: 15px; color: var(--dim); font-size: 12px; }
.ticks span { transform: translateX(-50%); white-space: nowrap; }
td.category { text-align: left; font-weight: 600; }
li { margin: 3px 0; }
@media (max-width: 560px) {
  .choice { padding: 14px 14px 16px; } .choice h2 { font-size: 19px; } }
@media print { .choice { break-inside: avoid; } }
"""


def to_html(results: Results) -> str:
    """Returns the report as one HTML document; an unfinished benchmark will do."""
    target = results.request.target if results.setup is None else results.setup.target.name
    title = f"Drafters for {target}, measured on this machine"
    return page(title, "".join(_body(results, title)), _SHEET)


def _body(results: Results, title: str) -> Iterator[str]:
    hardware = provenance.hardware()
    cores = f"{hardware['cores']} {'core' if hardware['cores'] == 1 else 'cores'}"
    machine = f"{hardware['processor'] or hardware['machine']}, {cores}"
    yield f"<header><h1>{text(title)}</h1><p class=dim>{text(machine)}. Benchmark by Draftlight {provenance.version()}, "
    yield f"{text(results.created.replace('T', ' ').removesuffix('+00:00'))} UTC.</p>"
    yield f"<p class=dim>{text(results.conditions())}</p></header>"
    if results.complete is False and results.setup is not None:
        why = "The time was over before everything was measured." if results.out_of_time else "It was stopped before its end."
        again = "The same benchmark goes on with the rest when it is run again."
        yield f"<p class=note>{text(' '.join([why, *results.missing(), again]))}</p>"
    decisions = results.decisions()
    for decision in decisions:
        yield from _choice(decision, len(decisions) > 1)
    figures = results.figures()
    if not figures:
        yield "<p>Nothing was measured.</p>"
        return
    yield from _charts(results, figures)
    yield "<h2>Every figure</h2>"
    yield from _table(figures)
    yield "<h2>How it was measured</h2><ul>"
    yield "".join(f"<li>{text(line)}</li>" for line in (*_notes(results), *METHOD.values()))
    yield "</ul><h2>Provenance</h2>"
    yield _provenance(results)


def _choice(decision: Decision, several: bool) -> Iterator[str]:
    """Yields the recommendation at one temperature, and its contenders on one scale."""
    words = advice(decision)
    yield "<section class=choice>"
    if several:
        yield f"<p class=dim>At temperature {decision.temperature:g}</p>"
    yield f"<h2>{text(words.headline)}</h2>"
    yield "".join(f"<p>{text(detail)}</p>" for detail in words.details)
    if decision.contenders:
        yield from _forest(decision)
        yield (
            "<small>Speed relative to plain decoding (dashed line), on a logarithmic scale. Large spots: means, filled for those "
            "that may be the fastest. Bars: 95% intervals over prompts. Dots: single prompts.</small>"
        )
    yield "</section>"


def _forest(decision: Decision) -> Iterator[str]:
    """Yields a row for each contender: its name, its speed-up with the interval, and both drawn on a common scale."""
    seen = [value for entry in decision.contenders for value in entry.by_prompt]
    low, high = min(0.8, min(seen) / 1.08), max(1.25, max(seen) * 1.08)
    rules = has_several_rules(entry.setting for entry in decision.contenders)

    def at(value: float) -> str:
        """Returns the position of a speed-up from the left of the track; values beyond the ends are drawn at the ends."""
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return f"{share:.2%}"

    yield "<div class=rows>"
    for entry in decision.contenders:
        named = " named" if entry in decision.best else ""
        spread = "" if entry.interval is None else f" <small>({interval(entry.interval)})</small>"
        yield f"<span class='name{named}'>{text(setting_words(entry.setting, rules))}</span>"
        yield f"<span class='figure{named}'>{entry.speedup:.2f} ×{spread}</span><span class=track aria-hidden=true>"
        yield f"<span class=plain style='left: {at(1)}'></span>"
        if entry.interval is not None:
            left, right = (at(value).rstrip("%") for value in entry.interval)
            yield f"<span class=range style='left: {left}%; width: {float(right) - float(left):.2f}%'></span>"
        if not entry.setting.is_baseline:
            yield "".join(f"<span class=dot style='left: {at(value)}'></span>" for value in entry.by_prompt)
        yield f"<span class=spot style='left: {at(entry.speedup)}'></span></span>"
    marks = [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if low * 1.05 <= value <= high / 1.05]
    yield "<span class='track ticks' aria-hidden=true>"
    yield "".join(f"<span style='left: {at(value)}'>{value:g} ×</span>" for value in marks)
    yield "</span></div>"


def _charts(results: Results, figures: Sequence[BenchFigures]) -> Iterator[str]:
    """Yields charts of the settings over all prompts, of the fastest by category, and of plain speed over time."""
    together = [entry for entry in figures if entry.category == ALL] or list(figures)
    several = len(results.request.temperatures) > 1
    rules = has_several_rules(entry.setting for entry in together)
    named = [(_row_name(entry.setting, rules, several), entry) for entry in together]
    yield "<h2>The settings beside each other</h2><div class=charts>"
    yield bars(
        "Tokens per second",
        [(name, entry.tokens_per_second, "{:.1f}") for name, entry in named],
        "Over all prompts together. The machine may have been slower at times, so compare the speed-ups rather than these.",
    )
    yield bars(
        "Alpha",
        [(name, entry.alpha, "{:.2f}") for name, entry in named],
        "Accepted / (accepted + rejected): how good the proposals were. A good drafter may still be slow.",
        maximum=1.0,
    )
    yield bars(
        "Peak memory",
        [(name, entry.peak_memory, "bytes") for name, entry in named],
        "Arrays of MLX: target, drafter, caches and intermediate results, without the other drafters that were loaded. Python, "
        "the tokenizer and libraries are not counted.",
    )
    categories = [entry for entry in figures if entry.category != ALL and not entry.setting.is_baseline]
    if len({entry.category for entry in categories}) > 1:
        measured = (entry for entry in categories if entry.speedup is not None)
        rows = [
            (f"{category}: {_row_name(top.setting, rules, several)}", top.speedup, "{:.2f} ×")
            for category, found in grouped(measured, lambda entry: entry.category).items()
            for top in [max(found, key=lambda entry: entry.speedup or 0.0)]
        ]
        yield bars(
            "The fastest by category",
            rows,
            "What happened to be fastest, with its speed-up. A prompt or two of a category say little about others of its kind.",
        )
    yield f"{_steadiness(results)}</div>"


def _row_name(setting: BenchSetting, rules: bool, temperatures: bool) -> str:
    name = setting_words(setting, rules) if setting.maker == "draftlight" else f"mlx-lm, {_peer(setting)}"
    return f"{name}, T {setting.temperature:g}" if temperatures else name


def _peer(setting: BenchSetting) -> str:
    return "plain" if setting.drafter == NO_DRAFTER else f"{setting.drafter} with gamma {setting.gamma}"


def _steadiness(results: Results) -> str:
    """Returns a chart of each prompt's plain runs in the order of measuring, relative to their mean."""
    points = []
    for rates_ in plain_rates(results.rows):
        mean = math.exp(math.fsum(math.log(rate) for _, rate in rates_) / len(rates_))
        points.append([(order, rate / mean) for order, rate in rates_])
    every = [value for rates_ in points for _, value in rates_]
    if len(every) < 3:
        return ""
    deviation = max(0.1, *(abs(value - 1) for value in every)) * 1.1
    orders = [order for rates_ in points for order, _ in rates_]
    lines = (
        Line(np.array([order for order, _ in rates_]), np.array([rate for _, rate in rates_]), "accent", width=1.2, dots=2.6)
        for rates_ in points
    )
    spec = ChartSpec(
        Axis(min(orders), max(orders)),
        (Panel(Axis(1 - deviation, 1 + deviation), (Level(1, "dim", width=1), *lines)),),
        "Speed of plain runs during the benchmark",
    )
    drawing = draw("steadiness", spec, VARIABLES, across="run")
    noise = noise_of_plain(results.rows)
    words = "Plain runs of the same prompt (joined by a line), relative to their mean: the noise of this machine."
    if noise is not None:
        words += f" They differ by a median factor of {noise:.2f}."
    return chart("How steady the machine was", drawing.inline(), words)


def _table(figures: Sequence[BenchFigures]) -> Iterator[str]:
    rows: list[BenchFigures | str] = []
    for category, block in groupby(figures, lambda entry: entry.category):
        entries = list(block)
        rows += [f"{text(category)}, {amount(max(entry.prompts for entry in entries), 'prompt')}", *entries]
    yield from table("Every figure", _COLUMNS, rows)


def _drafter(setting: BenchSetting) -> str:
    return text(setting.drafter if setting.maker == "draftlight" else f"mlx-lm, {_peer(setting)}")


_COLUMNS: tuple[Column[BenchFigures], ...] = (
    Column("drafter", lambda entry: _drafter(entry.setting), "words"),
    Column("rule", lambda entry: entry.setting.rule or "–", "words"),
    Column("T", lambda entry: f"{entry.setting.temperature:g}", "words"),
    Column("gamma", lambda entry: "–" if entry.setting.gamma is None else str(entry.setting.gamma), "words"),
    Column("tokens/s", lambda entry: figure(entry.tokens_per_second, 1)),
    Column("plain", lambda entry: figure(entry.plain_tokens_per_second, 1)),
    Column("speed-up", lambda entry: figure(entry.speedup)),
    Column("95%", lambda entry: interval(entry.speedup_interval, "")),
    Column("alpha", lambda entry: figure(entry.alpha)),
    Column("95%", lambda entry: interval(entry.alpha_interval, "")),
    Column("tau", lambda entry: figure(entry.tau)),
    Column("first token, s", lambda entry: figure(entry.seconds_to_first_token)),
    Column("repeated", lambda entry: "–" if entry.repetition is None else f"{entry.repetition:.0%}"),
    Column("memory", lambda entry: "–" if entry.peak_memory is None else size(entry.peak_memory)),
)


def _notes(results: Results) -> list[str]:
    comparable = [row for row in results.rows if row.same_text is not None]
    same = sum(row.same_text is True for row in comparable)
    answers = amount(len(comparable), "answer")
    equal = f"{same} of {answers} that should equal the plain one did; near-ties can make the others differ."
    notes = results.setup.notes if results.setup else ()
    return [line for line in (equal if comparable else "", results.memory_of_process(), *notes, *results.messages) if line]


def _provenance(results: Results) -> str:
    request, setup = results.request, results.setup
    drafters = () if setup is None else setup.drafters
    return facts(
        [
            ("target", request.target if setup is None else setup.target.name),
            ("target SHA-256", None if setup is None else setup.target.sha256),
            ("drafters", listed([drafter.name for drafter in drafters]) if drafters else None),
            *((f"{text(drafter.name)} SHA-256", drafter.sha256) for drafter in drafters),
            ("device", None if setup is None else setup.device),
            ("sampling", results.sampling()),
            ("trees", None if not is_whole(request.budget) else f"budget {request.budget}, width {request.width}"),
            ("seed", request.seed),
            ("longest answer", amount(request.max_tokens, "token")),
            ("prompts", ", ".join(prompt.id for prompt in request.prompts)),
            ("machine", pairs(provenance.hardware())),
            ("versions", pairs(provenance.versions())),
        ]
    )
