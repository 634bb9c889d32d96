"""The metrics of a session, that is of any traces, as JSON and as CSV that can be read back. Nothing here imports MLX.

- JSON (`draftlight.metrics/1`): one object per answer with its settings, its `Summary` and the counts of its rounds, and the
  figures of all answers together.
- CSV: a table of rounds, and a table of answers. Texts are guarded: a cell that a spreadsheet would run as a formula gets
  an apostrophe in front, which spreadsheets hide and `read_rounds_csv` takes away.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.codec import FINISHES, plain
from engine.errors import DraftlightError
from engine.metrics import RoundCounts, Summary, counts, summarise
from engine.provenance import version
from engine.trace import Trace, read
from engine.types import RULES, Milliseconds, Round

SCHEMA = "draftlight.metrics/1"
_FORMULA_STARTS = tuple("=+-@＝＋－＠\t\r\n'")
_PHASES = tuple(field.name for field in fields(Milliseconds))

ROUND_COLUMNS = (
    "trace",
    "index",
    "position",
    "drafter",
    "rule",
    "proposals",
    "accepted",
    "rejected",
    "unjudged",
    "emitted",
    "proposed_text",
    "emitted_text",
    "expected_match",
    "expected_gumbel",
    "expected_rejection",
    "rows",
    "cache_length",
    "started_ms",
    *(f"{phase}_ms" for phase in _PHASES),
    "finish",
)
_FIGURES = tuple(field.name for field in fields(Summary) if field.name not in ("shares", "by_position"))
_SETTINGS = ("rule", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "gamma", "max_tokens")
ANSWER_COLUMNS = (
    *("trace", "created", "target", "drafter"),
    *_SETTINGS,
    *("prompt_tokens", "prefill_seconds", "seconds_to_first_token", "finish", "missing"),
    *_FIGURES,
    *("prompt", "text"),
)


def read_traces(paths: Iterable[str | os.PathLike[str]]) -> tuple[Trace, ...]:
    """The traces at these paths. Raises DraftlightError like `engine.trace.read`."""
    return tuple(read(path) for path in paths)


def to_json(traces: Sequence[Trace]) -> str:
    """The session's metrics as a JSON document."""
    names = _names(traces)
    return json.dumps(
        {
            "schema": SCHEMA,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "draftlight": version(),
            "answers": [
                {
                    **_about(trace, name),
                    "options": trace.header.get("options"),
                    "changes": list(trace.changes),
                    "summary": plain(summarise(trace.rounds)),
                    "rounds": [plain(counts(round)) for round in trace.rounds],
                }
                for trace, name in zip(traces, names, strict=True)
            ],
            "total": plain(total(traces)),
        },
        ensure_ascii=False,
        allow_nan=False,
        indent=2,
    )


def total(traces: Sequence[Trace]) -> Summary:
    """The figures of all answers together, as if they had been decoded one after the other."""
    joined: list[RoundCounts] = []
    offset = 0.0
    for trace in traces:
        joined.extend(replace(counts(round), started=offset + round.started) for round in trace.rounds)
        offset += summarise(trace.rounds).seconds * 1000
    return summarise(joined)


def rounds_csv(traces: Sequence[Trace]) -> str:
    """One row per round of every answer."""
    names = _names(traces)
    rows = (_round_row(name, round) for trace, name in zip(traces, names, strict=True) for round in trace.rounds)
    return _table(ROUND_COLUMNS, rows)


def answers_csv(traces: Sequence[Trace]) -> str:
    """One row per answer."""
    rows = []
    for trace, name in zip(traces, _names(traces), strict=True):
        options = trace.header.get("options") or {}
        summary = summarise(trace.rounds)
        rows.append(
            {
                **_about(trace, name),
                **{setting: options.get(setting) for setting in _SETTINGS},
                **{figure: getattr(summary, figure) for figure in _FIGURES},
            }
        )
    return _table(ANSWER_COLUMNS, rows)


def write_json(traces: Sequence[Trace], path: Path) -> tuple[Path, ...]:
    """Write the JSON document; returns what was written. Raises DraftlightError where that cannot be."""
    write_whole(path, to_json(traces) + "\n")
    return (path,)


def write_csv(traces: Sequence[Trace], path: Path) -> tuple[Path, ...]:
    """Write the rounds to `path` and the answers beside it, as `NAME-answers.csv`; returns both paths.

    Raises:
        DraftlightError: they cannot be written.
    """
    beside = path.with_name(f"{path.stem}-answers{path.suffix or '.csv'}")
    write_whole(path, rounds_csv(traces))
    write_whole(beside, answers_csv(traces))
    return path, beside


