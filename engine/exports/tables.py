"""The tables of CSV and Parquet exports: a row for each round, proposal, answer and stretch of an answer.

Rounds count from 1, as in the window; the `index` of traces and of the JSON export counts from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from engine.files.foreign import entries, number
from engine.lens.dividers import Divider, dividers
from engine.rounds.codec import plain, sound_options
from engine.rounds.metrics import RoundCounts, Summary, counts, mean_expected, stretches, summarise
from engine.rounds.trace import Trace
from engine.types import (
    EXPECTED_RULES,
    FINISHES,
    PHASES,
    RULES,
    Candidate,
    DecodingOptions,
    Draw,
    Milliseconds,
    Proposal,
    Round,
)
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import is_number

Kind = Literal["text", "whole", "number", "candidates"]
"""Type of a column; any value may be missing. `candidates` is a list of (id, text, probability), likeliest first."""
TableName = Literal["rounds", "proposals", "answers", "stretches"]
TABLES: tuple[TableName, ...] = get_args(TableName)
_COUNTED = ("drafter", "rule", "proposals", "accepted", "rejected", "unjudged", "emitted", "finish", "proposer", "levels")

ROUND_COLUMNS: dict[str, Kind] = {
    "trace": "text",
    "round": "whole",
    "position": "whole",
    "drafter": "text",
    "rule": "text",
    "proposals": "whole",
    "accepted": "whole",
    "rejected": "whole",
    "unjudged": "whole",
    "emitted": "whole",
    "proposed_text": "text",
    "emitted_text": "text",
    "expected_match": "number",
    "expected_gumbel": "number",
    "expected_rejection": "number",
    "rows": "whole",
    "cache_length": "whole",
    "started_ms": "number",
    **{f"{phase}_ms": "number" for phase in ("total", *PHASES)},
    "finish": "text",
    "proposer": "text",
    "communication_ms": "number",
    "levels": "whole",
    "choices": "text",
    "ranks": "text",
    "outside_draft_vocabulary": "whole",
}
FIRST_ROUND_COLUMN = "index"
"""Name of the column `round` in tables of version 0.1.0, where it counts from 0."""
LATER_ROUND_COLUMNS = {"proposer", "communication_ms", "levels", "choices", "ranks", "outside_draft_vocabulary"}
"""Columns that older tables do not have."""
PROPOSAL_COLUMNS: dict[str, Kind] = {
    "trace": "text",
    "round": "whole",
    "place": "whole",
    "drafter": "text",
    "rule": "text",
    "id": "whole",
    "text": "text",
    "bytes": "text",
    "status": "text",
    "q": "number",
    "p": "number",
    "acceptance": "number",
    "coin": "number",
    "draft_argmax": "whole",
    "target_argmax": "whole",
    "copied": "whole",
    "target_draw": "whole",
    "coupled_draw": "whole",
    "independent_draw": "whole",
    "expected_match": "number",
    "expected_gumbel": "number",
    "expected_rejection": "number",
    "draft_top": "candidates",
    "target_top": "candidates",
    "proposer": "text",
    "depth": "whole",
    "parent": "whole",
    "rank": "whole",
}
_WHOLE_FIGURES = ("rounds", "emitted", "proposals", "accepted", "rejected", "unjudged")
FIGURES = tuple(field.name for field in fields(Summary) if field.name not in ("shares", "by_position", "by_rank"))
_SETTINGS: dict[str, Kind] = {
    "rule": "text",
    "temperature": "number",
    "top_p": "number",
    "top_k": "whole",
    "min_p": "number",
    "repetition_penalty": "number",
    "seed": "whole",
    "gamma": "text",
    "max_tokens": "whole",
    "budget": "text",
    "width": "whole",
}
ANSWER_COLUMNS: dict[str, Kind] = {
    "trace": "text",
    "created": "text",
    "target": "text",
    "drafter": "text",
    **_SETTINGS,
    "prompt_tokens": "whole",
    "prefill_seconds": "number",
    "seconds_to_first_token": "number",
    "finish": "text",
    "missing": "text",
    **{figure: "whole" if figure in _WHOLE_FIGURES else "number" for figure in FIGURES},
    "plain_throughput": "number",
    "plain_tokens": "whole",
    "speed_up": "number",
    "speed_up_missing": "text",
    "prompt": "text",
    "text": "text",
}
STRETCH_COLUMNS: dict[str, Kind] = {
    "trace": "text",
    "stretch": "whole",
    "first_round": "whole",
    "last_round": "whole",
    "drafter": "text",
    "rule": "text",
    **{figure: ANSWER_COLUMNS[figure] for figure in FIGURES},
}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of a table; a row may leave out columns."""

    columns: Mapping[str, Kind]
    rows: tuple[Row, ...]


