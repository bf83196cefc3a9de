import re

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from troth.data import labels


def test_what_is_soft_and_back():
    assert labels.soft(torch.ones(3, 2))
    for y in (torch.ones(3), torch.ones(3, 2).long(), torch.arange(3)):
        assert not labels.soft(y)  # targets, several labels, labels
    y = torch.tensor([2, 0, 1])
    rows = labels.shares(y, 4, torch.float64)
    assert rows.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert labels.likely(rows).tolist() == [2, 0, 1]
    assert labels.likely(y) is y and labels.shares(rows, 4, torch.float64) is rows
    assert labels.shares(y[:0], 4, torch.float32).shape == (0, 4)
    assert labels.likely(torch.tensor([[0.2, 0.5, 0.3]])).tolist() == [1]


def test_what_is_right():
    y = torch.tensor([1, 0, 1])
    outputs = torch.tensor([[0.0, 1.0], [0.0, 1.0], [torch.inf, torch.nan]])
    assert labels.right(outputs, y).tolist() == [1, 0, 0]
    rows = labels.shares(y, 2, torch.float32)
    assert labels.right(outputs, rows).tolist() == [1, 0, 0]
    margin = torch.tensor([[0.5], [-0.5], [0.0]])
    assert labels.right(margin, y).tolist() == [1, 1, 0]  # class 1 only when > 0
    several = torch.tensor([[1, 0], [1, 1], [0, 0]])
    said = torch.tensor([[2.0, -1.0], [2.0, -1.0], [torch.nan, -1.0]])
    assert labels.right(said, several).tolist() == [1, 0.5, 0]
    assert labels.right(outputs[:0], y[:0]).shape == (0,)


@given(st.integers(1, 30), st.integers(2, 2000), st.sampled_from([np.float32, float]))
def test_what_is_normalized_in_either_precision_is_good(m, classes, kind):
    p = np.random.default_rng(m).random((m, classes)).astype(kind)
    assert labels.wrong(torch.from_numpy(p / p.sum(axis=1, keepdims=True))) == ""


def test_why_not():
    for row, words in (
        ([0.5, 0.6], r"row 1 adds up to 1.1 \(1 of 2 rows\)"),
        ([1.5, -0.5], "row 1 holds a share that is negative, NaN or infinite"),
        ([float("nan"), 1.0], "row 1 holds a share"),
    ):
        assert re.match(words, labels.wrong(torch.tensor([[0.25, 0.75], row])))
