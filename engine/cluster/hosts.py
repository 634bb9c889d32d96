"""The hosts file: the machines that a target is split over, in the format of `mlx.launch`, and the kind of split.

The file is JSON: a list of hosts, or an object with `hosts`, `backend` and `envs`, as `mlx.distributed_config` writes it. The
object may also have `sharding`, `python` and `port`, which `mlx.launch` ignores. The first host is rank 0 and this machine.
Nothing here imports MLX.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from engine.files.foreign import content_of, json_of
from engine.files.whole_file import write_whole
from engine.rounds.codec import plain
from engine.values.errors import DraftlightError

Sharding = Literal["tensor", "pipeline"]
Links = Literal["ring", "jaccl", "jaccl-ring"]
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
BACKENDS: tuple[Links, ...] = get_args(Links)
LOOPBACK = "127.0.0.1"
_LOCAL = (LOOPBACK, "localhost", "::1")
MAX_HOSTS = 64
_NOT_SET = ("LD_", "DYLD_", "PYTHON", "PATH", "DRAFTLIGHT_", "MLX_RANK", "MLX_HOSTFILE", "MLX_IBV_", "MLX_JACCL_")
"""Prefixes of variables that a hosts file may not set."""
MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Host:
    """One process of the cluster.

    Attributes:
        ssh: the destination for ssh; 127.0.0.1 is this machine, which needs no ssh.
        ips: its addresses on the links between the machines; the ring makes a connection for each.
        rdma: for JACCL, its device towards each host, None towards itself.
    """

    ssh: str
    ips: tuple[str, ...] = ()
    rdma: tuple[str | None, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether it is this machine."""
        return self.ssh in _LOCAL


@dataclass(frozen=True, slots=True)
class Cluster:
    """The processes that share a target.

    Attributes:
        hosts: in the order of their ranks.
        backend: the transport of MLX that connects them.
        sharding: tensor gives every rank a part of each layer, pipeline gives it some of the layers.
        envs: NAME=VALUE for each process.
        python: the interpreter on the other machines, with Draftlight installed.
        port: the first one used. 0 means the default of `mlx.launch`, or any free ports if all processes are on this machine.
    """

    hosts: tuple[Host, ...]
    backend: Links = "ring"
    sharding: Sharding = "tensor"
    envs: tuple[str, ...] = ()
    python: str = "python3"
    port: int = 0

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.hosts)

    def name_of(self, rank: int) -> str:
        """Returns the name of a rank in messages."""
        return f"rank {rank} ({self.hosts[rank].ssh})" if 0 <= rank < self.size else f"rank {rank}"


def read_hosts(path: Path) -> Cluster:
    """Returns the cluster that a file describes.

    Raises:
        DraftlightError: the file cannot be read, or is invalid; says what to write instead.
    """
    try:
        document = json_of(content_of(path))
    except OSError as error:
        raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise DraftlightError(f"{path} is not a file of hosts: it is not JSON ({error}).") from error
    try:
        return cluster_of(document)
    except ValueError as error:
        raise DraftlightError(f"{path} is not a file of hosts: {error}.") from error


def write_hosts(path: Path, cluster: Cluster) -> None:
    """Writes the file that `read_hosts` and `mlx.launch --hostfile` read. Raises DraftlightError if that fails."""
    write_whole(path, json.dumps(plain(cluster), indent=2) + "\n", private=True)


def cluster_of(document: object) -> Cluster:
    """Returns the cluster that a parsed file describes. Raises ValueError with the invalid entry."""
    entry = document if isinstance(document, Mapping) else {"hosts": document}
    hosts = entry.get("hosts")
    if not isinstance(hosts, list):
        raise ValueError('it has to be a list of hosts such as {"ssh": "mac2", "ips": ["10.0.0.2"]}, or an object with "hosts"')
    if not 2 <= len(hosts) <= MAX_HOSTS:
        raise ValueError(f"it names {len(hosts)} hosts; 2 to {MAX_HOSTS} can share a target")
    known = {field.name for field in fields(Cluster)} - {"hosts"}
    given: dict[str, Any] = {name: value for name, value in entry.items() if name in known and value not in ("", None)}
    if "envs" in given:
        given["envs"] = _envs(given["envs"])
    if given.get("backend") == "any":
        del given["backend"]
    cluster = Cluster(tuple(_host(rank, host) for rank, host in enumerate(hosts)), **given)
    _require(cluster)
    return cluster