def tables(traces: Sequence[Trace]) -> dict[str, Table]:
    """Returns the tables by name."""
    named = tuple(zip(names(traces), traces, strict=True))
    return {
        "rounds": Table(ROUND_COLUMNS, tuple(_round_row(name, round) for name, trace in named for round in trace.rounds)),
        "proposals": Table(
            PROPOSAL_COLUMNS, tuple(row for name, trace in named for round in trace.rounds for row in _proposal_rows(name, round))
        ),
        "answers": Table(ANSWER_COLUMNS, tuple(_answer_row(name, trace) for name, trace in named)),
        "stretches": Table(STRETCH_COLUMNS, tuple(row for name, trace in named for row in _stretch_rows(name, trace))),
    }


def names(traces: Sequence[Trace]) -> list[str]:
    """Returns the file names without ending; repeated names are numbered."""
    seen: Counter[str] = Counter()
    result = []
    for trace in traces:
        seen[trace.path.stem] += 1
        count = seen[trace.path.stem]
        result.append(trace.path.stem if count == 1 else f"{trace.path.stem} ({count})")
    return result


def about(trace: Trace, name: str) -> Row:
    """Returns question, text and course of an answer, without its figures. Leaves out malformed parts of the trace."""
    header, summary = trace.header, trace.summary or {}
    return {
        "trace": name,
        "created": _text_of(header.get("created")),
        "target": _text_of(trace.part("target").get("name")),
        "drafter": _text_of(trace.part("drafter").get("name")),
        "prompt_tokens": prompt_tokens(trace),
        "prefill_seconds": number(summary.get("prefill_seconds")),
        "seconds_to_first_token": number(summary.get("seconds_to_first_token")),
        "finish": _text_of(summary.get("finish")),
        "error": _text_of(summary.get("error")),
        "missing": trace.missing,
        "prompt": last_question(trace),
        "text": trace.text,
    }


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def compared(trace: Trace, summary: Summary) -> Row:
    """Returns the measured plain run and the speed-up over it; if these are None, `speed_up_missing` gives the reason."""
    plain, speed = trace.plain, throughput(trace, summary)
    plain_speed = not summary.proposals and trace.part("drafter").get("name") == NO_DRAFTER
    reason = "this is a plain run" if plain_speed else "no plain run measured" if plain is None else None
    return {
        "plain_throughput": None if plain is None else plain.throughput,
        "plain_tokens": None if plain is None else plain.tokens,
        "speed_up": None if plain is None or reason or speed is None else speed / plain.throughput,
        "speed_up_missing": reason or ("nothing was decoded" if speed is None else None),
    }


def throughput(trace: Trace, summary: Summary) -> float | None:
    """Returns the tokens per second of the whole answer, from the trace's summary if it has one, else from the rounds."""
    ended = trace.summary or {}
    seconds, tokens = ended.get("seconds"), ended.get("tokens")
    if is_number(seconds) and seconds > 0 and is_number(tokens) and tokens:
        return tokens / seconds
    return summary.throughput


def last_question(trace: Trace) -> str | None:
    """Returns the last message of the user."""
    return next((text for role, text in reversed(trace.messages) if role == "user"), None)


def prompt_tokens(trace: Trace) -> int:
    """Returns the number of tokens that were read before the first round: the prompt and the given beginning of the answer."""
    return sum(len(entries(trace.part(part).get("ids"))) for part in ("prompt", "given"))


def options_of(trace: Trace) -> DecodingOptions:
    """Returns the options of an answer, with defaults in place of invalid values."""
    return sound_options(trace.part("options"))


def dividers_of(trace: Trace) -> list[Divider]:
    """Returns the positions at which rule, drafter or gamma changed in an answer."""
    options = options_of(trace)
    changes = [(change.get("index"), change.get("gamma")) for change in trace.changes]
    valid = [(index, gamma) for index, gamma in changes if isinstance(index, int) and (isinstance(gamma, int) or gamma == "auto")]
    return dividers(stretches(trace.rounds), options.gamma, valid, greedy=options.temperature == 0)


def counts_of(row: Mapping[str, Any]) -> RoundCounts:
    """Returns the counts in a row of the table of rounds. Raises KeyError, TypeError or ValueError for any other row.

    Tables of version 0.1.0 name the round `index` and count from 0, as traces do.
    """
    finish = row["finish"]
    return RoundCounts(
        index=int(row[FIRST_ROUND_COLUMN]) if FIRST_ROUND_COLUMN in row else int(row["round"]) - 1,
        drafter=str(row["drafter"]),
        rule=RULES[RULES.index(row["rule"])],
        proposals=int(row["proposals"]),
        accepted=int(row["accepted"]),
        rejected=int(row["rejected"]),
        unjudged=int(row["unjudged"]),
        emitted=int(row["emitted"]),
        started=float(row["started_ms"]),
        milliseconds=Milliseconds(
            float(row["total_ms"]),
            **{phase: _number(row[f"{phase}_ms"]) for phase in PHASES},
            communication=_number(row.get("communication_ms")),
        ),
        finish=None if finish in (None, "") else FINISHES[FINISHES.index(finish)],
        proposer=_text_of(row.get("proposer")) or None,
        levels=None if row.get("levels") in (None, "") else int(row["levels"]),
        choices=_wholes(row.get("choices")),
        ranks=_wholes(row.get("ranks")),
    )


