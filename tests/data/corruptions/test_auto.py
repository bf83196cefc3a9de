import torch

from troth.data.corruptions.auto import auto
from troth.data.corruptions.random_labels import random_labels

KEY = torch.tensor(123)
X = torch.zeros(50, 2)


def test_two_classes_are_flipped_and_more_are_drawn():
    """Two labels that an example may have both are drawn too."""
    y = torch.arange(50) % 2
    x, found = auto(X, y, 2, KEY)
    assert x is X and torch.equal(found, 1 - y)
    assert torch.equal(auto(X, y, 2, KEY + 1)[1], found)  # nothing is drawn
    both = torch.stack([torch.arange(50) % 2, torch.ones(50, dtype=torch.long)], 1)
    for y, classes in (
        (torch.arange(50) % 3, 3),
        (torch.arange(50) % 10, 10),
        (both, 2),
    ):
        x, found = auto(X, y, classes, KEY)
        assert x is X and torch.equal(found, random_labels(X, y, classes, KEY)[1])
        assert not torch.equal(auto(X, y, classes, KEY + 1)[1], found)
