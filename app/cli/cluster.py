"""`draftlight cluster`: checks machines, runs another command with its model split over them, and shows what runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from app.cli import bench_options, chat_options, prove
from app.cli.shared_options import CommandModule, add_actions, add_commands, add_hosts, add_target, hosts_of
from engine.cluster.companions import running
from engine.cluster.doctor import check
from engine.cluster.hosts import Cluster, cluster_of
from engine.values.wording import amount, duration, listed

HELP = "run a model that is split over several machines, and check them"
DESCRIPTION = "Split a model that is too large for one machine over several, check these machines, and see what runs."
SPLITTING: dict[str, CommandModule] = {"chat": chat_options, "prove": prove, "bench": bench_options}
"""Commands whose target can be split."""
_SIGNS = {"good": "ok", "bad": "BAD", "unknown": "?"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the actions, each with its options, to the command's parser."""
    actions = add_actions(parser)
    action = actions.add_parser(
        "doctor",
        help="check machines, model and links",
        description="Ask every machine for its versions, memory, ports and model, compare them, and measure the links. The exit "
        "status is 1 if something has to be changed.",
    )
    add_hosts(action, required=True)
    add_target(action, "builtin")
    action = actions.add_parser(
        "run",
        help="run another command with its model split",
        description="Run chat, prove or bench, with all their options, with the model split over the machines.",
    )
    add_hosts(action, required=True)
    add_commands(action, SPLITTING, "split_run", required=True)
    actions.add_parser("status", help="list the clusters that were started on this machine")


def run(arguments: argparse.Namespace) -> int:
    """Runs the chosen action."""
    if arguments.action == "status":
        return show_running()
    described = hosts_of(arguments)
    if arguments.action == "doctor" and described is not None:
        target = Path(arguments.target).expanduser()
        return doctor(described, str(target.resolve()) if target.exists() else arguments.target)
    split_run: Callable[[argparse.Namespace], int] = arguments.split_run
    return split_run(arguments)


def doctor(cluster: Cluster, target: str) -> int:
    """Prints one line per finding; returns 1 if something is bad."""
    found = check(cluster, target)
    for finding in found:
        print(f"{_SIGNS[finding.state]:3}  {finding.words}")
    bad = sum(finding.state == "bad" for finding in found)
    if bad:
        print(f"\n{bad} of {len(found)} findings must be fixed before the model can be split over these machines.")
    else:
        print("\nThe model can be split over these machines.")
    return 1 if bad else 0


def show_running() -> int:
    """Prints the running clusters, with their processes on this machine."""
    clusters = running()
    if not clusters:
        print("No cluster was started on this machine.")
    for entry in clusters:
        cluster = cluster_of(entry["cluster"])
        hosts = listed([host.ssh for host in cluster.hosts])
        since = duration(time.time() - entry["began"])
        print(f"{amount(cluster.size, 'rank')} ({cluster.backend}, {cluster.sharding}) on {hosts}, for {since}")
        if entry["starter"] in entry["alive"]:
            print(f"  started by process {entry['starter']}; ranks here and their ssh: {', '.join(map(str, entry['followers']))}")
        else:
            left = ", ".join(map(str, entry["alive"]))
            print(f"  the process that started it has ended, but these ranks still run: {left}. End them with: kill -9 {left}")
    return 0
