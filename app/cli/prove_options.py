"""The options of `draftlight prove`, and the request they make."""

from __future__ import annotations

import argparse

from app.cli.shared_options import add_anyway, add_hosts, add_models, add_seed, hosts_of, output_file, request_of
from engine.types import PLANTS, ProveRequest

HELP = "check that decoding with a pair of models is exact"
DESCRIPTION = (
    "Check that decoding with these models is exact. Compares the noise with known answers, the tokens each rule emits with the "
    "target's own probabilities, acceptance rates with what theory predicts, and the text of one seed across drafters and draft "
    "lengths. Takes a few minutes. The exit status is 0 if every check passes, 1 if any fails, and 3 if a planted defect was not "
    "detected."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, but for the command that they belong to."""
    add_models(parser)
    add_anyway(parser)
    add_hosts(parser)
    add_seed(parser)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--quick", dest="effort", action="store_const", const="quick", help="smaller samples; takes about a minute"
    )
    amount.add_argument(
        "--thorough", dest="effort", action="store_const", const="thorough", help="larger samples; takes about half an hour"
    )
    parser.add_argument(
        "--json", dest="json_path", metavar="FILE", type=output_file, help="also write the full report to this file, as JSON"
    )
    parser.add_argument("--plant", choices=PLANTS, help="plant this defect on purpose, to see that the checks detect it")


def run(arguments: argparse.Namespace) -> int:
    """The command, with the arguments of `add_arguments`."""
    from app.cli.prove import prove

    return prove(request_of(ProveRequest, arguments), arguments.json_path, anyway=arguments.anyway, cluster=hosts_of(arguments))
