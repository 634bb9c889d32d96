"""The report: one HTML file for people, with everything about some answers. It contains no script and loads nothing."""

from __future__ import annotations

import hashlib
import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from engine.exports.formats import ExportOptions
from engine.exports.html_page import Column, chart, facts, figure, interval, page, pairs, readable, table, text
from engine.exports.json_file import total
from engine.exports.svg import VARIABLES
from engine.exports.svg_charts import picture
from engine.exports.svg_tree import tree_drawing
from engine.exports.tables import Row, about, compared, dividers_of, last_question, names, options_of, prompt_tokens
from engine.lens.chart_kinds import CHARTS
from engine.lens.pieces import (
    GHOST_STEPS,
    GHOSTS,
    CodeSplitter,
    Ghosts,
    Piece,
    Spot,
    pieces,
    quoted,
    visible,
    visible_candidate,
    where_proposed,
)
from engine.lens.rule_comparison import RuleComparison, comparison_sentence, difference_sentence, similarity_reason
from engine.lens.shared_wording import FIGURES, FINISH_WORDS, LEGEND, RULE_TITLES, drafter_title
from engine.lens.tally import Tally
from engine.lens.token_reasons import decision, limitations, outside_vocabulary
from engine.machine.provenance import version
from engine.rounds import near_ties
from engine.rounds.metrics import RankCounts, Stretch, Summary
from engine.rounds.trace import Trace
from engine.types import Candidate, DecodingOptions, Emitted, Proposal, Round
from engine.values.errors import is_whole
from engine.values.wording import amount

WORD = re.compile(r" ?\S+( \S+)*")
"""A token that looks the same after HTML collapses its blanks, unless it follows another blank."""


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, str]:
    """As in `engine.exports.formats.Make`."""
    return {"report": to_html(traces, wanted.ghosts or "all", wanted.verdict)}


def to_html(traces: Sequence[Trace], ghosts: Ghosts = "all", verdict: Sequence[str] = ()) -> str:
    """Returns the report on these answers as one HTML document.

    Args:
        ghosts: those that are visible at first; the reader can change that.
        verdict: results of a comparison of the answers, a sentence each.
    """
    title = _title(traces)
    return page(title, "".join(_page(traces, title, ghosts, verdict)))


def _title(traces: Sequence[Trace]) -> str:
    question = last_question(traces[0]) if traces else None
    line = " ".join((question or "Answers").split())
    return line if len(line) <= 90 else line[:89].rstrip() + "…"


def _page(traces: Sequence[Trace], title: str, ghosts: Ghosts, verdict: Sequence[str]) -> Iterator[str]:
    exported = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    several = amount(len(traces), "answer") if len(traces) != 1 else "One answer"
    yield f"<header><h1>{text(title)}</h1>"
    yield f"<p class=dim>{several}, decoded speculatively. Report by Draftlight {version()}, {exported}.</p>"
    if len(traces) > 1:
        links = (f'<li><a href="#answer{index}">{text(name)}</a></li>' for index, name in enumerate(names(traces), 1))
        yield f"<nav aria-label=Answers><ol>{''.join(links)}</ol></nav>"
    yield "</header>"
    if verdict:
        sentences = "".join(f"<p>{text(sentence)}</p>" for sentence in verdict)
        yield f"<section><h2>What the comparison shows</h2>{sentences}</section>"
    if len(traces) > 1:
        yield "<section><h2>All answers together</h2><p class=dim>As if they had been decoded one after the other.</p>"
        yield f"{_tiles(total(traces))}</section>"
    for index, (name, trace) in enumerate(zip(names(traces), traces, strict=True), 1):
        yield from _answer(trace, name, index, ghosts, alone=len(traces) == 1)


