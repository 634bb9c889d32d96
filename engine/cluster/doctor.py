"""Checks whether a cluster can run a target: asks each machine, compares the answers, and measures the links. No MLX here.

Code that needs MLX runs in processes of its own: `engine.cluster.about` on every machine, `engine.cluster.probe` as rank 0.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from engine.cluster.companions import SSH, Ranks, addresses, in_shell
from engine.cluster.hosts import Cluster
from engine.runtime.process.launch import own_python
from engine.values.errors import DraftlightError
from engine.values.wording import amount, capitalised, noun, size

ANSWER_TIMEOUT, MEASURE_TIMEOUT = 60.0, 90.0
"""Timeouts in seconds: for a machine to answer, and for the links to be measured."""
_PACKAGES = ("draftlight", "python", "mlx", "mlx-lm")
ABOUT, LINKS = "draftlight-about ", "draftlight-links "
NOT_REACHED = 255
"""Exit status of ssh if it could not connect."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        rank: the rank concerned; None if it concerns all.
        state: unknown if the check was not possible.
        words: the result in a sentence, with advice if it is bad.
    """

    rank: int | None
    state: Literal["good", "bad", "unknown"]
    words: str


def check(cluster: Cluster, target: str, links: bool = True) -> list[Finding]:
    """Returns all findings, machine by machine; takes some seconds, or a minute if a machine does not answer.

    Args:
        target: builtin, or the path of a model, the same on every machine.
        links: whether to measure the links too, if nothing else is bad.
    """
    rank_addresses = addresses(cluster)
    with ThreadPoolExecutor(cluster.size) as executor:
        answers = list(executor.map(lambda rank: ask(cluster, rank, target, rank_addresses[rank]), range(cluster.size)))
    findings: list[Finding] = []
    reference = answers[0]
    for rank, answer in enumerate(answers):
        if isinstance(answer, str):
            findings.append(Finding(rank, "bad", f"{capitalised(cluster.name_of(rank))} {answer}"))
        else:
            findings += _check_machine(cluster, rank, answer, reference if isinstance(reference, dict) else answer)
    if isinstance(reference, dict) and "config" in reference:
        findings += _check_model(cluster, target, reference["config"])
    if links and any(finding.state == "bad" for finding in findings):
        findings.append(
            Finding(None, "unknown", "The links were not measured, because the ranks could not be started as things are.")
        )
    elif links:
        findings += _check_links(cluster)
    return findings


def ask(cluster: Cluster, rank: int, target: str, addresses: Sequence[str]) -> dict[str, Any] | str:
    """Returns the answer of `engine.cluster.about` on a machine, or the failure as the rest of a sentence that begins with the
    rank."""
    host = cluster.hosts[rank]
    arguments = [target, *(addresses if cluster.backend == "ring" else ())]
    if host.is_local:
        command = [*own_python("engine.cluster.about"), *arguments]
    else:
        remote_command = f"exec {in_shell(cluster.python)} -P -m engine.cluster.about {shlex.join(arguments)}"
        command = [*(word for word in SSH if word != "-tt"), host.ssh, remote_command]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_TIMEOUT, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {ANSWER_TIMEOUT:.0f} s. Look whether the machine is awake."
    except OSError as error:
        return f"cannot be asked: {error.strerror or error}. Install ssh."
    answer = _message_after(result.stdout, ABOUT)
    if answer is not None:
        return answer
    last = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if result.returncode == NOT_REACHED:
        return f"is not reached by ssh ({last}). `ssh {host.ssh}` has to work without a password: use ssh-copy-id."
    if "No module named" in last or "not found" in last:
        return f'has no Draftlight ({last}). Install it there, and give the path of its Python as "python" in the file of hosts.'
    return f"could not be asked ({last})."


def _message_after(printed: str, mark: str) -> dict[str, Any] | None:
    for line in printed.splitlines():
        if line.startswith(mark):
            return json.loads(line.removeprefix(mark))
    return None


def _check_machine(cluster: Cluster, rank: int, answer: Mapping[str, Any], reference: Mapping[str, Any]) -> Iterator[Finding]:
    name = capitalised(cluster.name_of(rank))
    versions, expected = _versions(answer), _versions(reference)
    described = ", ".join(f"{package} {number or 'missing'}" for package, number in versions.items())
    different = [package for package in _PACKAGES if versions[package] != expected[package]]
    if different:
        yield Finding(rank, "bad", f"{name} has other versions than rank 0 ({described}). Install the same on all machines.")
    else:
        yield Finding(rank, "good", f"{name} has {described}.")
    if answer["taken"]:
        yield Finding(
            rank,
            "bad",
            f"{name} cannot listen at {', '.join(answer['taken'])}: another program does, or the machine does not have that "
            'address. Change "ips" or "port" in the file of hosts.',
        )
    if "problem" in answer:
        problem = str(answer["problem"]).removesuffix(".")
        yield Finding(rank, "bad", f"{name} cannot read the model: {problem}. It has to be at the same place everywhere.")
        return
    if answer["found_as"] != reference.get("found_as"):
        yield Finding(rank, "bad", f"{name} has another model there than rank 0. Copy rank 0's.")
    else:
        yield Finding(rank, "good", f"{name} has the model.")
    yield _check_memory(cluster, rank, answer)


def _versions(answer: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns the versions that have to be equal on all machines; of Python major and minor only."""
    versions = {package: answer["versions"].get(package) for package in _PACKAGES}
    return versions | {"python": ".".join((versions["python"] or "").split(".")[:2])}