def read_json(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """The rounds of every answer in an exported JSON document. Raises DraftlightError for any other file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']}")
        return {
            answer["trace"]: tuple(
                RoundCounts(**{**entry, "milliseconds": Milliseconds(**entry["milliseconds"])}) for entry in answer["rounds"]
            )
            for answer in document["answers"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DraftlightError(f"{path} does not hold metrics exported by Draftlight ({error}).") from None


def read_rounds_csv(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """The rounds of every answer in an exported table of rounds. Raises DraftlightError for any other file."""
    answers: dict[str, list[RoundCounts]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                answers.setdefault(unguarded(row["trace"]), []).append(_counts_of(row))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise DraftlightError(f"{path} is not a table of rounds exported by Draftlight ({error}).") from None
    return {name: tuple(rounds) for name, rounds in answers.items()}


def guarded(text: str) -> str:
    """The text with an apostrophe in front if a spreadsheet might run it as a formula, leading blanks or not."""
    return "'" + text if text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS) else text


def unguarded(text: str) -> str:
    """The text that `guarded` was given."""
    return text[1:] if text.startswith("'") else text


def _about(trace: Trace, name: str) -> dict[str, Any]:
    header, summary = trace.header, trace.summary or {}
    prompt = header.get("prompt") or {}
    asked = [message.get("content") for message in prompt.get("messages", []) if message.get("role") == "user"]
    return {
        "trace": name,
        "created": header.get("created"),
        "target": (header.get("target") or {}).get("name"),
        "drafter": (header.get("drafter") or {}).get("name"),
        "prompt_tokens": len(prompt.get("ids", [])),
        "prefill_seconds": summary.get("prefill_seconds"),
        "seconds_to_first_token": summary.get("seconds_to_first_token"),
        "finish": summary.get("finish"),
        "error": summary.get("error"),
        "missing": trace.missing,
        "prompt": asked[-1] if asked else None,
        "text": "".join(round.text for round in trace.rounds),
    }


def _names(traces: Sequence[Trace]) -> list[str]:
    """The file names without ending; numbered where two are alike."""
    seen: Counter[str] = Counter()
    names = []
    for trace in traces:
        seen[trace.path.stem] += 1
        many = seen[trace.path.stem]
        names.append(trace.path.stem if many == 1 else f"{trace.path.stem} ({many})")
    return names


def _round_row(name: str, round: Round) -> dict[str, Any]:
    judged = len(round.expected)
    expected = {
        f"expected_{rule}": sum(getattr(entry, rule) for entry in round.expected) / judged if judged else None
        for rule in ("match", "gumbel", "rejection")
    }
    entry = counts(round)
    return {
        "trace": name,
        **{column: getattr(entry, column) for column in _COUNTED},
        "position": round.position,
        "proposed_text": "".join(proposal.text for proposal in round.proposals),
        "emitted_text": "".join(token.text for token in round.emitted),
        **expected,
        "rows": round.rows,
        "cache_length": round.cache_length,
        "started_ms": round.started,
        **{f"{phase}_ms": getattr(round.milliseconds, phase) for phase in _PHASES},
    }


_COUNTED = ("index", "drafter", "rule", "proposals", "accepted", "rejected", "unjudged", "emitted", "finish")


def _counts_of(row: Mapping[str, str]) -> RoundCounts:
    times = [row[f"{phase}_ms"] for phase in _PHASES]
    return RoundCounts(
        index=int(row["index"]),
        drafter=unguarded(row["drafter"]),
        rule=RULES[RULES.index(row["rule"])],
        proposals=int(row["proposals"]),
        accepted=int(row["accepted"]),
        rejected=int(row["rejected"]),
        unjudged=int(row["unjudged"]),
        emitted=int(row["emitted"]),
        started=float(row["started_ms"]),
        milliseconds=Milliseconds(float(times[0]), *(float(time) if time else None for time in times[1:])),
        finish=FINISHES[FINISHES.index(row["finish"])] if row["finish"] else None,
    )


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({column: guarded(value) if isinstance(value := row.get(column), str) else value for column in columns})
    return text.getvalue()


def write_whole(path: Path, content: str) -> None:
    """Put the whole file in place in one step, or leave what was there."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise DraftlightError(f"{path} cannot be written: {error.strerror or error}.") from None
