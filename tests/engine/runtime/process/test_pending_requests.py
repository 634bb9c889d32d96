"""What is open gets one end each, and what is answered gets none."""

from __future__ import annotations

from engine.runtime.process.client import PendingRequests
from engine.types import (
    BenchFinished,
    DecodingOptions,
    DrafterReady,
    DrafterRefused,
    LoadFailed,
    PromptCounted,
    RunFailed,
    RunFinished,
    RunStarted,
    TaskFailed,
)


def test_pending_requests_fail_and_answered_ones_do_not() -> None:
    owed = PendingRequests({1, 2, 3}, {4, 5}, {6, 7, 8}, [("a", "x"), ("b", "y")])
    for event in (
        RunStarted(1, DecodingOptions(), 1, "x", None),
        RunStarted(2, DecodingOptions(), 1, "x", None),
        RunFinished(1, "eos", "", 0, 0, 0, None, None),
        RunFailed(3, ""),
        BenchFinished(5, True),
        PromptCounted(7, 3, 9),
        DrafterReady("z", True),  # an answer's own
        DrafterRefused("x", ""),
    ):
        owed.remove_answered(event)
    assert owed.begun == {2}
    assert owed.failures("Gone.") == [
        LoadFailed("b", "Gone."),
        RunFailed(2, "Gone."),
        TaskFailed(4, "Gone."),
        PromptCounted(8, None, None),
    ]


def test_a_load_that_failed_is_answered() -> None:
    owed = PendingRequests(loads=[("a", "x")])
    owed.remove_answered(LoadFailed("b", ""))
    assert owed.loads
    owed.remove_answered(LoadFailed("a", ""))
    assert not owed.loads
