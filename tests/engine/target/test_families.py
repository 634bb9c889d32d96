"""Every architecture of mlx-lm through every check, 200 tokens each: all of it long, so only with `make test-full`."""

from __future__ import annotations

import pytest

from engine.target import prompt_cache as caches
from tests.engine.families import NOT_BUILT, architectures
from tests.engine.family_checks import CANNOT_HOLD, CHECKS, Family

REFUSED = {"deepseek_v41"}
"""What cannot be speculated upon, with a reason in `prompt_cache.REFUSED`."""


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
    """So nothing else is wrong with them: one token less in its long passes, and the check holds that fails above."""
    family = Family("plamo3", 60)
    family.model.model.layers.window_size -= 1
    family.turns()
