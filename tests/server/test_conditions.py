"""How many hostile rows: as given, from the adversary's share, and whether it holds."""

from __future__ import annotations

import pytest

from troth.server import rules
from troth.types import Refusal


def test_a_number_is_itself() -> None:
    assert rules.number("krum", 3) == 3
    assert rules.number("krum", 0) == 0


def test_auto_needs_an_experiment_unless_it_makes_no_difference() -> None:
    with pytest.raises(Refusal, match="krum's f = 'auto' .* such as f = 2"):
        rules.number("krum", "auto")
    assert rules.number("median", "auto", otherwise=0) == 0


def test_below_zero_is_refused() -> None:
    with pytest.raises(Refusal, match="krum's f = -1 must be at least 0, or 'auto'"):
        rules.number("krum", -1)


def test_a_condition_gives_both_numbers() -> None:
    law = (8, 3, 9, "n ≥ 2f + 3")
    with pytest.raises(
        Refusal, match=r"f = 3 holds for n ≥ 2f \+ 3 = 9, and n is 8; .*strict = false"
    ):
        rules.enough("krum", *law, strict=True)
    rules.enough("krum", *law, strict=False)
    rules.enough("krum", 9, 3, 9, "n ≥ 2f + 3", strict=True)


def test_without_hostile_rows_nothing_is_asked() -> None:
    rules.enough("krum", 1, 0, 3, "n ≥ 2f + 3", strict=True)


@pytest.mark.parametrize(
    ("cohort", "hostile", "clients", "f"),
    [
        (10, 100, 500, 2),  # Ditto's Fashion-MNIST at 20 %
        (10, 250, 500, 5),
        (10, 3, 23, 1),  # 10 % of Vehicle's 23, rounded up, so that it is not 0
        (10, 2, 23, 0),
        (10, 11, 23, 4),
        (10, 19, 23, 8),
        (7, 0, 9, 0),
        (9, 3, 9, 3),
    ],
)
def test_the_share_of_a_cohort_is_rounded_down(
    cohort: int, hostile: int, clients: int, f: int
) -> None:
    """As `int(clients_per_round * num_corrupted / N)` in the authors' code."""
    assert rules.share(cohort, hostile, clients) == f
    assert int(cohort * hostile / clients) == f
