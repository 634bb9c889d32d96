"""The actions of `draftlight cluster`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from app.cli import bench_options, chat_options, prove_options
from app.cli.shared_options import add_hosts, add_target, hosts_of

HELP = "run a model that is split over several machines, and check them"
DESCRIPTION = "Split a model that is too large for one machine over several, check these machines, and see what runs."
SPLITTING = {"chat": chat_options, "prove": prove_options, "bench": bench_options}
"""Commands whose target can be split."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    doctor = actions.add_parser(
        "doctor",
        help="check machines, model and links",
        description="Ask every machine for its versions, memory, ports and model, compare them, and measure the links. The exit "
        "status is 1 if something has to be changed.",
    )
    add_hosts(doctor, required=True)
    add_target(doctor, "builtin")
    run_action = actions.add_parser(
        "run",
        help="run another command with its model split",
        description="Run chat, prove or bench, with all their options, with the model split over the machines.",
    )
    add_hosts(run_action, required=True)
    commands = run_action.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, options in SPLITTING.items():
        command = commands.add_parser(name, help=options.HELP, description=options.DESCRIPTION)
        options.add_arguments(command)
        command.set_defaults(split_run=options.run, error=command.error)
    actions.add_parser("status", help="list the clusters that were started on this machine")


def run(arguments: argparse.Namespace) -> int:
    """The action that was chosen."""
    from app.cli import cluster

    if arguments.action == "status":
        return cluster.show_running()
    described = hosts_of(arguments)
    if arguments.action == "doctor" and described is not None:
        target = Path(arguments.target).expanduser()
        return cluster.doctor(described, str(target.resolve()) if target.exists() else arguments.target)
    split_run: Callable[[argparse.Namespace], int] = arguments.split_run
    return split_run(arguments)
