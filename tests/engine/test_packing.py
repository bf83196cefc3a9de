from typing import Any, NamedTuple

import pytest
import torch

from troth.engine import packing as trees


class Pair(NamedTuple):
    a: Any
    b: Any


def t(*shape):
    return torch.randn(shape)


def test_leaves_come_in_order_from_any_nesting():
    a, b, c = t(2), t(3), t(4)
    assert trees.leaves(a) == [a]
    found = trees.leaves((a, (), Pair(b, [c])))
    assert all(x is y for x, y in zip(found, (a, b, c), strict=True))
    assert trees.leaves(()) == []


def test_like_is_the_same_tree_with_other_leaves():
    tree = (t(1), Pair(t(1), ((), t(1))))
    made = trees.like(tree, ["x", "y", "z"])
    assert made == ("x", Pair("y", ((), "z")))
    assert isinstance(made[1], Pair)
    assert trees.like((), []) == ()


@pytest.mark.parametrize(
    ("shapes", "width"),
    [
        ([], 0),
        ([(4,)], 4),
        ([(4,), (1,)], 5),
        ([(2, 3), (), (5,)], 12),
        ([(0,), (2,)], 2),
    ],
)
def test_pack_and_unpack_are_inverse(shapes, width):
    tree = tuple(t(*shape) for shape in shapes)
    packing = trees.Packing(((), tree))
    assert packing.width == width
    rows = t(3, width)
    unpacked = packing.unpack(rows)
    assert unpacked[0] == ()
    for part, shape in zip(unpacked[1], shapes, strict=True):
        assert part.shape == (3, *shape)
    assert torch.equal(packing.pack(unpacked, 3), rows)
    one = packing.pack(((), tree), 1)
    assert one.shape == (1, width)
    for part, leaf in zip(packing.unpack(one)[1], tree, strict=True):
        assert torch.equal(part[0], leaf)


def test_rows_hold_the_leaves_one_after_another():
    packing = trees.Packing((torch.zeros(2), torch.zeros(1)))
    rows = packing.pack(
        (torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[5.0], [6]])), 2
    )
    assert rows.tolist() == [[1, 2, 5], [3, 4, 6]]


def test_unpacked_leaves_are_views():
    packing = trees.Packing((torch.zeros(2), torch.zeros(3)))
    rows = torch.zeros(4, 5)
    packing.unpack(rows)[1][:] = 1
    assert rows.sum() == 12


def test_first_takes_the_client_axis_away():
    tree = (torch.tensor([[1, 2]]), Pair(torch.tensor(3), torch.tensor([4])))
    a, (b, c) = trees.first(tree)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([1, 2], 3, 4)


def test_kept_copies_what_will_be_used_again():
    a, b = t(2), t(2)
    b.is_reused = True
    kept = trees.kept((a, (b,)))
    assert kept[0] is a and kept[1][0] is not b
    assert torch.equal(kept[1][0], b) and not hasattr(kept[1][0], "is_reused")
