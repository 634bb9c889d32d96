"""Files of hosts: mlx.launch's own format, and a clear word on what is wrong with one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from mlx._distributed_utils.common import Hostfile

from engine.cluster.hosts import Cluster, Host, cluster_of, read_hosts, write_hosts
from engine.values.errors import DraftlightError
from tests.engine.cluster.models import of_this_machine

HERE = {"ssh": "127.0.0.1", "ips": ["10.0.0.1"]}
THERE = {"ssh": "mac2", "ips": ["10.0.0.2"]}
RDMA = [{**HERE, "rdma": [None, "rdma_en5"]}, {**THERE, "rdma": ["rdma_en5", None]}]


@pytest.mark.parametrize("backend", ["ring", "jaccl"])
def test_mlx_launch_reads_what_is_written_and_it_is_read_back(tmp_path: Path, backend: str) -> None:
    document = {"backend": backend, "envs": ["MLX_METAL_FAST_SYNCH=1"], "hosts": RDMA, "sharding": "pipeline", "port": 5000}
    cluster = cluster_of(document)
    write_hosts(tmp_path / "hosts.json", cluster)
    assert read_hosts(tmp_path / "hosts.json") == cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # mlx leaves the file open
        theirs = Hostfile.from_file(str(tmp_path / "hosts.json"))
    assert [(host.ssh_hostname, tuple(host.ips), tuple(host.rdma)) for host in theirs.hosts] == [
        (host.ssh, host.ips, host.rdma) for host in cluster.hosts
    ]
    assert (theirs.backend, theirs.envs) == (backend, ["MLX_METAL_FAST_SYNCH=1"])


def test_a_bare_list_is_a_ring_by_tensors(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text(json.dumps([HERE, THERE]))
    read = read_hosts(tmp_path / "hosts.json")
    assert read == Cluster((Host("127.0.0.1", ("10.0.0.1",)), Host("mac2", ("10.0.0.2",))))
    assert (read.size, read.name_of(1), [host.is_local for host in read.hosts]) == (2, "rank 1 (mac2)", [True, False])
    assert of_this_machine(3).size == 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (7, "it has to be a list of hosts"),
        ([HERE], "it names 1 hosts; 2 to 64 can share a target"),
        ([HERE, "mac2"], "host 1 is not an object"),
        ([HERE, {"ips": ["10.0.0.2"]}], 'host 1 has no usable "ssh"'),
        ([HERE, {**THERE, "ssh": "-oProxyCommand=x"}], 'host 1 has no usable "ssh"'),
        ([HERE, {**THERE, "ips": "10.0.0.2"}], '"ips" of mac2 is not a list'),
        ([HERE, {**THERE, "ips": ["mac2.local"]}], "'mac2.local', which is not an IP address"),
        ([HERE, {"ssh": "mac2"}], 'mac2 has no "ips"; the ring connects addresses'),
        ([{**HERE, "ips": ["127.0.0.1"]}, THERE], "cannot reach a loopback address"),
        ([THERE, HERE], "its first host is mac2. Draftlight itself is rank 0"),
        ({"hosts": [HERE, THERE], "backend": "mpi"}, "\"backend\" is 'mpi'; Draftlight knows ring, jaccl, jaccl-ring"),
        ({"hosts": [HERE, THERE], "sharding": "rows"}, "\"sharding\" is 'rows'; it is tensor or pipeline"),
        ({"hosts": [HERE, THERE], "port": 65535}, '"port" is 65535'),
        ({"hosts": [HERE, THERE], "envs": ["PATH"]}, "'PATH', which is not NAME=VALUE"),
        ({"hosts": [HERE, THERE], "envs": ["A;rm=1"]}, "'A;rm=1', which is not NAME=VALUE"),
        ({"hosts": [HERE, THERE], "envs": ["A=b\0c"]}, "sets A to a value with a null character"),
        ({"hosts": [HERE, {**THERE, "ssh": "a\0b"}]}, 'host 1 has no usable "ssh"'),
        ({"hosts": [HERE, THERE], "python": "py\0"}, '"python" is not the path'),
        ({"hosts": [HERE, THERE], "envs": ["PYTHONPATH=/tmp"]}, "sets PYTHONPATH, which decides what code runs"),
        ({"hosts": [HERE, THERE], "python": "-c"}, '"python" is not the path'),
        ({"hosts": [HERE, THERE], "backend": "jaccl"}, '"rdma" of 127.0.0.1 has to name a device towards each of the 2 hosts'),
    ],
)
def test_invalid_hosts_files_are_refused_with_the_reason(tmp_path: Path, document: object, message: str) -> None:
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps(document))
    with pytest.raises(DraftlightError) as refused:
        read_hosts(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[", b"\xff\xfe", b"[" * 5000])
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "hosts.json").write_bytes(content)
    with pytest.raises(DraftlightError, match="is not a file of hosts: it is not JSON"):
        read_hosts(tmp_path / "hosts.json")
    with pytest.raises(DraftlightError, match="cannot be read"):
        read_hosts(tmp_path)
