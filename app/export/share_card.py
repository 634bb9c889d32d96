"""The share card: an answer or a comparison as one picture, with the prompt, the figures, and all data needed to repeat it.

No Qt and no model: it is made from a trace. The same trace gives the same card on machines with the same fonts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from app.export.card_text import CODE_SCALE, Measure, TextRun, estimated_width, lay_out
from app.export.pictures import content
from engine.exports import captions
from engine.exports.formats import ExportOptions
from engine.exports.svg import DARK, LIGHT, Drawing, Palette
from engine.exports.tables import compared, dividers_of, last_question, options_of, throughput
from engine.lens.bins import RoundSpan, bin_size
from engine.lens.chart_kinds import CHARTS
from engine.lens.chart_spec import Bars
from engine.lens.charts import Material, spec_of
from engine.lens.dividers import Divider
from engine.lens.pieces import HIDDEN, CodeSplitter, Ghosts, folded, pieces
from engine.lens.shared_wording import LEGEND, RULE_TITLES, all_words, drafter_title, filter_words
from engine.lens.tally import Tally
from engine.rounds.metrics import Summary, stretches, summarise
from engine.rounds.trace import Trace
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.wording import amount

WIDTH = 1200.0
MARGIN = 48.0
CONTENT_WIDTH = WIDTH - 2 * MARGIN
TEXT, LINE = 20.0, 36.0
VERDICT, VERDICT_LINE = 22.0, 34.0
WORD_PATTERN = re.compile(r"\n|[^\S\n]*\S+")
PROMPT_LINES, ANSWER_LINES = 2, 8
COLUMNS, STRIP, STRETCHES = 200, 52.0, 15.0


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, bytes]:
    """Returns the card of the latest answer, or of all compared ones, as PNG or SVG; as in `engine.exports.formats.Make`."""
    measure: Measure = estimated_width
    if wanted.ending == ".png":
        from app.export.raster import text_width  # only this needs Qt

        measure = text_width
    look = wanted.theme, measure, wanted.ghosts or "rejected"
    is_comparison = wanted.compared and len(traces) > 1
    svg = compared_svg(traces, *look, verdict=wanted.verdict) if is_comparison else card_svg(traces[-1], *look)
    return {"card": content(svg, wanted.ending)}


def card_svg(trace: Trace, theme: str = "dark", measure: Measure = estimated_width, ghosts: Ghosts = "rejected") -> str:
    """Returns the card as an SVG document. Tokens get the widths of `measure`; a viewer without that font stretches them."""
    return _card(trace, theme, measure, ghosts).document(bare=True)


def compared_svg(
    traces: Sequence[Trace],
    theme: str = "dark",
    measure: Measure = estimated_width,
    ghosts: Ghosts = "rejected",
    verdict: Sequence[str] = (),
) -> str:
    """Returns the cards of compared answers as one SVG document, in two columns, each with its letter, rule and drafter.

    Args:
        verdict: results of the comparison, a sentence each, written above the cards.
    """
    cards = [
        _card(trace, theme, measure, ghosts, f"{letter}: {_title(trace)}")
        for letter, trace in zip(ascii_uppercase, traces, strict=False)
    ]
    rows = [cards[at : at + 2] for at in range(0, len(cards), 2)]
    heights = [max(card.height for card in row) for row in rows]
    verdict_runs: list[TextRun] = []
    for sentence in verdict:
        runs, _ = lay_out(
            ((word, "verdict") for word in WORD_PATTERN.findall(sentence)), 2 * WIDTH - 2 * MARGIN, 4, VERDICT, measure
        )
        first = _line_count(verdict_runs)
        verdict_runs += [replace(run, line=run.line + first) for run in runs]
    description = "\n".join([*verdict, *(card.words for card in cards)])
    top = MARGIN + VERDICT_LINE * _line_count(verdict_runs) if verdict_runs else 0.0
    drawing = Drawing("comparison", 2 * WIDTH, top + sum(heights), cards[0].palette, description)
    drawing.rect(0, 0, drawing.width, drawing.height, drawing.palette.background)
    for run in verdict_runs:
        x, width, y = MARGIN + run.left + run.indent, run.width - run.indent, MARGIN + 20 + VERDICT_LINE * run.line
        drawing.text(x, y, run.text, drawing.palette.text, VERDICT, length=width)
    for row, height in zip(rows, heights, strict=True):
        for column, card in enumerate(row):
            drawing.place(card, column * WIDTH, top)
        top += height
    return drawing.document(bare=True)


def _title(trace: Trace) -> str:
    """Returns rule and drafter of a compared answer, the heading of its column."""
    drafter = str(trace.part("drafter").get("name") or NO_DRAFTER)
    rule = RULE_TITLES.get(trace.part("options").get("rule", ""), "")
    return "No drafter" if drafter == NO_DRAFTER else f"{rule}, {drafter_title(drafter)}"


def _card(trace: Trace, theme: str, measure: Measure, ghosts: Ghosts, heading: str = "Draftlight") -> Drawing:
    palette = LIGHT if theme == "light" else DARK
    dividers = dividers_of(trace)
    answer, _ = lay_out(_tokens(trace, dividers, ghosts), CONTENT_WIDTH, ANSWER_LINES, TEXT, measure)
    question = last_question(trace) or ""
    prompt, _ = lay_out(
        ((word, "prompt") for word in WORD_PATTERN.findall(question)), CONTENT_WIDTH - 48, PROMPT_LINES, 18, measure
    )
    summary = summarise(trace.rounds)
    by_stretch = captions.lines(_stretch_lines(trace), CONTENT_WIDTH, STRETCHES)
    missing = compared(trace, summary)["speed_up_missing"] if summary.proposals else None
    parts = [*captions.provenance(trace), *_provenance(trace), *(() if missing is None else (f"no speed-up: {missing}",))]
    made_with = captions.lines(parts, CONTENT_WIDTH, 12.5)
    answer_top = 104 + 30 * _line_count(prompt) + 34
    figures_top = answer_top + LINE * max(1, _line_count(answer)) + 22
    strip_top = figures_top + 114 + 22 * len(by_stretch)
    legend_top = strip_top + STRIP + 44
    height = float(round(legend_top + 34 + 20 * len(made_with) + 26))
    name = "card" if heading == "Draftlight" else f"card-{heading[0]}"
    drawing = Drawing(name, WIDTH, height, palette, _description(trace, summary))
    drawing.rect(0, 0, WIDTH, height, palette.background)
    _draw_head(drawing, trace, heading)
    _draw_prompt(drawing, prompt)
    for run in answer:
        _draw_run(drawing, run, MARGIN, answer_top, palette)
    if not answer:
        drawing.text(MARGIN, answer_top + 22, "Nothing was decoded.", size=TEXT)
    _draw_figures(drawing, _figure_texts(trace, summary), figures_top)
    for line, text in enumerate(by_stretch):
        drawing.text(MARGIN, figures_top + 100 + 22 * line, text, size=STRETCHES)
    _draw_rounds(drawing, trace, summary, strip_top, dividers)
    _draw_legend(drawing, legend_top, measure)
    for line, text in enumerate(made_with):
        drawing.text(MARGIN, legend_top + 46 + 20 * line, text, size=12.5)
    return drawing


def _tokens(trace: Trace, dividers: Sequence[Divider], ghosts: Ghosts) -> Iterator[tuple[str, str, bool]]:
    """Yields text, state and whether it is code for each token that the card shows, and a label where settings changed."""
    remaining = deque(dividers)
    answer = "".join(piece.text for piece in pieces(trace.rounds) if not piece.ghost)
    places = CodeSplitter(trace.given_text + answer, len(trace.given_text))
    for piece in folded(piece for piece in pieces(trace.rounds) if piece.kind not in HIDDEN[ghosts]):
        while remaining and piece.spot.round >= remaining[0].first:
            yield f" [{remaining.popleft().from_here}]", "divider", False
        for text, code in places.parts(piece.text, piece.ghost):
            yield text, piece.kind, code


def _stretch_lines(trace: Trace) -> list[str]:
    """Returns the figures of each rule or drafter, if the answer had several: the boxes show those of the whole answer."""
    lines = all_words(stretches(trace.rounds))
    return ["The figures above are of the whole answer", *lines] if lines else []


def _line_count(runs: list[TextRun]) -> int:
    return runs[-1].line + 1 if runs else 0


def _draw_head(drawing: Drawing, trace: Trace, heading: str) -> None:
    drawing.text(MARGIN, 62, heading, drawing.palette.text, 24, bold=True)
    target = trace.part("target").get("name") or "unknown target"
    drafter = trace.part("drafter").get("name") or NO_DRAFTER
    with_drafter = "without a drafter" if drafter == NO_DRAFTER else f"drafted by {Path(str(drafter)).name}"
    text = f"{Path(str(target)).name}, {with_drafter}"
    drawing.text(WIDTH - MARGIN, 62, text if len(text) <= 84 else text[:83] + "…", size=16, anchor="end")


def _draw_prompt(drawing: Drawing, prompt: list[TextRun]) -> None:
    if not prompt:
        return
    palette = drawing.palette
    drawing.rect(MARGIN, 88, CONTENT_WIDTH, 30 * _line_count(prompt) + 22, palette.panel, palette.line, radius=14)
    for run in prompt:
        x, width = MARGIN + 24 + run.left + run.indent, run.width - run.indent
        drawing.text(x, 121 + 30 * run.line, run.text, palette.text, 18, length=width)


def _draw_run(drawing: Drawing, run: TextRun, left: float, top: float, palette: Palette, size: float = TEXT) -> None:
    """Draws one token with the mark of its state: tint, underline, dots or strike-through."""
    x, width = left + run.left, run.width
    baseline = top + 24 + LINE * run.line
    inner, inner_width = x + run.indent, width - run.indent
    colour = palette.text
    if run.state == "accepted":
        drawing.rect(x + 0.5, baseline - 21, max(1.0, width - 1), 29, palette.accepted_tint, radius=4)
    elif run.state == "rejected":
        colour = palette.ghost
    elif run.state == "unjudged":
        colour = palette.unjudged
    elif run.state in ("more", "divider"):
        colour = palette.dim
    if run.text:
        drawing.text(inner, baseline, run.text, colour, size * (CODE_SCALE if run.code else 1), mono=run.code, length=inner_width)
    if run.state == "correction" and run.text:
        drawing.rect(inner, baseline + 5, inner_width, 1.4, palette.correction)
    elif run.state == "bonus" and run.text:
        drawing.line((inner + 1, baseline + 6.5), (inner + inner_width, baseline + 6.5), palette.bonus, 1.6, "1.6 3")
    elif run.state == "rejected" and run.text:
        drawing.line((inner - 1, baseline - 6.5), (inner + inner_width + 1, baseline - 6.5), palette.ghost, 1.4)


def _figure_texts(trace: Trace, summary: Summary) -> Iterator[tuple[str, str, str]]:
    """Yields name, value and unit of each figure that is known."""
    speed, comparison = throughput(trace, summary), compared(trace, summary)
    if speed is not None:
        yield "Throughput", f"{speed:.1f}", "tokens/s"
    if comparison["speed_up"] is not None:
        yield "Speed-up", f"{comparison['speed_up']:.2f}", f"× plain {comparison['plain_throughput']:.1f}"
    if summary.alpha is not None and summary.alpha_low is not None and summary.alpha_high is not None:
        yield "Alpha", f"{summary.alpha:.2f}", f"± {(summary.alpha_high - summary.alpha_low) / 2:.2f}"
    if summary.tau is not None:
        yield "Tau", f"{summary.tau:.2f}", "" if summary.predicted_tau is None else f"expected {summary.predicted_tau:.2f}"
    if summary.draft_yield is not None:
        yield "Draft yield", f"{summary.draft_yield:.2f}", f"of {summary.proposals:,}"
    yield "Tokens", f"{summary.emitted:,}", f"in {amount(summary.rounds, 'round')}"


def _draw_figures(drawing: Drawing, figures: Iterator[tuple[str, str, str]], top: float) -> None:
    palette, shown = drawing.palette, list(figures)
    width = (CONTENT_WIDTH - 14 * (len(shown) - 1)) / len(shown)
    for index, (name, value, unit) in enumerate(shown):
        left = MARGIN + index * (width + 14)
        drawing.rect(left, top, width, 76, palette.panel, palette.line, radius=12)
        drawing.text(left + 16, top + 27, name, size=14)
        drawing.text(left + 16, top + 60, value, palette.text, 26, bold=True, mono=True)
        unit_left = 16 + 0.63 * 26 * len(value) + 8
        unit_size = (width - unit_left - 10) / (captions.CHARACTER * max(1, len(unit)))
        drawing.text(left + unit_left, top + 60, unit, size=min(13.0, unit_size))


def _draw_rounds(drawing: Drawing, trace: Trace, summary: Summary, top: float, dividers: Sequence[Divider]) -> None:
    """Draws the verdicts of all rounds as stacked bars, as wide as the card."""
    palette = drawing.palette
    tally = Tally.of(trace.rounds)
    span = RoundSpan(0, tally.rounds, bin_size(tally.rounds, COLUMNS), tally.rounds)
    spec = spec_of(CHARTS["proposals"], Material(tally, span, for_export=True))
    bars = [mark for panel in spec.panels for mark in panel.marks if isinstance(mark, Bars)]
    longest = max((height for mark in bars for _, height in mark.cut_off()), default=0.0)
    cut = f", drafts of up to {longest:.0f} cut off" if longest else ""
    mean = "" if span.each == 1 else f", in bins of {span.each:,}: their mean"
    changes = "; ".join(f"{divider.title} from round {divider.first + 1:,}" for divider in dividers)
    dashed = f" (dashed: {changes})" if dividers else ""
    drawing.text(MARGIN, top - 6, f"Proposals per round{mean}{cut}{dashed}" if bars else "Nothing was proposed", size=14)
    if not bars:
        drawing.line((MARGIN, top + STRIP), (WIDTH - MARGIN, top + STRIP), palette.line)
        return
    (mark,) = bars
    width = min(16.0, CONTENT_WIDTH / len(mark.x))
    for index, values in enumerate(mark.values.tolist()):
        left, low = MARGIN + index * width, top + 8 + STRIP
        for part, count in zip(mark.parts, values, strict=True):
            height = min(count / mark.max_height * STRIP, low - top - 8)
            if height > 0:
                _draw_cell(drawing, part.role, left, low - height, width - min(2.0, 0.3 * width), height)
            low -= height
    for divider in dividers:
        x = MARGIN + width * min(divider.first // span.each, len(mark.x))
        drawing.line((x, top + 2), (x, top + 12 + STRIP), palette.text, 1.4, "4 3")


def _draw_cell(drawing: Drawing, status: str, x: float, y: float, width: float, height: float) -> None:
    """Draws a part of a bar: filled, hatched or outlined."""
    palette = drawing.palette
    if status == "accepted":
        drawing.rect(x, y, width, height, palette.accepted)
    elif status == "rejected":
        drawing.rect(x, y, width, height, palette.rejected, opacity=0.3)
        drawing.rect(x, y, width, height, drawing.hatch(palette.rejected))
    else:
        drawing.rect(x + 0.5, y + 0.5, max(0.5, width - 1), max(0.5, height - 1), stroke=palette.unjudged, opacity=0.5)


def _draw_legend(drawing: Drawing, top: float, measure: Measure) -> None:
    """Draws the name of each state with its mark."""
    x = MARGIN
    for state in LEGEND:
        width = measure(state, 15)
        if state == "unjudged":
            _draw_cell(drawing, state, x, top - 2, 14, 14)
            drawing.text(x + 22, top + 10, state, size=15, length=width)
            x += 22
        else:
            _draw_run(drawing, TextRun(state, state, 0, width, 0, 0), x, top - 14, drawing.palette, 15)
        if state in ("accepted", "rejected"):
            _draw_cell(drawing, state, x + width + 8, top - 2, 14, 14)
        x += width + (56 if state in ("accepted", "rejected") else 34)


def _provenance(trace: Trace) -> Iterator[str]:
    """Yields how the answer was made, as far as the trace says: hashes of the models, sampling filters, versions and hardware."""
    hardware, versions = trace.part("hardware"), trace.part("versions")
    for name, part in (("target", "target"), ("drafter", "drafter")):
        digest = trace.part(part).get("sha256")
        if isinstance(digest, str) and digest:
            yield f"{name} SHA-256 {digest[:16]}"
    yield from filter_words(options_of(trace)).values()
    if versions.get("mlx"):
        yield f"MLX {versions['mlx']}"
    if hardware.get("processor") or hardware.get("machine"):
        yield " ".join(str(hardware.get("processor") or hardware.get("machine")).split())
    if hardware.get("device"):
        if hardware["device"] not in (hardware.get("processor"), hardware.get("machine")):
            yield f"device {hardware['device']}"


def _description(trace: Trace, summary: Summary) -> str:
    """Returns a description of the card for screen readers."""
    text = "".join(round.text for round in trace.rounds)
    excerpt = text if len(text) <= 400 else text[:399] + "…"
    alpha = "" if summary.alpha is None else f", alpha {summary.alpha:.2f}"
    tau = "" if summary.tau is None else f", tau {summary.tau:.2f}"
    return f"An answer decoded by Draftlight{alpha}{tau}. Prompt: {(last_question(trace) or '')[:200]} Answer: {excerpt}"
