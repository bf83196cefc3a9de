from __future__ import annotations

import pytest
import torch

from troth import lookup
from troth.data.corruptions.auto import auto
from troth.data.corruptions.random_labels import random_labels
from troth.types import Refusal

KEY = torch.tensor(123)
X = torch.zeros(50, 2)


def test_two_classes_are_flipped() -> None:
    y = torch.arange(50) % 2
    x, found = auto(X, y, 2, KEY)
    assert x is X and torch.equal(found, 1 - y)
    assert torch.equal(auto(X, y, 2, KEY + 1)[1], found)  # nothing is drawn


@pytest.mark.parametrize("classes", [3, 10])
def test_more_are_drawn(classes: int) -> None:
    y = torch.arange(50) % classes
    x, found = auto(X, y, classes, KEY)
    assert x is X and torch.equal(found, random_labels(X, y, classes, KEY)[1])
    assert not torch.equal(auto(X, y, classes, KEY + 1)[1], found)


def test_two_labels_that_an_example_may_have_are_drawn() -> None:
    y = torch.stack([torch.arange(50) % 2, torch.ones(50, dtype=torch.long)], 1)
    assert torch.equal(auto(X, y, 2, KEY)[1], random_labels(X, y, 2, KEY)[1])


def test_refuses_regression() -> None:
    with pytest.raises(Refusal, match="regression; set corruption.name to another one"):
        auto(X, torch.zeros(50), 0, KEY)


def test_options_and_reference() -> None:
    assert lookup.check("corruption", "auto", {}) == {}
    (entry,) = lookup.about("corruption", "auto").citations
    assert entry.startswith("@inproceedings{li2021ditto")
