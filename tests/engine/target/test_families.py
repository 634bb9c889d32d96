"""Every architecture of mlx-lm through every check, 200 tokens each: long, so only with `make test-full`."""

from __future__ import annotations

import pytest

from engine.target import prompt_cache as caches
from tests.engine.families import NOT_BUILT, architectures
from tests.engine.family_checks import CHECKS, Family

REFUSED = {"deepseek_v41"}
"""What cannot be speculated upon, with a reason in `prompt_cache.REFUSED`."""


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(architectures()) - NOT_BUILT.keys()))
def test_an_architecture_is_decoded_rightly(name: str) -> None:
    family = Family(name, 200)
    reason = caches.refusal(caches.make_prompt_cache(family.model))
    assert (reason is not None) == (name in REFUSED)
    for check, holds in CHECKS.items():
        if reason is None or check == "plain":
            holds(family)
