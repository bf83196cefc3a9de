import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from troth.evaluation.paired import holm, interval, paired
from troth.reproduce.store import Store
from troth.types import Refusal

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize(
    ("values", "mean", "half"),
    [
        # s² = 1, n = 3, t_{0.975, 2} = 4.302653
        ([1.0, 2.0, 3.0], 2.0, 4.302652729911275 / np.sqrt(3)),
        ([0.5], 0.5, np.nan),
        ([], np.nan, np.nan),
        ([1.0, np.nan], np.nan, np.nan),
        ([1.0, np.inf], np.inf, np.nan),
        ([2.0, 2.0], 2.0, 0.0),
    ],
)
def test_interval_by_hand(values, mean, half):
    assert interval(values) == pytest.approx((mean, half), nan_ok=True)


def test_interval_covers_the_truth():
    # 2000 intervals of 5 seeds: within 5 standard deviations of 95 %, P(fail) < 1e-6
    draws = np.random.default_rng(0).normal(size=(2000, 5))
    hits = sum(abs(mean) <= half for mean, half in map(interval, draws))
    assert abs(hits / 2000 - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 2000)


def test_one_seed_is_the_paired_t_test_over_clients():
    draw = np.random.default_rng(4)
    a, b = draw.random(300), draw.random(300)
    got, expected = paired(a, b), stats.ttest_rel(b, a)
    assert got.p_value == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((ends.low, ends.high))
    assert got.seeds == 1
    swapped = paired(b, a)
    assert swapped.p_value == pytest.approx(got.p_value)
    assert swapped.mean_difference == pytest.approx(-got.mean_difference)
    assert (swapped.better, swapped.worse) == (got.worse, got.better)


def test_several_seeds_by_hand():
    """Seed means 2, 4, 3 have variance 1; client means 2, 4 have variance 2.

    V_S = 1/3 with t_2 = 4.302653, V_C = 2/2 with t_1 = 12.706205.
    """
    b = np.array([[1.0, 3.0], [3.0, 5.0], [2.0, 4.0]])
    got = paired(np.zeros((3, 2)), b)
    half = np.sqrt(4.302652729911275**2 / 3 + 12.706204736174694**2)
    assert got.mean_difference == 3 and (got.n, got.seeds) == (2, 3)
    assert (got.low, got.high) == pytest.approx((3 - half, 3 + half))
    t2, t1 = (stats.t.isf(got.p_value / 2, f) for f in (2, 1))
    assert np.sqrt(t2**2 / 3 + t1**2) == pytest.approx(3)
    one = paired(np.zeros((3, 1)), b[:, :1])  # one client: over seeds alone
    expected = stats.ttest_1samp(b[:, 0], 0).pvalue
    assert one.p_value == pytest.approx(expected)


def test_three_clients_that_all_gain_a_lot_decide():
    """0.009 against 0.899: no signed-rank test of 3 clients can go below 0.25."""
    got = paired(np.array([0.0, 0.01, 0.017]), np.array([0.88, 0.90, 0.917]))
    assert got.p_value < 0.001 and got.low > 0.8


def test_clients_that_are_malicious_under_some_seeds_count_under_the_others():
    b = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 5.0]])
    got = paired(np.zeros((2, 3)), b)
    assert got.mean_difference == (2 + 3.5) / 2 and (got.n, got.better) == (3, 3)
    failed = paired(np.zeros((2, 2)), np.array([[1.0, 2.0], [np.nan, np.nan]]))
    assert failed.seeds == 1


@pytest.mark.parametrize(
    ("a", "b", "up", "counts"),
    [
        ([1.0, 1.0, 1.0], [0.5, 2.0, 0.0], False, (2, 1, 0, 3, 1)),  # lower is better
        ([0.0, np.nan, 0.0, 1.0], [1.0, 5.0, np.nan, 1.0], True, (1, 0, 1, 2, 1)),
        ([1.0] * 20, [1.0] * 20, True, (0, 0, 20, 20, 1)),
    ],
)
def test_better_worse_equal_and_all(a, b, up, counts):
    """Clients with one value only are left out."""
    got = paired(np.array(a), np.array(b), up)
    assert got[4:] == counts
    if counts[2] == len(a):  # no difference at all
        assert got[:4] == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("missing", [0, 2])
def test_nothing_to_compare(missing):
    got = paired(np.full(missing, np.nan), np.zeros(missing))
    assert np.isnan(got[:4]).all()
    assert got[4:] == (0, 0, 0, 0, 0)