def _host(rank: int, value: object) -> Host:
    if not isinstance(value, Mapping):
        raise ValueError(f'host {rank} is not an object with "ssh" and "ips"')
    name = value.get("ssh")
    if not isinstance(name, str) or not name or name.startswith("-") or any(c.isspace() or c == "\0" for c in name):
        raise ValueError(f'host {rank} has no usable "ssh": the name or address that ssh reaches it by')
    return Host(name, _addresses(name, value.get("ips", [])), _devices(name, value.get("rdma", [])))


def _addresses(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f'"ips" of {name} is not a list')
    for address in value:
        try:
            ipaddress.ip_address(address if isinstance(address, str) else "")
        except ValueError:
            raise ValueError(f'"ips" of {name} holds {address!r}, which is not an IP address') from None
    return tuple(value)


def _devices(name: str, value: object) -> tuple[str | None, ...]:
    if not isinstance(value, (list, tuple)) or not all(device is None or isinstance(device, str) for device in value):
        raise ValueError(f'"rdma" of {name} is not a list of device names')
    return tuple(value)


def _envs(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError('"envs" is not a list of NAME=VALUE')
    for setting in value:
        name = setting.partition("=")[0] if isinstance(setting, str) and "=" in setting else ""
        if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
            raise ValueError(f'"envs" holds {setting!r}, which is not NAME=VALUE')
        if name.startswith(_NOT_SET):
            raise ValueError(f'"envs" sets {name}, which decides what code runs or is set by Draftlight; leave it out')
        if "\0" in setting:
            raise ValueError(f'"envs" sets {name} to a value with a null character, which no variable can hold')
    return tuple(value)


def _require(cluster: Cluster) -> None:
    """Raises ValueError if the cluster is inconsistent."""
    if cluster.backend not in BACKENDS:
        raise ValueError(f'"backend" is {cluster.backend!r}; Draftlight knows {", ".join(BACKENDS)}')
    if cluster.sharding not in SHARDINGS:
        raise ValueError(f'"sharding" is {cluster.sharding!r}; it is {" or ".join(SHARDINGS)}')
    if not isinstance(cluster.python, str) or cluster.python.startswith("-") or "\0" in cluster.python:
        raise ValueError('"python" is not the path of an interpreter')
    if type(cluster.port) is not int or not 0 <= cluster.port <= MAX_PORT - cluster.size:
        raise ValueError(f'"port" is {cluster.port!r}; it is a number from 1 to {MAX_PORT - cluster.size}')
    if not cluster.hosts[0].is_local:
        raise ValueError(
            f"its first host is {cluster.hosts[0].ssh}. Draftlight itself is rank 0, so the first host is this machine: "
            f'give it as {{"ssh": "{LOOPBACK}", "ips": [its address on the links]}}'
        )
    without = [host.ssh for host in cluster.hosts if not host.ips]
    if cluster.backend == "ring" and without:
        raise ValueError(f'{without[0]} has no "ips"; the ring connects addresses')
    is_spread = not all(host.is_local for host in cluster.hosts)
    if is_spread and any(ipaddress.ip_address(address).is_loopback for host in cluster.hosts for address in host.ips):
        raise ValueError('the other machines cannot reach a loopback address; give every host its address on the links in "ips"')
    if cluster.backend != "ring":
        _require_devices(cluster)


def _require_devices(cluster: Cluster) -> None:
    """Raises ValueError if the devices are not as `mlx.launch` requires."""
    if not cluster.hosts[0].ips:
        raise ValueError('the first host has no "ips"; JACCL needs an address of rank 0 that the others reach')
    for rank, host in enumerate(cluster.hosts):
        if len(host.rdma) != cluster.size or host.rdma[rank] is not None:
            raise ValueError(
                f'"rdma" of {host.ssh} has to name a device towards each of the {cluster.size} hosts, null for itself'
            )