def _check_memory(cluster: Cluster, rank: int, answer: Mapping[str, Any]) -> Finding:
    """Compares the memory need of a machine's ranks with its free memory. Ignores that each rank keeps the whole embedding."""
    name = capitalised(cluster.name_of(rank))
    ranks_there = sum(host.ssh == cluster.hosts[rank].ssh for host in cluster.hosts)
    need, free = answer["need"] * ranks_there / cluster.size, answer["memory"]
    ranks = f"its {ranks_there} ranks need" if ranks_there > 1 else "it needs"
    if free is None:
        return Finding(rank, "unknown", f"{name} does not say how much memory is free; {ranks} about {size(need)}.")
    if need > free:
        return Finding(rank, "bad", f"{name} has {size(free)} of memory free, but {ranks} about {size(need)}. Add a machine.")
    return Finding(rank, "good", f"{name} has {size(free)} of memory free; {ranks} about {size(need)}.")


def _check_model(cluster: Cluster, target: str, config: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks whether the model's heads, or its layers, can be divided among the ranks."""
    layers = config.get("num_hidden_layers")
    if cluster.sharding == "pipeline":
        if isinstance(layers, int) and layers < cluster.size:
            yield Finding(
                None, "bad", f"The model has {amount(layers, 'layer')}, too few for a pipeline of {amount(cluster.size, 'rank')}."
            )
        return
    heads = [config.get(name) for name in ("num_attention_heads", "num_key_value_heads")]
    if any(isinstance(count, int) and count % cluster.size for count in heads):
        yield Finding(
            None,
            "bad",
            f"The model has {heads[0]} {noun(heads[0] or 0, 'attention head')} and {heads[1]} "
            f"{noun(heads[1] or 0, 'key and value head')}, which {cluster.size} {noun(cluster.size, 'rank')} cannot "
            "share. Use a number of ranks that divides both, or a pipeline.",
        )


def _check_links(cluster: Cluster) -> Iterator[Finding]:
    ranks = Ranks(cluster)
    try:
        environment = {**os.environ, **ranks.start()}
        command = [*own_python("engine.cluster.probe")]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=MEASURE_TIMEOUT, env=environment, stdin=subprocess.DEVNULL
        )
        measured = _message_after(result.stdout, LINKS)
        failure = ranks.failure() or (result.stderr.strip().splitlines() or ["Nothing was said."])[-1]
    except (subprocess.TimeoutExpired, DraftlightError) as error:
        failed = isinstance(error, DraftlightError)
        measured, failure = None, str(error) if failed else f"The ranks did not connect within {MEASURE_TIMEOUT:.0f} s."
    finally:
        ranks.stop()
    if measured is None:
        yield Finding(None, "bad", f"The links could not be measured. {failure} A firewall may be in the way.")
        return
    (small, first), (large, last) = ((int(length), seconds) for length, seconds in measured.items() if length.isdigit())
    speed = 4 * (large - small) / max(1e-9, last - first)
    yield Finding(
        None,
        "good",
        f"An exchange between all ranks takes {1e6 * measured['exchange']:,.0f} µs, and they sum {size(speed)} a second.",
    )
