"""Shapes of trees, and the best shape against all possible ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from engine.values.tree_shape import TreeShape, likeliest_tree

EXAMPLE = TreeShape((0, 0, 1, 1, 3))


def test_the_example_has_the_depths_ranks_and_paths_of_its_drawing() -> None:
    assert EXAMPLE.depths == (0, 1, 1, 2, 2, 3)
    assert EXAMPLE.ranks == (0, 0, 1, 0, 1, 0)
    assert EXAMPLE.children == ((1, 2), (3, 4), (), (5,), (), ())
    assert EXAMPLE.expanded == (0, 1, 3)
    assert EXAMPLE.path_to(5) == [0, 1, 3, 5]
    assert np.flatnonzero(EXAMPLE.visible[5]).tolist() == [0, 1, 3, 5]


def test_a_chain_is_a_tree_in_which_each_node_follows_the_one_before() -> None:
    assert TreeShape.chain(3).is_chain and TreeShape.chain(0).is_chain
    assert not EXAMPLE.is_chain


@pytest.mark.parametrize("parents", [(1,), (0, 2), (-1,)])
def test_a_parent_that_does_not_precede_its_child_is_refused(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="parent before it"):
        TreeShape(parents)


def expected_accepted(shape: TreeShape, chances: tuple[float, ...]) -> float:
    """The expected number of accepted tokens, if the child of each rank is right with that probability."""
    return sum(np.prod([chances[shape.ranks[each]] for each in shape.path_to(node)[1:]]) for node in range(1, shape.size + 1))


def all_trees(size: int, depth: int, width: int) -> Iterator[TreeShape]:
    for parents in itertools.product(*(range(index + 1) for index in range(size))):
        shape = TreeShape(parents)
        if max(shape.depths) <= depth and max(map(len, shape.children)) <= width:
            yield shape


@pytest.mark.parametrize("chances", [(0.5, 0.2, 0.1), (0.35, 0.3, 0.2), (0.8, 0.1, 0.05)])
@pytest.mark.parametrize(("size", "depth", "width"), [(3, 3, 3), (5, 2, 3), (5, 5, 2), (6, 3, 2)])
def test_no_tree_of_the_same_size_accepts_more(size: int, depth: int, width: int, chances: tuple[float, ...]) -> None:
    best, copies = likeliest_tree(size, depth, width, rank_chances=chances)
    assert copies == ()
    assert best.size == size and max(best.depths) <= depth
    wanted = max(expected_accepted(shape, chances) for shape in all_trees(size, depth, width))
    assert expected_accepted(best, chances) == pytest.approx(wanted)


def test_a_likely_copy_is_followed_deep_and_an_unlikely_one_stands_behind_the_first_choice() -> None:
    sure, copies = likeliest_tree(6, 6, 3, [0.95] * 6)
    assert sure.is_chain and copies == (1, 2, 3, 4, 5, 6)
    unsure, copies = likeliest_tree(6, 6, 3, [0.2] * 6)
    assert unsure.ranks[copies[0]] == 1, "0.8 x 0.42 for the drafter's first choice, 0.2 for the copy, 0.8 x 0.14 for the second"


def test_copies_are_a_path_from_the_root() -> None:
    shape, copies = likeliest_tree(12, 6, 4, [0.6, 0.5, 0.4, 0.3])
    assert list(copies) == shape.path_to(copies[-1])[1:]


def test_a_tree_ends_where_depth_and_width_leave_no_place() -> None:
    assert likeliest_tree(64, 2, 2)[0].size == 6
    assert likeliest_tree(4, 8, 1)[0].is_chain
    assert likeliest_tree(4, 8, 1, [0.5])[1] == (1,)
