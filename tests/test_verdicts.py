from __future__ import annotations

import torch

from troth.verdicts import Verdicts, silent


def test_rows_are_told_by_client() -> None:
    verdicts = Verdicts()
    note = verdicts.of(torch.tensor([7, 3, 9]))
    note(chosen=torch.tensor([True, False, True]))
    note(clipped=torch.tensor([False, False, False]))
    assert verdicts.clients == {"chosen": {7, 9}, "clipped": set()}


def test_down_weighted_is_below_an_equal_share() -> None:
    verdicts = Verdicts()
    third = torch.full((3,), 1 / 3)
    verdicts.of(torch.arange(3))(weight=third)
    assert verdicts.clients == {"downweighted": set()}  # rounding is no verdict
    verdicts.of(torch.arange(3))(weight=torch.tensor([0.3, 0.3, 0.4]))
    assert verdicts.clients == {"downweighted": {0, 1}}


def test_several_rules_say_the_same_of_a_client_once() -> None:
    verdicts = Verdicts()
    verdicts.of(torch.tensor([1, 2]))(clipped=torch.tensor([True, True]))
    verdicts.of(torch.tensor([2, 5]))(clipped=torch.tensor([True, True]))
    assert verdicts.clients == {"clipped": {1, 2, 5}}


def test_nobody_has_to_listen() -> None:
    silent(chosen=torch.ones(2, dtype=torch.bool))
