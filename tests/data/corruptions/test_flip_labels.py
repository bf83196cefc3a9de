import torch

from troth.data.corruptions.flip_labels import flip_labels

X = torch.zeros(4, 1)


def test_by_hand():
    for y, classes, expected in (
        ([0, 1, 1, 0], 2, [1, 0, 0, 1]),
        ([0, 1, 2, 0], 3, [2, 1, 0, 2]),  # the middle of three stays
        ([0, 9, 4, 5], 10, [9, 0, 5, 4]),
        ([0, 0, 0, 0], 1, [0, 0, 0, 0]),
    ):
        x, found = flip_labels(X, torch.tensor(y), classes)
        assert x is X and found.tolist() == expected


def test_several_labels_and_targets():
    y = torch.tensor([[1, 0, 0], [1, 1, 1]])
    assert flip_labels(X, y, 3)[1].tolist() == [[0, 1, 1], [0, 0, 0]]
    pairs = torch.tensor([[1, 0], [0, 0]])
    assert flip_labels(X, pairs, 2)[1].tolist() == [[0, 1], [1, 1]]
    y = torch.tensor([1.5, -2.0, 0.0], dtype=torch.float64)
    found = flip_labels(X, y, 0)[1]
    assert found.tolist() == [-1.5, 2.0, 0.0] and found.dtype == y.dtype
