"""The user's list of machines to split a target over. No Qt.

It is stored in one file in the format of `mlx.launch` (`engine.cluster.hosts`), which the command line can use as well.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NoReturn

from engine.cluster.companions import launch_for
from engine.cluster.hosts import Cluster, read_hosts
from engine.files.paths import data_folder
from engine.runtime.process.launch import Launch
from engine.values.errors import DraftlightError

NO_MACHINES = "There are no machines to split the target over. Add some under Models…, Machines."


def hosts_path() -> Path:
    """Returns the path of the machine list; the file need not exist."""
    return data_folder() / "hosts.json"


def kept_cluster() -> Cluster | None:
    """Returns the stored machines; None if there are none. Raises DraftlightError if the file cannot be read."""
    return read_hosts(hosts_path()) if hosts_path().exists() else None


def number_of_machines() -> int:
    """Returns the number of machines that a target is split over, this one included; 1 if the file is missing or unusable."""
    try:
        cluster = kept_cluster()
    except DraftlightError:
        return 1
    return 1 if cluster is None else len({host.ssh for host in cluster.hosts})


def split_launch() -> Launch:
    """Returns the launcher of an engine whose target is split over the machines. Without machines, its start raises an error."""
    try:
        cluster = kept_cluster()
    except DraftlightError as error:
        return Launch(companions=partial(_refuse, str(error)))
    if cluster is None:
        return Launch(companions=partial(_refuse, NO_MACHINES))
    return launch_for(cluster, measures=True)


def _refuse(words: str) -> NoReturn:
    raise DraftlightError(words)
