"""The options of `draftlight bench`, and the request they produce."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.shared_options import (
    add_anyway,
    add_filters,
    add_hosts,
    add_kv_bits,
    add_seed,
    add_target,
    add_tree,
    checked,
    comma_separated,
    drafter,
    gamma,
    hosts_of,
    number,
    output_file,
    request_of,
)
from engine.files import recommended_sampling
from engine.files.paths import data_folder
from engine.tools.bench.prompts import OWN_PROMPTS, read_prompts
from engine.types import FILTERS, RANGES, RULES, DecodingOptions
from engine.values.drafter_kinds import benched
from engine.values.requests.bench import QUICK_GAMMAS, QUICK_MINUTES, QUICK_TOKENS, BenchRequest

HELP = "find the fastest drafter and draft length"
DESCRIPTION = (
    "Find the drafter and draft length that are fastest on this machine. Settings run between plain runs (without a drafter) of "
    "the same prompt. The answer and a table are printed to standard output, progress to standard error. Ctrl-C, or the end of "
    "the time, ends with what has been measured so far; the same command goes on with the rest, also after a crash."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    add_target(parser)
    add_anyway(parser)
    add_hosts(parser)
    parser.add_argument(
        "--drafters",
        metavar="A,B",
        type=comma_separated(drafter, "names"),
        help=f"comma-separated, named as for --drafter (default: those of {', '.join(benched('builtin'))} that fit the target)",
    )
    parser.add_argument(
        "--rules",
        metavar="A,B",
        type=comma_separated(str, "names"),
        default="gumbel",
        help=f"comma-separated, from {', '.join(RULES)} (default: %(default)s)",
    )
    parser.add_argument(
        "--temperatures",
        metavar="X,Y",
        type=comma_separated(number("temperature"), "numbers"),
        help=f"comma-separated (default: as the model recommends, else {DecodingOptions().temperature})",
    )
    add_filters(parser)
    parser.add_argument(
        "--gamma",
        dest="gammas",
        metavar="N,M",
        type=comma_separated(gamma, "numbers"),
        default=",".join(map(str, QUICK_GAMMAS)),
        help=f"proposals per round, {RANGES['gamma'].short} (default: %(default)s)",
    )
    add_tree(parser)
    parser.add_argument(
        "--prompts", metavar="FILE", type=Path, default=OWN_PROMPTS, help="a JSON Lines file with id, category and turns"
    )
    parser.add_argument("--limit", type=int, help="use at most this many prompts, taking the categories in turn")
    parser.add_argument(
        "--max-tokens",
        type=number("max_tokens"),
        default=QUICK_TOKENS,
        help="maximum tokens per answer (default: %(default)s)",
    )
    parser.add_argument(
        "--minutes",
        type=minutes,
        default=QUICK_MINUTES,
        metavar="N",
        help="end after this many minutes, loading included; 0 measures everything, however long it takes (default: %(default)s)",
    )
    add_kv_bits(parser)
    add_seed(parser)
    parser.add_argument(
        "--peers", action=argparse.BooleanOptionalAction, default=False, help="also run mlx-lm's own decoding loops"
    )
    parser.add_argument(
        "--anew", action="store_true", help="measure everything again, even if the same benchmark was interrupted before"
    )
    parser.add_argument(
        "--html",
        dest="html_path",
        metavar="OUT",
        type=output_file,
        help="also write a report with charts to this file, as HTML",
    )
    parser.add_argument(
        "--json", dest="json_path", metavar="OUT", type=output_file, help="also write every run to this file, as JSON"
    )


def minutes(text: str) -> float:
    """Parses a time limit; 0 means none."""
    try:
        if (found := float(text)) >= 0:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be a number of at least 0, not {text!r}")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    from app.cli.bench import bench

    prompts = checked(arguments, lambda: read_prompts(arguments.prompts, arguments.limit))
    target = arguments.target or "builtin"
    recommended = dict(recommended_sampling.of_target(target))
    request = request_of(
        BenchRequest,
        arguments,
        prompts=prompts,
        drafters=arguments.drafters or benched(target),
        **{name: recommended.get(name) for name in FILTERS if getattr(arguments, name) is None},
        temperatures=arguments.temperatures or (recommended.get("temperature", DecodingOptions().temperature),),
        minutes=arguments.minutes or None,
        journals=str(data_folder() / "bench"),
    )
    return bench(request, arguments.json_path, arguments.html_path, anyway=arguments.anyway, cluster=hosts_of(arguments))