def by_answer(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[RoundCounts, ...]]:
    """Returns the rounds of every answer in the rows of a table of rounds. Raises like `counts_of`, and if a round is missing."""
    answers: dict[str, list[RoundCounts]] = {}
    for row in rows:
        rounds = answers.setdefault(str(row["trace"]), [])
        entry = counts_of(row)
        if entry.index != len(rounds):
            raise ValueError(f"round {len(rounds) + 1} of {row['trace']} is missing")
        rounds.append(entry)
    return {name: tuple(rounds) for name, rounds in answers.items()}


def _wholes(value: Any) -> tuple[int, ...]:
    return tuple(map(int, (value or "").split()))


def _number(value: Any) -> float | None:
    return None if value in (None, "") else float(value)


def _round_row(name: str, round: Round) -> Row:
    entry = counts(round)
    return {
        "trace": name,
        "round": round.index + 1,
        **{column: getattr(entry, column) for column in _COUNTED},
        "choices": " ".join(map(str, entry.choices)) or None,
        "ranks": " ".join(map(str, entry.ranks)) or None,
        "position": round.position,
        "proposed_text": "".join(proposal.text for proposal in round.proposals),
        "emitted_text": "".join(token.text for token in round.emitted),
        **{f"expected_{rule}": mean_expected(round, rule) for rule in EXPECTED_RULES},
        "rows": round.rows,
        "cache_length": round.cache_length,
        "started_ms": round.started,
        **{f"{phase}_ms": getattr(round.milliseconds, phase) for phase in ("total", *PHASES, "communication")},
        "outside_draft_vocabulary": None if round.outside_draft_vocabulary is None else int(round.outside_draft_vocabulary),
    }


def _proposal_rows(name: str, round: Round) -> Iterator[Row]:
    for index, (proposal, depth) in enumerate(zip(round.proposals, round.depths, strict=True)):
        expected = round.expected[index] if index < len(round.expected) else None
        yield {
            "trace": name,
            "round": round.index + 1,
            "place": index + 1,
            "drafter": round.drafter,
            "rule": round.rule,
            "proposer": round.proposer,
            **proposal_values(proposal),
            "depth": depth,
            "parent": None if proposal.parent is None else proposal.parent + 1,
            **{f"expected_{rule}": getattr(expected, rule, None) for rule in EXPECTED_RULES},
        }


def proposal_values(proposal: Proposal) -> Row:
    """Returns the columns that describe the proposal itself."""
    return {
        "id": proposal.id,
        "text": proposal.text,
        "bytes": proposal.bytes.hex(),
        "status": proposal.status,
        "q": proposal.q,
        "p": proposal.p,
        "acceptance": proposal.acceptance,
        "coin": proposal.coin,
        "draft_argmax": proposal.draft_argmax,
        "target_argmax": proposal.target_argmax,
        "copied": None if proposal.copied is None else int(proposal.copied),
        "target_draw": _id(proposal.target_draw),
        "coupled_draw": _id(proposal.coupled_draw),
        "independent_draw": _id(proposal.independent_draw),
        "draft_top": _candidates(proposal.draft_top),
        "target_top": _candidates(proposal.target_top),
        "parent": proposal.parent,
        "rank": proposal.rank,
    }


def _id(draw: Draw | None) -> int | None:
    return None if draw is None else draw.id


def _candidates(top: Sequence[Candidate]) -> list[Row]:
    return [plain(candidate) for candidate in top]


def _answer_row(name: str, trace: Trace) -> Row:
    options = trace.part("options")
    summary = summarise(trace.rounds)
    gamma, budget = options.get("gamma"), options.get("budget")
    return {
        **about(trace, name),
        **{setting: options.get(setting) for setting in _SETTINGS},
        "gamma": None if gamma is None else str(gamma),
        "budget": None if budget is None else str(budget),
        "width": None if budget is None else options.get("width"),
        **{figure: getattr(summary, figure) for figure in FIGURES},
        **compared(trace, summary),
    }


def _stretch_rows(name: str, trace: Trace) -> Iterator[Row]:
    for index, stretch in enumerate(stretches(trace.rounds), start=1):
        summary = stretch.summary
        yield {
            "trace": name,
            "stretch": index,
            "first_round": stretch.first + 1,
            "last_round": stretch.first + summary.rounds,
            "drafter": stretch.drafter,
            "rule": stretch.rule,
            **{figure: getattr(summary, figure) for figure in FIGURES},
        }
