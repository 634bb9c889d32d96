"""The options of `draftlight prove`, and the request they produce."""

from __future__ import annotations

import argparse

from app.cli import shared_options
from app.cli.option import Entries, OneOf, option
from app.cli.shared_options import ANYWAY, SEED, hosts_of, output_file, request_of
from engine.types import PLANTS, ProveRequest

HELP = "check that decoding with a pair of models is exact"
DESCRIPTION = (
    "Check that decoding with these models is exact. Compares the noise with known answers, the tokens each rule emits with the "
    "target's own probabilities, acceptance rates with what theory predicts, and the text of one seed across drafters and draft "
    "lengths. Takes a few minutes. The exit status is 0 if every check passes, 1 if any fails, and 3 if a planted defect was not "
    "detected."
)


def options() -> Entries:
    """Returns the options, without the command they belong to."""
    return (
        *shared_options.models(),
        ANYWAY,
        *shared_options.hosts(),
        SEED,
        OneOf(
            (
                option(
                    "--quick", dest="effort", action="store_const", const="quick", help="smaller samples; takes about a minute"
                ),
                option(
                    "--thorough",
                    dest="effort",
                    action="store_const",
                    const="thorough",
                    help="larger samples; takes about half an hour",
                ),
            )
        ),
        option(
            "--json", dest="json_path", metavar="FILE", type=output_file, help="also write the full report to this file, as JSON"
        ),
        option("--plant", choices=PLANTS, help="plant this defect on purpose, to see that the checks detect it"),
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    from app.cli.prove import prove

    return prove(request_of(ProveRequest, arguments), arguments.json_path, anyway=arguments.anyway, cluster=hosts_of(arguments))
