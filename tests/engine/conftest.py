"""Fixtures that several of the engine's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def steady_clock() -> Iterator[None]:
    """The clock of the decode loop goes on by a millisecond with each look at it.

    A round takes as long with proposals as without, which speaks for the longest drafts.
    """
    from tests.engine.small_models import ticking_clock

    with ticking_clock():
        yield
