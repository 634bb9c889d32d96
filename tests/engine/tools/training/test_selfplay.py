"""Text that a target wrote for itself, as files hold it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.tools.training import selfplay
from engine.values.errors import DraftlightError


def test_text_is_read_as_documented_and_anything_else_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "text.npz",
        tokens=np.arange(10, dtype=np.uint16),
        offsets=np.array([0, 4, 6, 10]),
        prompt_lengths=np.array([1, 2, 3], np.int32),
    )
    first, last = selfplay.read(tmp_path)  # the second record has no answer
    assert (first.tokens.tolist(), first.answer.tolist(), last.answer.tolist()) == ([0, 1, 2, 3], [1, 2, 3], [9])
    with pytest.raises(DraftlightError, match="There is no training text"):
        selfplay.read(tmp_path / "missing")
    damaged = tmp_path / "other.npz"
    for content in (b"no archive", b"", (tmp_path / "text.npz").read_bytes()[:-30]):
        damaged.write_bytes(content)
        with pytest.raises(DraftlightError, match=r"other\.npz is not a file of training text, or it is damaged .* Remove it"):
            selfplay.read(damaged)
    sound = {"tokens": np.arange(9), "offsets": np.array([0, 9]), "prompt_lengths": np.array([2])}
    for name, array in (("offsets", np.array(3)), ("offsets", np.array(["0", "9"])), ("prompt_lengths", np.array(["2"]))):
        np.savez(damaged, **{**sound, name: array})
        with pytest.raises(DraftlightError, match=f"{name} is not a row of whole numbers"):
            selfplay.read(damaged)