def _answer(trace: Trace, name: str, index: int, ghosts: Ghosts, alone: bool) -> Iterator[str]:
    facts, tally = about(trace, name), Tally.of(trace.rounds)
    yield f'<section id="answer{index}">'
    if not alone:
        yield f"<h2>Answer {index}</h2>"
    if facts["prompt"] is not None:
        yield f'<div class=prompt role=note aria-label="Prompt">{text(facts["prompt"])}</div>'
    for note in (trace.missing, facts["error"]):
        if note:
            yield f"<p class=note>{text(str(note))}</p>"
    first = facts["seconds_to_first_token"]
    yield _tiles(
        tally.summary,
        first if isinstance(first, (int, float)) else None,
        FINISH_WORDS.get(facts["finish"], ""),
        compared(trace, tally.summary),
    )
    if len(tally.stretches) > 1:
        yield "<h3>By rule and drafter</h3>"
        yield from table("By rule and drafter", _STRETCHES, tally.stretches)
    if by_rank := tally.summary.by_rank:
        yield f"<h3>{BY_CHOICE}</h3><p class=dim>Where a tree offered several choices for a position: how often each was "
        yield "accepted, and how often it or one before it was. A row counts the judged positions that had this choice.</p>"
        yield from table(BY_CHOICE, _RANKS, by_rank)
    if comparisons := tally.comparisons.all:
        yield "<h3>The rules at the same positions</h3>"
        for comparison in comparisons:
            yield from _comparison(comparison, options_of(trace))
    yield "<h3>Answer</h3>"
    yield _legend(index, ghosts)
    yield f"<div class=answer>{_given(trace)}{''.join(_spans(trace))}</div>"
    yield "<h3>Charts</h3><div class=charts>"
    for kind in CHARTS.values():
        if kind.needs_trees and not tally.summary.by_rank:
            continue
        drawn = picture(kind, trace, tally, VARIABLES).inline(f"a{index}-")
        yield chart(kind.title, drawn, kind.definition + kind.export_note)
    yield "</div><h3>Rounds</h3>"
    yield from table("Rounds", _ROUNDS, trace.rounds)
    yield "<h3>Provenance</h3>"
    yield f"{_provenance(trace)}</section>"


def _tiles(summary: Summary, first_token: float | None = None, finish: str = "", speeds: Row | None = None) -> str:
    """Returns the tiles with the main figures.

    Args:
        speeds: plain run and speed-up of an answer, as from `compared`; None for several answers together.
    """
    expected = f"expected {summary.predicted_tau:.2f}" if summary.predicted_tau is not None else ""
    entries = [
        *(() if speeds is None else (("Speed-up", figure(speeds["speed_up"]), *_speed_up_words(speeds)),)),
        ("Throughput", figure(summary.throughput, 1), "tokens/s", FIGURES["throughput"]),
        (
            "Acceptance rate (alpha)",
            figure(summary.alpha),
            interval((summary.alpha_low, summary.alpha_high), ""),
            f"{FIGURES['alpha']} Here {summary.accepted:,} of {summary.accepted + summary.rejected:,}, with {summary.unjudged:,} "
            "unjudged. The range is Wilson's 95% interval.",
        ),
        (
            "Tokens per pass (tau)",
            figure(summary.tau),
            expected,
            f"{FIGURES['tau']} The expected value is {FIGURES['predicted_tau']}. Block has none, because it judges jointly.",
        ),
        (
            "Draft yield",
            figure(summary.draft_yield),
            f"of {amount(summary.proposals, 'proposal')}" if summary.proposals else "",
            FIGURES["draft_yield"],
        ),
        (
            "Tokens",
            f"{summary.emitted:,}",
            f"in {amount(summary.rounds, 'round')}",
            "A round is one forward pass of the target: propose, verify, judge, commit."
            + (f" Finish: {finish}." if finish else ""),
        ),
        (
            "Time",
            f"{summary.seconds:.2f}",
            "s",
            "From the end of reading the prompt to the end of the last round."
            + (f" First token after {first_token:.2f} s." if first_token is not None else ""),
        ),
    ]
    tiles = (
        f"<div class=tile><dt>{label}</dt><dd><span class=value>{value}</span><span class=unit>{unit}</span>"
        f"<small>{words[:1].upper()}{words[1:]}</small></dd></div>"
        for label, value, unit, words in entries
    )
    return f"<dl class=tiles>{''.join(tiles)}</dl>"


