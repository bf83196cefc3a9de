from typing import Any, NamedTuple

import torch

from troth.networks import flat as trees


class Pair(NamedTuple):
    a: Any
    b: Any


def t(*shape):
    return torch.randn(shape)


def test_leaves_come_in_order_from_any_nesting_and_go_back():
    a, b, c = t(2), t(3), t(4)
    tree = a, (), Pair(b, [c])
    assert all(x is y for x, y in zip(trees.leaves(tree), (a, b, c), strict=True))
    assert trees.leaves(a) == [a] and trees.leaves(()) == []
    made = trees.like((a, Pair(b, ((), c))), ["x", "y", "z"])
    assert made == ("x", Pair("y", ((), "z"))) and isinstance(made[1], Pair)
    assert trees.like((), []) == ()


def test_pack_and_unpack_are_inverse():
    for shapes, width in (
        ([], 0),
        ([(4,)], 4),
        ([(4,), (1,)], 5),
        ([(2, 3), (), (5,)], 12),
        ([(0,), (2,)], 2),
    ):
        tree = tuple(t(*shape) for shape in shapes)
        packing = trees.Packing(((), tree))
        assert packing.width == width
        rows = t(3, width)
        nothing, unpacked = packing.unpack(rows)
        assert nothing == () and [p.shape for p in unpacked] == [
            (3, *s) for s in shapes
        ]
        assert torch.equal(packing.pack((nothing, unpacked), 3), rows)
        one = packing.pack(((), tree), 1)
        assert one.shape == (1, width)
        pairs = zip(packing.unpack(one)[1], tree, strict=True)
        assert all(torch.equal(part[0], leaf) for part, leaf in pairs)


def test_rows_hold_the_leaves_one_after_another():
    packing = trees.Packing((torch.zeros(2), torch.zeros(1)))
    tree = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[5.0], [6]])
    rows = packing.pack(tree, 2)
    assert rows.tolist() == [[1, 2, 5], [3, 4, 6]]
    packing.unpack(rows)[1][:] = 0  # a view
    assert rows.tolist() == [[1, 2, 0], [3, 4, 0]]


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
