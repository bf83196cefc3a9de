from __future__ import annotations

from typing import Any

import pytest
import torch

from troth.server.verdicts import Verdicts, silent
from troth.types import Refusal


def test_rows_are_told_by_client() -> None:
    verdicts = Verdicts()
    note = verdicts.of(torch.tensor([7, 3, 9]))
    note(chosen=torch.tensor([True, False, True]))
    note(clipped=torch.tensor([False, False, False]))
    assert verdicts.clients() == {"chosen": {7, 9}, "clipped": set()}


def test_down_weighted_is_below_an_equal_share() -> None:
    verdicts = Verdicts()
    third = torch.full((3,), 1 / 3)
    verdicts.of(torch.arange(3))(weight=third)
    assert verdicts.clients() == {"downweighted": set()}  # rounding is no verdict
    verdicts.of(torch.arange(3))(weight=torch.tensor([0.3, 0.3, 0.4]))
    assert verdicts.clients() == {"downweighted": {0, 1}}


def test_several_rules_say_the_same_of_a_client_once() -> None:
    verdicts = Verdicts()
    verdicts.of(torch.tensor([1, 2]))(clipped=torch.tensor([True, True]))
    verdicts.of(torch.tensor([2, 5]))(clipped=torch.tensor([True, True]))
    assert verdicts.clients() == {"clipped": {1, 2, 5}}


def test_what_is_said_of_a_merged_row_falls_on_all_that_it_holds() -> None:
    verdicts = Verdicts()
    note = verdicts.of(torch.tensor([7, 3, 9, 4, 5]))
    note(into=torch.tensor([3, 3, 4, 4, 5]))
    verdicts.of(torch.tensor([3, 4, 5]))(chosen=torch.tensor([True, False, True]))
    assert verdicts.clients() == {"chosen": {3, 5, 7}}
    again = verdicts.of(torch.tensor([3, 4, 5]))  # groups of groups
    again(into=torch.tensor([3, 3, 5]))
    verdicts.of(torch.tensor([3, 5]))(weight=torch.tensor([0.1, 0.9]))
    assert verdicts.clients()["downweighted"] == {3, 4, 7, 9}


def test_a_rule_may_go_on_with_its_mask() -> None:
    """What is noted is read after all rules; columns may share a rule's buffer."""
    verdicts, buffer = Verdicts(), torch.tensor([True, False])
    verdicts.of(torch.tensor([4, 6]))(chosen=buffer)
    buffer.logical_not_()
    verdicts.of(torch.tensor([4, 6]))(clipped=buffer)
    buffer.fill_(True)
    assert verdicts.clients() == {"chosen": {4}, "clipped": {6}}


def test_nobody_has_to_listen() -> None:
    silent(chosen=torch.ones(2, dtype=torch.bool))


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("banana", torch.ones(3), "notes 'banana' of shape .3. for 3 rows"),
        ("cohort", torch.ones(3), "it may note clipped, chosen, weight, into"),
        ("chosen", torch.ones(2, dtype=torch.bool), "of shape .2. for 3 rows"),
        ("chosen", [True] * 3, "of shape list"),
        ("chosen", torch.tensor([2, 0, 1]), "'chosen' as torch.int64; it is a mask"),
        ("clipped", torch.ones(3), "'clipped' as torch.float32; it is a mask"),
    ],
)
def test_what_is_no_verdict_is_refused(name: str, rows: Any, words: str) -> None:
    """Lest a stranger's rule write over what a round records."""
    with pytest.raises(Refusal, match=words):
        Verdicts().of(torch.arange(3))(**{name: rows})
