"""The metrics of a session as one JSON document, `draftlight.metrics/1`.

It holds settings, `Summary`, speed-up, rounds and proposals of every answer, and the figures of all answers together. A round's
`index` counts from 0, as in its trace.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.exports.formats import ExportOptions
from engine.exports.tables import about, compared, names, options_of, proposal_values
from engine.files.foreign import content_of, json_of
from engine.lens.rule_comparison import RuleComparisons, comparison_sentence, difference_sentence, similarity_reason
from engine.machine.provenance import version
from engine.rounds.codec import plain
from engine.rounds.metrics import RoundCounts, Stretch, Summary, counts, stretches, summarise
from engine.rounds.trace import Trace
from engine.types import Milliseconds
from engine.values.errors import DraftlightError

SCHEMA = "draftlight.metrics/1"
PROVENANCE = ("versions", "hardware", "target", "drafter", "seed")
"""Parts of a trace's header that identify the conditions of the answer."""
_COUNTS = tuple(field.name for field in fields(RoundCounts))
_KEYS = {"observed": "happened", "observed_minus_expected": "surprise"}
"""Keys of fields of `RuleComparison` that have another name in the document: exports of earlier versions have these."""


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, str]:
    """As in `engine.exports.formats.Make`."""
    return {"metrics": to_json(traces) + "\n"}


def to_json(traces: Sequence[Trace]) -> str:
    """Returns the session's metrics as a JSON document."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "draftlight": version(),
            "answers": [_answer(trace, name) for trace, name in zip(traces, names(traces), strict=True)],
            "total": plain(total(traces)),
        },
        ensure_ascii=False,
        allow_nan=False,
        indent=1,
    )


def total(traces: Sequence[Trace]) -> Summary:
    """Returns the figures of all answers together, as if they had been decoded one after the other."""
    joined: list[RoundCounts] = []
    offset = 0.0
    for trace in traces:
        joined.extend(replace(counts(round), started=offset + round.started) for round in trace.rounds)
        offset += summarise(trace.rounds).seconds * 1000
    return summarise(joined)


def read_json_export(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """Returns the rounds of every answer in an exported JSON document. Raises DraftlightError for any other file."""
    try:
        document = json_of(content_of(path))
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']}")
        return {str(answer["trace"]): tuple(_counts(entry) for entry in answer["rounds"]) for answer in document["answers"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DraftlightError(f"{path} does not contain metrics exported by Draftlight ({error}).") from None


def _answer(trace: Trace, name: str) -> dict[str, Any]:
    summary = summarise(trace.rounds)
    return {
        **about(trace, name),
        "options": plain(trace.header.get("options")),
        "provenance": {part: plain(trace.header[part]) for part in PROVENANCE if part in trace.header},
        "changes": plain(trace.changes),
        "summary": plain(summary),
        **compared(trace, summary),
        "stretches": [_stretch(stretch) for stretch in stretches(trace.rounds)],
        "rule_comparisons": _comparisons(trace),
        "rounds": [
            {**plain(counts(round)), "proposed": [plain(proposal_values(proposal)) for proposal in round.proposals]}
            for round in trace.rounds
        ],
    }


def _stretch(stretch: Stretch) -> dict[str, Any]:
    """Returns a stretch with its `Summary`; `first` is the index of its first round."""
    return {"first": stretch.first, "rule": stretch.rule, "drafter": stretch.drafter, "summary": plain(stretch.summary)}


def _comparisons(trace: Trace) -> list[dict[str, Any]]:
    """Returns the expected acceptance of all rules at the same positions, for each rule and drafter that was in use."""
    return [
        {
            **{_KEYS.get(name, name): value for name, value in plain(comparison).items()},
            "words": comparison_sentence(comparison),
            "difference_words": similarity_reason(comparison, options_of(trace)) or difference_sentence(comparison),
        }
        for comparison in RuleComparisons.of(trace.rounds).all
    ]


def _counts(entry: dict[str, Any]) -> RoundCounts:
    """Returns the counts of a round; ignores unknown keys, so that a later version may add some."""
    known = {name: entry[name] for name in _COUNTS if name in entry}
    lists = {name: tuple(entry.get(name, ())) for name in ("choices", "ranks")}
    return RoundCounts(**{**known, **lists, "milliseconds": Milliseconds(**entry["milliseconds"])})