_STRETCHES: tuple[Column[Stretch], ...] = (
    Column("rounds", lambda stretch: f"{stretch.first + 1:,} to {stretch.first + stretch.summary.rounds:,}"),
    Column("rule", lambda stretch: RULE_TITLES[stretch.rule], "words"),
    Column("drafter", lambda stretch: text(drafter_title(stretch.drafter)), "words"),
    Column("tokens", lambda stretch: f"{stretch.summary.emitted:,}"),
    Column("tokens/s", lambda stretch: figure(stretch.summary.throughput, 1)),
    Column("alpha", lambda stretch: figure(stretch.summary.alpha)),
    Column("95% interval", lambda stretch: interval((stretch.summary.alpha_low, stretch.summary.alpha_high))),
    Column("tau", lambda stretch: figure(stretch.summary.tau)),
    Column("expected tau", lambda stretch: figure(stretch.summary.predicted_tau)),
    Column("draft yield", lambda stretch: figure(stretch.summary.draft_yield)),
)


BY_CHOICE = "Acceptance by choice"
_RANKS: tuple[Column[RankCounts], ...] = (
    Column("choice", lambda found: f"{found.rank + 1}"),
    Column("positions", lambda found: f"{found.offered:,}"),
    Column("accepted", lambda found: f"{found.accepted:,}"),
    Column("up to this choice", lambda found: f"{found.covered:,}"),
    Column("coverage", lambda found: figure(found.coverage)),
    Column("95% interval", lambda found: interval(found.interval)),
)


def _comparison(comparison: RuleComparison, options: DecodingOptions) -> Iterator[str]:
    """Yields a bar for each rule on a scale from 0 to 1, and the same in words."""
    yield f"<div class=rules><p>{text(comparison_sentence(comparison))}</p><div class=bars aria-hidden=true>"
    for rule, value in comparison.expected.items():
        mark = ""
        if rule == comparison.rule and comparison.observed is not None:
            mark = f'<i style="left: {comparison.observed:.1%}"></i>'
        bar = f'<b style="width: {value:.1%}; background: var(--rule-{rule})"></b>{mark}'
        yield f"<span{' class=force' if rule == comparison.rule else ''}>{RULE_TITLES[rule]}</span><span class=bar>{bar}</span>"
    words = similarity_reason(comparison, options) or difference_sentence(comparison)
    shown = "" if comparison.observed is None else " The mark shows what happened."
    yield f"</div><small>{text(words)}{shown}</small></div>"


def _speed_up_words(speeds: Row) -> tuple[str, str]:
    """Returns the unit of the speed-up and its explanation."""
    if speeds["plain_throughput"] is None:
        return "", f"{speeds['speed_up_missing']}."
    run = f"{speeds['plain_throughput']:,.1f} tokens/s over {amount(speeds['plain_tokens'], 'token')}"
    return "× plain", f"throughput divided by that of a plain run of the same prompt: {run}."


def _legend(index: int, ghosts: Ghosts) -> str:
    shown = "rejected" if ghosts == "above" else ghosts  # a page of HTML has no room above its lines
    entries = "".join(f"<span>{_marked(state, state)} {words}</span>" for state, words in LEGEND.items())
    steps = "".join(
        f"<label><input type=radio name=ghosts{index} value={step}{' checked' if step == shown else ''}> {step}</label>"
        for step in GHOST_STEPS
        if step != "above"
    )
    toggle = f"<fieldset class=toggle><legend>Ghosts:</legend>{steps}</fieldset>"
    return f"<div class=legend>{entries}{toggle}</div>"


def _marked(state: str, words: str, details: str = "", word: bool = False, parts: Sequence[tuple[str, bool]] = ()) -> str:
    """Returns a token in the style of its state. Ghosts are `<del>` elements, so that screen readers announce them as deleted.

    Args:
        word: the token is an ordinary word: its blank may be collapsed at the end of a line.
        parts: the words in parts, each with whether it is code.
    """
    tag = "del" if state in GHOSTS else "span"
    tooltip = f' data-d="{text(details)}"' if details else ""
    shown = "".join(f"<code>{text(part)}</code>" if code else text(part) for part, code in parts) or text(words)
    word = word and not any(code for _, code in parts)
    return f'<{tag} class="{state}"{tooltip}{" data-word" * word}>{shown}</{tag}>'


def _given(trace: Trace) -> str:
    given = trace.given_text
    parts = CodeSplitter(given).parts(given)
    why = "The answer was started with this text: it branches off another answer."
    return _marked("given", given, why, parts=parts) if given else ""


