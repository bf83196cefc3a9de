"""`troth.aggregate`: a matrix in, a vector out, by the name of a rule."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import troth

UPDATES = torch.tensor([[0.0], [1.0], [2.0], [3.0], [100.0], [-7.0], [4.0]])


def test_by_name_and_options() -> None:
    assert troth.aggregate("median", UPDATES).item() == 2.0
    assert troth.aggregate("trimmed_mean", UPDATES, f=1).item() == 2.0
    assert troth.aggregate("krum", UPDATES, f=2).item() == 1.0  # ties with 2 and 3


def test_losses_and_sizes_are_given_beside() -> None:
    loss = torch.arange(7.0)
    assert troth.aggregate("k_loss", UPDATES, loss=loss, f=2).item() == 100.0
    size = torch.tensor([1, 0, 0, 3, 0, 0, 0])
    assert troth.aggregate("weighted_mean", UPDATES, size=size).item() == 2.25


def test_rules_that_remember_start_anew() -> None:
    twice = [troth.aggregate("centered_clipping", UPDATES, tau=1.0) for _ in "ab"]
    assert torch.equal(*twice)


def test_a_rule_of_the_loss_asks_for_it() -> None:
    with pytest.raises(troth.Refusal, match="'term' reads the clients' losses; give"):
        troth.aggregate("term", UPDATES)


@pytest.mark.parametrize("field", ["loss", "size"])
def test_a_value_a_row(field: str) -> None:
    with pytest.raises(troth.Refusal, match=rf"{field} of shape \[2\] .* 7 updates"):
        troth.aggregate("mean", UPDATES, **{field: torch.ones(2)})


def test_f_has_to_be_said() -> None:
    with pytest.raises(troth.Refusal, match="krum's f = 'auto' .* such as f = 2"):
        troth.aggregate("krum", UPDATES)


@pytest.mark.parametrize("rows", [torch.ones(3), torch.ones(0, 2)])
def test_no_matrix_is_refused(rows: torch.Tensor) -> None:
    with pytest.raises(troth.Refusal, match="no matrix"):
        troth.aggregate("mean", rows)


@pytest.mark.parametrize(
    ("given", "kind"),
    [(UPDATES.long(), "torch.int64"), (UPDATES.numpy(), "ndarray"), ([[1.0]], "list")],
)
def test_what_holds_no_floating_point_numbers_is_refused(given: Any, kind: str) -> None:
    with pytest.raises(troth.Refusal, match=f"updates are {kind}; they must be a ten"):
        troth.aggregate("median", given)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(troth.Refusal, match="has no option 'trim'"):
        troth.aggregate("trimmed_mean", UPDATES, trim=1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    rows = torch.ones(3, 2)
    rows[1, 0] = value
    with pytest.raises(troth.Refusal, match=r"in row 1 \(1 of 3 rows\)"):
        troth.aggregate("krum", rows, f=0)


def test_lists_do_for_losses_and_sizes() -> None:
    rows = torch.tensor([[0.0], [3.0]])
    assert troth.aggregate("weighted_mean", rows, size=[1, 2]).item() == 2.0
    assert troth.aggregate("term", rows, loss=[1.0, 1.0]).item() == 1.5
