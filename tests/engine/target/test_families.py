"""Runs every architecture of mlx-lm through every check with 200 tokens. Takes long, so only with `make test-full`."""

from __future__ import annotations

import pytest

from engine.target import prompt_cache as caches
from tests.engine.families import NOT_BUILT, architectures
from tests.engine.family_checks import CANNOT_HOLD, CHECKS, Family

REFUSED = {"deepseek_v41"}
"""Architectures that do not support speculation; `prompt_cache.REFUSED` has the reasons."""


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(architectures()) - NOT_BUILT.keys()))
def test_an_architecture_is_decoded_rightly(name: str) -> None:
    family = Family(name, 200)
    reason = caches.refusal(caches.make_prompt_cache(family.model))
    assert (reason is not None) == (name in REFUSED)
    for check, holds in CHECKS.items():
        if (name, check) in CANNOT_HOLD:
            with pytest.raises(AssertionError, match="differs at token"):
                holds(family)
        elif reason is None or check == "plain":
            holds(family)


def test_plamo_3_keeps_its_turns_where_every_pass_looks_equally_far_back() -> None:
    """With one token less in its long passes, the check passes that fails above: nothing else is wrong with its turns."""
    family = Family("plamo3", 60)
    family.model.model.layers.window_size -= 1
    family.turns()
