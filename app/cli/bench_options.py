"""The options of `draftlight bench`, and the request they make."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Literal

from engine.bench.prompts import OWN_PROMPTS, read_prompts
from engine.drafter_kinds import benched
from engine.requests.bench import BenchRequest
from engine.types import MAX_GAMMA, RULES, Rule

DESCRIPTION = (
    "Benchmark drafters, rules, temperatures and draft lengths. Each setting runs between two plain runs (without a drafter) of "
    "the same prompt, next to mlx-lm's own decoding loops. The table is printed to standard output, progress to standard error. "
    "Ctrl-C stops and prints what has been measured so far."
)
_DEFAULT = BenchRequest.__dataclass_fields__
_RULES = "rejection,gumbel"
_TEMPERATURES = "0,0.8"
_GAMMAS = "2,auto"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, but for the command that they belong to."""
    parser.add_argument("--target", metavar="MODEL", default=argparse.SUPPRESS, help="builtin, a model folder or a .gguf file")
    parser.add_argument(
        "--drafters",
        metavar="A,B",
        help=f"comma-separated, named as for --drafter (default: those of {', '.join(benched('builtin'))} that fit the target)",
    )
    parser.add_argument(
        "--rules", metavar="A,B", default=_RULES, help=f"comma-separated, from {', '.join(RULES)} (default: %(default)s)"
    )
    parser.add_argument("--temperatures", metavar="X,Y", default=_TEMPERATURES, help="comma-separated (default: %(default)s)")
    parser.add_argument(
        "--gamma", metavar="N,M", default=_GAMMAS, help=f"proposals per round, 1 to {MAX_GAMMA} or auto (default: %(default)s)"
    )
    parser.add_argument(
        "--prompts", metavar="FILE", type=Path, default=OWN_PROMPTS, help="a JSON Lines file with id, category and turns"
    )
    parser.add_argument("--limit", type=int, help="use at most this many prompts, taking the categories in turn")
    parser.add_argument(
        "--max-tokens", type=int, default=_DEFAULT["max_tokens"].default, help="maximum tokens per answer (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="do not run mlx-lm for comparison")
    parser.add_argument("--json", dest="json_path", metavar="OUT", type=Path, help="also write every run to this file, as JSON")


def request_of(arguments: argparse.Namespace) -> BenchRequest:
    """The request. Raises ValueError for what cannot be, before anything is loaded."""
    target = arguments.target or "builtin"
    check_output(arguments.json_path)
    return BenchRequest(
        prompts=read_prompts(arguments.prompts, arguments.limit),
        target=target,
        drafters=benched(target) if arguments.drafters is None else _list("drafters", arguments.drafters),
        rules=tuple(_rule(name) for name in _list("rules", arguments.rules)),
        temperatures=tuple(_temperature(text) for text in _list("temperatures", arguments.temperatures)),
        gammas=tuple(_gamma(text) for text in _list("gamma", arguments.gamma)),
        max_tokens=arguments.max_tokens,
        seed=arguments.seed,
        peers=arguments.peers,
    )


def check_output(path: Path | None) -> None:
    """Raises ValueError where a file could not be put after hours of measuring."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path.name}: the folder {path.parent} does not exist")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written")


def _list(name: str, text: str) -> tuple[str, ...]:
    entries = tuple(entry.strip() for entry in text.split(","))
    if not all(entries):
        raise ValueError(f"{name} must be a comma-separated list, not {text!r}")
    return entries


def _rule(name: str) -> Rule:
    for rule in RULES:
        if rule == name:
            return rule
    raise ValueError(f"rules must be from {', '.join(RULES)}, not {name!r}")


def _temperature(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"temperatures must be numbers, not {text!r}") from None


def _gamma(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise ValueError(f'gamma must be whole numbers from 1 to {MAX_GAMMA}, or "auto", not {text!r}') from None
