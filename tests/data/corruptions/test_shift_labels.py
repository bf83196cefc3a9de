import pytest
import torch

from troth.data.corruptions.shift_labels import shift_labels
from troth.types import Refusal

X = torch.zeros(4, 1)


def test_by_hand():
    for offset, expected in (
        (1, [1, 2, 0, 1]),
        (2, [2, 0, 1, 2]),
        (-1, [2, 0, 1, 2]),
        (4, [1, 2, 0, 1]),
        (10**18 + 1, [2, 0, 1, 2]),
    ):
        y = torch.tensor([0, 1, 2, 0])
        x, found = shift_labels(X, y, 3, offset=offset)
        assert x is X and found.tolist() == expected and y.tolist() == [0, 1, 2, 0]


def test_no_label_stays_and_several_are_rolled():
    classes = 10
    found = y = torch.arange(500) % classes
    for _ in range(classes):
        moved = shift_labels(X, found, classes)[1]
        assert bool((moved != found).all())
        found = moved
    assert torch.equal(found, y)
    y = torch.tensor([[1, 0, 0], [1, 1, 0]])
    assert shift_labels(X, y, 3)[1].tolist() == [[0, 1, 0], [0, 1, 1]]
    assert shift_labels(X, y, 3, offset=-1)[1].tolist() == [[0, 0, 1], [1, 0, 1]]


def test_refuses_what_changes_nothing():
    for offset, classes in ((0, 3), (3, 3), (-20, 10), (1, 1)):
        words = rf"corruption\.offset = {offset} changes nothing with {classes} classes"
        with pytest.raises(Refusal, match=words):
            shift_labels(X, torch.zeros(4, dtype=torch.long), classes, offset=offset)
