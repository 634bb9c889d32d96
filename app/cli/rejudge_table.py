"""The result of judging an answer again, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.cli.output import align
from engine.lens.pieces import quoted
from engine.lens.rejudge import Rejudge, TokenVerdict
from engine.lens.rejudge_words import change_words, limits, summary, token_name
from engine.rounds.codec import plain
from engine.rounds.trace import Trace
from engine.types import INVARIANT_RULES, Round

_DASH = "-"


def render(judged: Rejudge, rounds: Sequence[Round]) -> str:
    """Returns one line for each change that the rule makes to the record, followed by a summary."""
    changes = [result.change for result in judged.rounds if result.change is not None]
    lines: list[str] = []
    if changes:
        values = ("target draws",) if judged.rule in INVARIANT_RULES else ("p", "q", "p/q", "coin")
        cells = [("round", "place", "token", *values, "what changes"), *(_cells(change, judged, rounds) for change in changes)]
        lines = [*align(cells, {"round", "place", "p", "q", "p/q", "coin"}), ""]
    return "\n".join([*lines, *summary(judged), *limits(judged)])


def as_json(judged: Rejudge, trace: Trace) -> dict[str, Any]:
    """Returns the complete result; `index` counts rounds, and `place` proposals, from 0, as in the trace."""
    return {
        "trace": trace.path.name,
        "rule": judged.rule,
        "gamma": judged.gamma,
        "summary": summary(judged),
        "limits": limits(judged),
        "counts": plain(judged.counts),
        "rounds": [
            {
                "index": result.round,
                "kept": result.kept,
                "complete": result.complete,
                "verdicts": [_verdict(verdict) for verdict in result.verdicts],
            }
            for result in judged.rounds
        ],
        "whole_answer": None
        if judged.recut is None
        else {
            "rounds": [plain(cut) for cut in judged.recut.rounds],
            "tokens": judged.recut.tokens,
            "covered": judged.recut.covered,
        },
    }


def _verdict(verdict: TokenVerdict) -> dict[str, Any]:
    value: dict[str, Any] = plain(verdict)
    return {"place": verdict.spot.at, **{name: entry for name, entry in value.items() if name != "spot"}, "ratio": verdict.ratio}


def _cells(change: TokenVerdict, judged: Rejudge, rounds: Sequence[Round]) -> tuple[str, ...]:
    round_ = rounds[change.spot.round]
    proposal = round_.proposals[change.spot.at]
    if change.drawn is not None:
        values: tuple[str, ...] = (token_name(change.drawn, round_, change.spot.at),)
    else:
        values = tuple(_figure(value) for value in (change.p, change.q, change.ratio, change.coin))
    return (str(round_.index + 1), str(change.spot.at + 1), quoted(proposal), *values, change_words(change, judged.rule, round_))


def _figure(value: float | None) -> str:
    return _DASH if value is None else f"{value:.4f}" if value < 10 else f"{value:.3g}"
