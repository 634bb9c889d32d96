"""The machines that a target can be split over, as the user has put them together. No Qt.

They are kept in one file in the format of `mlx.launch` (`engine.cluster.hosts`), so that it serves the command line, too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NoReturn

from engine.cluster.companions import launch_for
from engine.cluster.hosts import Cluster, read_hosts
from engine.errors import DraftlightError
from engine.files.paths import data_folder
from engine.process.launch import Launch

NO_MACHINES = "There are no machines to split the target over. Add some in the window of models, under Machines."


def hosts_path() -> Path:
    """The file of machines; it need not exist."""
    return data_folder() / "hosts.json"


def kept_cluster() -> Cluster | None:
    """The machines of the file; None if there are none. Raises DraftlightError if it cannot be read."""
    return read_hosts(hosts_path()) if hosts_path().exists() else None


def number_of_machines() -> int:
    """Over how many a target is split, this one included; 1 where the file says nothing of use."""
    try:
        cluster = kept_cluster()
    except DraftlightError:
        return 1
    return 1 if cluster is None else len({host.ssh for host in cluster.hosts})


def split_launch() -> Launch:
    """What starts an engine whose target is split over the machines. Where there are none, it says so when it is started."""
    try:
        cluster = kept_cluster()
    except DraftlightError as error:
        return Launch(companions=partial(_refuse, str(error)))
    if cluster is None:
        return Launch(companions=partial(_refuse, NO_MACHINES))
    return launch_for(cluster, measures=True)


def _refuse(words: str) -> NoReturn:
    raise DraftlightError(words)
