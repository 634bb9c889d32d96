"""The actions and options of `draftlight cluster`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from app.cli import bench_options, chat_options, prove_options, shared_options
from app.cli.option import Action, CommandModule, Commands, Entries
from app.cli.shared_options import hosts_of

HELP = "run a model that is split over several machines, and check them"
DESCRIPTION = "Split a model that is too large for one machine over several, check these machines, and see what runs."
SPLITTING: dict[str, CommandModule] = {"chat": chat_options, "prove": prove_options, "bench": bench_options}
"""Commands whose target can be split."""


def options() -> Entries:
    """Returns the actions, each with its options."""
    return (
        Action(
            "doctor",
            "check machines, model and links",
            (*shared_options.hosts(required=True), shared_options.target("builtin")),
            "Ask every machine for its versions, memory, ports and model, compare them, and measure the links. The exit "
            "status is 1 if something has to be changed.",
        ),
        Action(
            "run",
            "run another command with its model split",
            (*shared_options.hosts(required=True), Commands(SPLITTING, "split_run")),
            "Run chat, prove or bench, with all their options, with the model split over the machines.",
        ),
        Action("status", "list the clusters that were started on this machine"),
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the chosen action."""
    from app.cli import cluster

    if arguments.action == "status":
        return cluster.show_running()
    described = hosts_of(arguments)
    if arguments.action == "doctor" and described is not None:
        target = Path(arguments.target).expanduser()
        return cluster.doctor(described, str(target.resolve()) if target.exists() else arguments.target)
    split_run: Callable[[argparse.Namespace], int] = arguments.split_run
    return split_run(arguments)
