"""`draftlight cluster`: the output of `doctor` and `status`."""

from __future__ import annotations

import time

from engine.cluster.companions import running
from engine.cluster.doctor import check
from engine.cluster.hosts import Cluster, cluster_of
from engine.values.wording import amount, duration, listed

_SIGNS = {"good": "ok", "bad": "BAD", "unknown": "?"}


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
