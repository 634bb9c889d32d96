"""The options of `draftlight bench`, and the request they produce."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli import shared_options
from app.cli.option import Entries, option
from app.cli.shared_options import (
    ANYWAY,
    FILTER_OPTIONS,
    KV_BITS_OPTION,
    SEED,
    TREE_OPTIONS,
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


def options() -> Entries:
    """Returns the options, without the command they belong to."""
    return (
        shared_options.target(),
        ANYWAY,
        *shared_options.hosts(),
        option(
            "--drafters",
            metavar="A,B",
            type=comma_separated(drafter, "names"),
            help="comma-separated, named as for --drafter "
            f"(default: those of {', '.join(benched('builtin'))} that fit the target)",
        ),
        option(
            "--rules",
            metavar="A,B",
            type=comma_separated(str, "names"),
            default="gumbel",
            help=f"comma-separated, from {', '.join(RULES)} (default: %(default)s)",
        ),
        option(
            "--temperatures",
            metavar="X,Y",
            type=comma_separated(number("temperature"), "numbers"),
            help=f"comma-separated (default: as the model recommends, else {DecodingOptions().temperature})",
        ),
        *FILTER_OPTIONS,
        option(
            "--gamma",
            dest="gammas",
            metavar="N,M",
            type=comma_separated(gamma, "numbers"),
            default=",".join(map(str, QUICK_GAMMAS)),
            help=f"proposals per round, {RANGES['gamma'].short} (default: %(default)s)",
        ),
        *TREE_OPTIONS,
        option("--prompts", metavar="FILE", type=Path, default=OWN_PROMPTS, help="a JSON Lines file with id, category and turns"),
        option("--limit", type=int, help="use at most this many prompts, taking the categories in turn"),
        option(
            "--max-tokens",
            type=number("max_tokens"),
            default=QUICK_TOKENS,
            help="maximum tokens per answer (default: %(default)s)",
        ),
        option(
            "--minutes",
            type=minutes,
            default=QUICK_MINUTES,
            metavar="N",
            help="end after this many minutes, loading included; 0 measures everything, however long it takes "
            "(default: %(default)s)",
        ),
        KV_BITS_OPTION,
        SEED,
        option("--peers", action=argparse.BooleanOptionalAction, default=False, help="also run mlx-lm's own decoding loops"),
        option("--anew", action="store_true", help="measure everything again, even if the same benchmark was interrupted before"),
        option(
            "--html",
            dest="html_path",
            metavar="OUT",
            type=output_file,
            help="also write a report with charts to this file, as HTML",
        ),
        option("--json", dest="json_path", metavar="OUT", type=output_file, help="also write every run to this file, as JSON"),
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
