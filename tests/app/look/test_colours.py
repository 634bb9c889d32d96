"""Whether each colour means one thing: the three sets lie apart, for colour-blind readers as well, and stand out.

Distances are Euclidean in Oklab (Ottosson 2020), where the least difference that people see side by side is about 0.02. Colour
blindness is simulated as Machado, Oliveira and Fernandes (2009) do at full severity.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from app.look.colours import DARK, LIGHT, Theme
from engine.exports.svg import VARIABLES
from engine.types import PHASES, RULES
from tests.app.look.test_theme import contrast

Row = npt.NDArray[np.float64]
SETS: tuple[tuple[str, ...], ...] = (
    ("accepted", "rejected", "unjudged", "correction", "bonus"),
    tuple(f"time_{phase}" for phase in (*PHASES, "unsplit")),
    tuple(f"rule_{rule}" for rule in RULES),
)
WITHIN, BETWEEN = 0.08, 0.04
MARK = 3.0
EYES: dict[str, Row] = {
    "usual": np.eye(3),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
}
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(colour: str, eyes: str = "usual") -> Row:
    """A colour as it is seen: (3,) lightness, green to red, blue to yellow."""
    parts = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(EYES[eyes] @ linear, 0, 1)
    return np.asarray(TO_OKLAB @ np.cbrt(TO_CONES @ seen))


def too_close(theme: Theme, eyes: str) -> dict[tuple[str, str], float]:
    """Pairs of colours that could be taken for one another; the accent counts as a set of its own."""
    home = {name: place for place, names in enumerate((*SETS, ("accent",))) for name in names}
    found = {}
    for one, other in combinations(home, 2):
        apart = float(np.linalg.norm(oklab(getattr(theme, one), eyes) - oklab(getattr(theme, other), eyes)))
        if apart < (WITHIN if home[one] == home[other] else BETWEEN):
            found[one, other] = round(apart, 3)
    return found


def test_oklab_matches_published_values() -> None:
    assert oklab("#ffffff") == pytest.approx([1, 0, 0], abs=1e-3)
    assert oklab("#ff0000") == pytest.approx([0.628, 0.225, 0.126], abs=1e-3)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_all_colours_are_distinguishable(theme: Theme, eyes: str) -> None:
    assert too_close(theme, eyes) == {}


def test_red_and_green_of_equal_lightness_are_detected() -> None:
    twin = replace(LIGHT, accepted="#5c7a1e", rejected="#9c5a1c")
    assert ("accepted", "rejected") not in too_close(twin, "usual")
    assert ("accepted", "rejected") in too_close(twin, "deuteranopia")


def test_a_colour_with_two_meanings_is_detected() -> None:
    twin = replace(DARK, time_draft=DARK.accepted)
    assert all(("accepted", "time_draft") in too_close(twin, eyes) for eyes in EYES)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_marks_contrast_with_their_background(theme: Theme) -> None:
    for mark in (*(name for names in SETS for name in names), "accent"):
        for ground in ("background", "panel", "code"):
            assert contrast(getattr(theme, mark), getattr(theme, ground)) >= MARK, (mark, ground)


def test_colours_are_found_by_phase_and_by_rule_in_pages_too() -> None:
    for palette in (DARK, LIGHT, VARIABLES):
        assert [palette.time(phase) for phase in (*PHASES, "unsplit")] == [getattr(palette, name) for name in SETS[1]]
        assert [palette.rule(rule) for rule in RULES] == [getattr(palette, name) for name in SETS[2]]
    assert len({getattr(VARIABLES, field.name) for field in fields(VARIABLES)}) == len(fields(VARIABLES))
