"""A target split over two real processes, started once for all that is claimed of it: processes that wait for each other are
dear where they share two cores. Everything else about clusters, such as each rule, is tested without processes;
`tests/benchmarks/cluster.py` does more."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from engine.cluster.companions import Ranks, launch_for
from engine.decode.decoding import decode
from engine.drafters.base import Drafter
from engine.drafters.draft_model import DraftModel
from engine.models.loading import load
from engine.rounds.trace import read
from engine.runtime.process.client import ProcessEngine
from engine.serving.prompt import prompt_ids
from engine.types import (
    DecodingOptions,
    Event,
    Message,
    Request,
    Round,
    RoundFinished,
    Rule,
    RunFailed,
    RunFinished,
)
from engine.values.requests.compare import CompareRequest
from tests.engine.cluster.models import of_this_machine, write_qwen2
from tests.engine.fakes import PATIENCE
from tests.engine.runtime.process.processes import is_alive, until
from tests.engine.small_models import greedy_of_mlx_lm, same_up_to_near_ties

MESSAGES = (Message("user", "hello world hello world"),)
TOKENS = 10


@dataclass
class Cluster:
    """A launched one, and the files of its models."""

    engine: ProcessEngine
    target: str
    draft: str
    ranks: list[Ranks]

    def request(self, drafter: str = "none", **options: object) -> Request:
        made = DecodingOptions(**{"max_tokens": TOKENS, "seed": 3, "temperature": 0.0, "gamma": 3, **options})
        return Request(MESSAGES, made, self.target, drafter)

    def answers(self, ids: Sequence[int], seen: Callable[[Event], None] = lambda event: None) -> dict[int, list[Round]]:
        """The rounds of each run, once all have ended."""
        rounds: dict[int, list[Round]] = {number: [] for number in ids}
        self.ends: list[RunFinished | RunFailed] = []
        while len(self.ends) < len(ids):
            assert self.engine.wait(PATIENCE), "the answer did not end"
            for event in self.engine.events():
                seen(event)
                if isinstance(event, RoundFinished):
                    rounds[event.run_id].append(event.round)
                elif isinstance(event, (RunFinished, RunFailed)):
                    self.ends.append(event)
        return rounds

    def rounds(self, request: Request) -> list[Round]:
        number = self.engine.submit(request)
        rounds = self.answers([number])[number]
        assert isinstance(self.ends[0], RunFinished), self.ends
        return rounds


def alone(cluster: Cluster, drafter: Drafter | None, request: Request) -> list[int]:
    """The ids of the answer by one process."""
    target = load(cluster.target)
    rounds = decode(target, prompt_ids(target, MESSAGES), drafter, request.options)
    return [token.id for current in rounds for token in current.emitted]


def test_a_split_target_writes_what_one_process_writes_until_a_rank_dies(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    described = of_this_machine(2)
    ranks: list[Ranks] = []

    def companions() -> Ranks:
        """Those of a launch, kept to be looked at."""
        ranks.append(Ranks(described, silent=PATIENCE))
        return ranks[-1]

    engine = ProcessEngine(replace(launch_for(described), companions=companions))
    try:
        cluster = Cluster(engine, write_qwen2(tmp_path / "target"), write_qwen2(tmp_path / "draft", 0.15), ranks)
        writes_what_one_process_writes(cluster, tmp_path)
        is_changed_and_compared(cluster)
        ends_with_a_rank(cluster)
        assert len(ranks) == 1, "one launch serves all of this"
        assert until(lambda: bool(caplog.records))
        (record,) = caplog.records
        assert "Rank 1 (127.0.0.1) of the cluster has ended." in record.getMessage()
    finally:
        assert engine.close(PATIENCE)


def writes_what_one_process_writes(cluster: Cluster, tmp_path: Path) -> None:
    target = load(cluster.target)
    plain = cluster.rounds(replace(cluster.request(phase_every=2), trace_path=str(tmp_path / "plain.jsonl")))
    same_up_to_near_ties(plain, greedy_of_mlx_lm(target.model, prompt_ids(target, MESSAGES), TOKENS))
    waited = [current.milliseconds for current in read(tmp_path / "plain.jsonl").rounds]
    assert [times.communication for times in waited] == [current.milliseconds.communication for current in plain]
    measured = [times for times in waited if times.measured]
    assert measured and all(0 < (times.communication or 0) <= (times.verify or 0) for times in measured)
    assert all(times.communication is None for times in waited if not times.measured)

    drafted = cluster.request(cluster.draft, rule="block", temperature=0.8)
    rounds = cluster.rounds(drafted)
    assert any(current.proposals for current in rounds)
    same_up_to_near_ties(rounds, alone(cluster, DraftModel(load(cluster.draft)), drafted))


def is_changed_and_compared(cluster: Cluster) -> None:
    requests = tuple(cluster.request(cluster.draft, max_tokens=6, temperature=0.8, seed=seed) for seed in (1, 2))
    together = cluster.answers(cluster.engine.compare(CompareRequest(requests)))
    for rounds, request in zip(together.values(), requests, strict=True):
        same_up_to_near_ties(rounds, alone(cluster, DraftModel(load(cluster.draft)), request))

    changed_to: Rule = "rejection"
    number = cluster.engine.submit(cluster.request(cluster.draft, max_tokens=200, temperature=0.8, gamma=1))

    def change(event: Event) -> None:
        """Asks for another rule when the first round is there, and for a stop when one shows it."""
        if isinstance(event, RoundFinished):
            cluster.engine.update(number, rule=changed_to)
            if event.round.rule == changed_to:
                cluster.engine.stop(number)

    rounds = cluster.answers([number], change)[number]
    assert rounds[0].rule != changed_to
    assert any(current.rule == changed_to for current in rounds)


def ends_with_a_rank(cluster: Cluster) -> None:
    number = cluster.engine.submit(cluster.request(max_tokens=300))
    killed: list[int] = []

    def kill(event: Event) -> None:
        """Kills the follower once the answer is under way."""
        if isinstance(event, RoundFinished) and not killed:
            killed.extend([*cluster.ranks[-1].pids, cluster.engine.process_id or 0])
            os.kill(killed[0], signal.SIGKILL)

    cluster.answers([number], kill)
    (end,) = cluster.ends
    assert isinstance(end, RunFailed)
    assert end.message.startswith("Rank 1 (127.0.0.1) of the cluster has ended.")
    assert killed[0] and until(lambda: not any(is_alive(process) for process in killed))
    assert until(lambda: not cluster.ranks[-1].pids)
