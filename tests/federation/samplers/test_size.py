import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from troth.federation.samplers.size import size as by_size

ALPHA = 1e-6  # how often a correct sampler fails, over the choice of the seed
SIZES = [1, 2, 3, 4, 10, 20]
EIGHT = [1, 2, 3, 4, 10, 20, 50, 7]


def law(size, cohort):
    """Drawn one after another, in proportion to size among those not yet drawn."""
    chances: dict[tuple[int, ...], float] = Counter()
    for order in itertools.permutations(range(len(size)), cohort):
        left, chance = float(size.sum()), 1.0
        for k in order:
            chance, left = chance * size[k] / left, left - size[k]
        chances[tuple(sorted(order))] += chance
    return chances


@pytest.mark.parametrize(
    ("sizes", "cohort", "present"),
    [  # at most half: drawn again and again; more, or too rare: by a race
        (SIZES, 2, None),
        (SIZES, 3, None),
        (SIZES, 5, None),
        ([1, 2, 1, 1, 2, 300], 3, None),
        (EIGHT, 2, [0, 2, 3, 4, 5]),
        (EIGHT, 3, [1, 2, 4, 6, 7]),
        (EIGHT, 6, [0, 1, 2, 3, 4, 5, 7]),
        ([1, 2, 1, 1, 2, 300, 5, 5], 3, [0, 1, 2, 4, 5]),
        ([1, 2, 3, 4, 10**7, 10**7, 10**7, 3], 2, [0, 1, 2, 3, 7]),
    ],
)
def test_clients_are_drawn_one_after_another(sizes, cohort, present):
    """Among those that are there; distinct and ascending."""
    size, there = np.array(sizes), None
    rounds, here = 2_000, [*range(len(size))]
    if present:
        rounds, here = 1_000, present
        there = lambda r, ids: np.isin(ids, present)  # noqa: E731
    draw = by_size(2, cohort, size, there)
    found = Counter(tuple(draw(r).tolist()) for r in range(rounds))
    inside = law(size[here], cohort)
    expected = {tuple(here[k] for k in s): p for s, p in inside.items()}
    assert set(found) <= set(expected)
    table = np.array([(rounds * expected[s], found[s]) for s in expected])
    table = table[table[:, 0].argsort()]
    rare = max(1, int((table[:, 0].cumsum() < 10).sum()))  # these are one cell
    cells = np.add.reduceat(table, [0, *range(rare + 1, len(table))])
    assert cells[:, 0].min() > 5
    assert stats.chisquare(cells[:, 1], cells[:, 0]).pvalue > ALPHA


@pytest.mark.parametrize("cohort", [5, 60])
def test_one_client_with_nearly_all_data(cohort):
    size: Any = np.array([10**9] + [1] * 99)
    drawn = by_size(0, cohort, size)(0)
    assert len(set(drawn.tolist())) == cohort and drawn[0] == 0
