"""`draftlight rejudge`: judges an answer again under another rule, from its trace. Needs neither a model nor a display."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.rounds.trace import read
from engine.types import RULES

HELP = "judge an answer again under another rule, from its trace"
DESCRIPTION = (
    "Judge the proposals of an answer again under another rule, or with fewer proposals per round, from its trace alone. Prints "
    "the places where the rule departs from what happened. What a trace cannot tell is refused, with the reason."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a trace (*.jsonl); an incomplete one works too")
    parser.add_argument("--rule", choices=RULES, required=True, help="the rule to judge with")
    parser.add_argument("--gamma", type=int, metavar="N", help="judge at most N proposals of each round (default: all)")
    parser.add_argument("--json", dest="as_json", action="store_true", help="print everything that was found as JSON instead")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options. Raises DraftlightError if the trace lacks the information."""
    from app.cli.rejudge_table import as_json, render
    from engine.exports.tables import options_of
    from engine.lens.rejudge import rejudge

    trace = read(arguments.trace)
    if trace.missing:
        print(f"draftlight: {trace.path}: {trace.missing}", file=sys.stderr)
    judged = rejudge(trace.rounds, options_of(trace), arguments.rule, arguments.gamma)
    if arguments.as_json:
        print(json.dumps(as_json(judged, trace), ensure_ascii=False, indent=1))
    else:
        print(render(judged, trace.rounds))
    return 0