def _spans(trace: Trace) -> Iterator[str]:
    """Yields the answer token by token. Unjudged tokens of a round are folded into one sign, which opens by click or Tab."""
    recorded = trace.part("options").get("temperature")
    temperature = float(recorded) if isinstance(recorded, (int, float)) else math.nan
    dividers = deque(dividers_of(trace))
    text_of_answer = "".join(piece.text for piece in pieces(trace.rounds) if not piece.ghost)
    splitter = CodeSplitter(trace.given_text + text_of_answer, len(trace.given_text))
    before = {False: trace.given_text, True: trace.given_text}  # last text, without and with ghosts
    for (index, kind), group in groupby(pieces(trace.rounds), key=lambda piece: (piece.spot.round, piece.kind)):
        while dividers and index >= dividers[0].first:
            yield f'<i class=switch role=separator data-words="{text(dividers.popleft().label)}"></i>'
        run = [piece for piece in group if piece.text]
        tokens = ""
        for piece in run:
            word = bool(WORD.fullmatch(piece.text)) and not any(text[-1:].isspace() or not text for text in before.values())
            parts = splitter.parts(piece.text, piece.ghost)
            tokens += _marked(kind, piece.text, details(trace.rounds[index], piece.spot, temperature), word, parts)
            before[True] = piece.text
            if not piece.ghost:
                before[False] = piece.text
        yield _fold(run, tokens) if kind == "unjudged" and run else tokens


def _fold(run: Sequence[Piece], tokens: str) -> str:
    count = amount(len(run), "unjudged token")
    details_ = text(f"{count}: “{''.join(piece.text for piece in run).strip()}”\nClick to see each of them.")
    return f'<b class=fold tabindex=0 aria-label="{count}" data-n={len(run)} data-w="{details_}">{tokens}</b>'


def _proposed(round: Round) -> str:
    if round.is_tree:
        drawing = tree_drawing(round, VARIABLES)
        return f'<div class=tree style="width: {drawing.width:.0f}px">{drawing.inline()}</div>'
    return " ".join(
        f"<span>{_marked(proposal.status, visible(proposal.text, proposal.bytes))}<small>{_shares(proposal)}</small></span>"
        for proposal in round.proposals
    )


def _chosen_by_target(round: Round) -> str:
    """Returns the tokens that the target chose itself."""
    return "".join(
        _marked(token.origin, visible(token.text, token.bytes)) for token in round.emitted if token.origin != "accepted"
    )


_ROUNDS: tuple[Column[Round], ...] = (
    Column("round", lambda round: f"{round.index + 1}"),
    Column("start, s", lambda round: f"{round.started / 1000:.2f}"),
    Column("ms", lambda round: f"{round.milliseconds.total:.1f}"),
    Column("rule", lambda round: RULE_TITLES[round.rule], "words"),
    Column("proposed", lambda round: f"{len(round.proposals)}"),
    Column("accepted", lambda round: f"{round.accepted}"),
    Column("rejected", lambda round: f"{round.rejected}"),
    Column("unjudged", lambda round: f"{round.unjudged}"),
    Column("emitted", lambda round: f"{len(round.emitted)}"),
    Column("proposals", _proposed, "chips"),
    Column("target's token", _chosen_by_target, "words"),
)


def _shares(proposal: Proposal) -> str:
    known = (("p", proposal.p), ("q", proposal.q))
    return " ".join(f"{name} {value:.2f}" for name, value in known if value is not None)