def test_one_client_shows_nothing():
    got = paired(np.array([0.25]), np.array([0.5]))
    assert got.mean_difference == 0.25
    assert np.isnan([got.low, got.high]).all()
    assert got.p_value == 1.0


def test_differences_without_variance_and_infinite_losses_have_a_sign_test():
    same = paired(np.zeros(4), np.full(4, 0.5))
    assert same.p_value == pytest.approx(2 / 16)
    assert paired(np.zeros((3, 9)), np.full((3, 9), 0.5)).p_value == 2 / 8  # seeds
    a = np.array([1.0, 1.0, np.inf, 2.0, 3.0])
    b = np.array([np.inf, 2.0, np.inf, 4.0, 6.0])
    got = paired(a, b, higher_is_better=False)
    assert (got.better, got.worse, got.equal) == (0, 4, 1)
    assert got.p_value == pytest.approx(2 / 16)
    assert got.mean_difference == np.inf


def test_tiny_p_values_are_not_an_error():
    random = np.random.default_rng(0).normal(size=10_000)
    assert paired(np.zeros(10_000), 1 + 1e-3 * random).p_value == 0


def test_refuses_other_clients():
    with pytest.raises(Refusal, match="same clients"):
        paired(np.zeros(3), np.zeros(4))


def test_holm():
    p = np.random.default_rng(0).uniform(0, 0.2, 20)
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])
    with_nan = [0.04, np.nan, 0.02]
    assert holm([0.04, np.nan, 0.01]) == pytest.approx(with_nan, nan_ok=True)
    assert holm([]) == []


@pytest.mark.parametrize(("seed", "client"), [(0, 1), (1, 0), (1, 1), (0.1, 1), (0, 0)])
@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_equal_methods_are_called_different_in_at_most_one_of_twenty(
    seed, client, seeds
):
    """The guarantee, plus four standard deviations: P(fail) < 1e-4 in each case."""
    random, hits = np.random.default_rng(0), 0
    for _ in range(500):
        effects = seed * random.normal(size=(seeds, 1)) + client * random.normal(size=8)
        noise = effects + random.normal(size=(seeds, 8))
        hits += paired(np.zeros((seeds, 8)), noise).p_value < 0.05
    assert hits / 500 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 500)


def same_method():
    """Collect benign accuracies: data set → cells → one row per seed.

    A cell is a set of committed records that differ in nothing but the seed.
    """
    found = defaultdict(dict)
    for home in ("reproduce", "solvers", "tension", "personalizers"):
        for name, record in Store(EXPERIMENTS / home).records().items():
            if not isinstance(record.get("accuracy"), list):
                continue
            aside = ("seed", "name", "engine", "resolved")
            experiment = record.get("experiment") or record["changes"]
            rest = {k: v for k, v in experiment.items() if k not in aside}
            data = f"{home}/{name.split('/')[0]}"
            cell = json.dumps([record.get("label"), record.get("f"), rest])
            values = np.array(record["accuracy"], dtype=float)
            values[np.array(record["malicious"]) == 1] = np.nan
            seed = experiment.get("seed", record.get("seed"))
            found[data, len(values)].setdefault(cell, {})[seed] = values
    several = {
        data: [[*cell.values()] for cell in cells.values() if len(cell) > 1]
        for data, cells in found.items()
    }
    return {data: cells for data, cells in several.items() if len(cells) >= 8}


@pytest.mark.slow("reads all committed records")
def test_seeds_of_the_same_method_are_rarely_called_different():
    """At most 6 %, in every data set, on pairs of seeds of one method each.

    In every pseudo-experiment, the rows are differences of two seeds of the same cell,
    in random order. The rows come from different cells, since no cell has enough seeds.
    The test over the clients of one seed is wrong in up to a third of the cases.
    """
    random, alone, rates = np.random.default_rng(0), {}, {}

    def differences(cells):
        for cell in cells:
            one, two = random.choice(len(cell), 2, replace=False)
            yield cell[two] - cell[one]

    for data, cells in same_method().items():
        zero = np.zeros(len(cells[0][0]))
        single = [paired(zero, d).p_value < 0.05 for d in differences(cells)]
        alone[data] = np.mean(single)
        for seeds in (2, 3, 5):
            hits = 0
            for _ in range(400):
                some = random.choice(len(cells), seeds, replace=False)
                rows = np.array([*differences(cells[i] for i in some)])
                hits += paired(np.zeros_like(rows), rows).p_value < 0.05
            rates[data, seeds] = hits / 400
    assert len(alone) >= 8 and max(alone.values()) > 0.1
    assert max(rates.values()) <= 0.06
    assert np.mean([*rates.values()]) <= 0.02