def _provenance(trace: Trace) -> str:
    header, summary = trace.header, trace.summary or {}
    target, drafter = trace.part("target"), trace.part("drafter")
    recorded = trace.part("options")
    # The seed has an entry of its own; options of trees are listed only where a number was asked for.
    unused = ("seed",) if is_whole(recorded.get("budget")) else ("seed", "budget", "width")
    options = {name: value for name, value in recorded.items() if name not in unused}
    entries: list[tuple[str, Any]] = [
        ("created", header.get("created")),
        ("target", target.get("name")),
        ("target SHA-256", target.get("sha256")),
        ("drafter", drafter.get("name")),
        ("drafter SHA-256", drafter.get("sha256")),
        ("seed", header.get("seed", recorded.get("seed"))),
        ("options", ", ".join(f"{key.replace('_', ' ')} {readable(value)}" for key, value in options.items())),
        ("changes during the answer", "; ".join(_change(change) for change in trace.changes)),
        ("machine", pairs(trace.part("hardware"))),
        ("versions", pairs(trace.part("versions"))),
        ("prompt tokens", prompt_tokens(trace)),
        ("prompt tokens from cache", summary.get("reused_tokens")),
        ("time to read the prompt, s", summary.get("prefill_seconds")),
        ("trace", trace.path.name),
        ("trace SHA-256", _hash(trace)),
    ]
    return facts(entries)


def _change(change: dict[str, Any]) -> str:
    index = change.get("index")
    settings = {key: value for key, value in change.items() if key != "index"}
    return f"from round {index + 1 if isinstance(index, int) else index}: {pairs(settings)}"


def _hash(trace: Trace) -> str | None:
    try:
        return hashlib.sha256(trace.path.read_bytes()).hexdigest()
    except OSError:  # the file was moved since
        return None


def details(round: Round, spot: Spot, temperature: float) -> str:
    """Returns all that is known of a token, one fact a line; pass NaN if the temperature is unknown."""
    greedy = temperature == 0
    if spot.own and spot.at >= len(round.emitted):
        return ""  # written by another program: our engines emit a token in every round
    if spot.own:
        lines = _emitted_details(round, round.emitted[spot.at], temperature)
    else:
        accepted = round.proposals[spot.at].status == "accepted" and spot.at < len(round.emitted)
        lines = _proposal_details(round, spot.at, round.emitted[spot.at] if accepted else None)
    reasons = (decision(round, spot, greedy), outside_vocabulary(round, spot), *limitations(round, spot, greedy))
    return "\n".join(line for line in (*lines, *reasons) if line)


def _proposal_details(round: Round, index: int, emitted: Emitted | None = None) -> list[str]:
    proposal = round.proposals[index]
    lines = [
        f"{quoted(proposal)}  {proposal.status}",
        f"round {round.index + 1}, {where_proposed(round, index)}, {RULE_TITLES[round.rule]}",
    ]
    chances = []
    if proposal.p is not None:
        chances.append(f"target p {proposal.p:.3f}")
    if proposal.q is not None:
        chances.append(f"draft q {proposal.q:.3f}")
    if proposal.p is not None and proposal.q:
        chances.append(f"p/q {proposal.p / proposal.q:.3g}")
    lines.append("   ".join(chances))
    if proposal.copied:
        lines.append("copied by the drafter, not drawn")
    if proposal.acceptance is not None:
        coin = f", coin {proposal.coin:.3f}" if proposal.coin is not None else ""
        lines.append(f"chance to accept {proposal.acceptance:.3f}{coin}")
    if index < len(round.expected):
        expected = round.expected[index]
        lines.append(
            f"expected here: Match {expected.match:.2f}   Gumbel {expected.gumbel:.2f}   Rejection {expected.rejection:.2f}"
        )
    lines.append(_tops("target", proposal.target_top))
    lines.append(_tops("draft", proposal.draft_top))
    if emitted is not None and emitted.entropy is not None:
        lines.append(f"entropy {emitted.entropy:.2f} nats")
    return lines


def _emitted_details(round: Round, token: Emitted, temperature: float) -> list[str]:
    known = [
        f"target p {token.p:.3f}" if token.p is not None else "",
        f"entropy {token.entropy:.2f} nats" if token.entropy is not None else "",
        f"margin {near_ties.words(token.margin, temperature, 3)}" if token.margin is not None else "",
        f"border {token.border:.3g}" if token.border is not None else "",
    ]
    return [
        f"{quoted(token)}  {token.origin}",
        f"round {round.index + 1}, {RULE_TITLES[round.rule]}",
        "   ".join(part for part in known if part),
    ]


def _tops(whose: str, top: Sequence[Candidate]) -> str:
    return f"{whose}: " + "   ".join(f"“{visible_candidate(entry)}” {entry.probability:.2f}" for entry in top) if top else ""
