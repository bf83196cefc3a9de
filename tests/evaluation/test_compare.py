import numpy as np
import pytest
from scipy import stats

from troth.runs.compare import Pair, by_seed, interval, paired, pairs
from troth.types import Refusal


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


def test_paired_as_scipy_has_it():
    draw = np.random.default_rng(4)
    a, b = draw.random(300), draw.random(300)
    got = paired(a, b)
    assert got.p_value == pytest.approx(stats.wilcoxon(b, a).pvalue)
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high))
    swapped = paired(b, a)
    assert swapped.p_value == pytest.approx(got.p_value)
    assert swapped.mean_difference == pytest.approx(-got.mean_difference)
    assert (swapped.better, swapped.worse) == (got.worse, got.better)


@pytest.mark.parametrize(
    ("a", "b", "up", "counts"),
    [
        ([1.0, 1.0, 1.0], [0.5, 2.0, 0.0], False, (2, 1, 0, 3)),  # lower may be better
        ([0.0, np.nan, 0.0, 1.0], [1.0, 5.0, np.nan, 1.0], True, (1, 0, 1, 2)),
        ([1.0] * 20, [1.0] * 20, True, (0, 0, 20, 20)),
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
    assert got[4:] == (0, 0, 0, 0)


def test_one_client_shows_nothing():
    got = paired(np.array([0.25]), np.array([0.5]))
    assert got.mean_difference == 0.25
    assert np.isnan([got.low, got.high]).all()
    assert got.p_value == 1.0


def test_rounding_does_not_break_ties():
    # 0.3 − 0.2 and 0.2 − 0.1 differ in the last bit; they are the same tenth
    a = np.array([0.2, 0.1, 0.3, 0.5, 0.1, 0.7, 0.0])
    b = np.array([0.3, 0.2, 0.4, 0.4, 0.3, 0.9, 0.1])
    tenths = np.array([1, 1, 1, -1, 2, 2, 1])
    assert paired(a, b).p_value == pytest.approx(stats.wilcoxon(tenths).pvalue)


def test_infinite_losses_can_be_ranked():
    a = np.array([1.0, 1.0, np.inf, 2.0, 3.0])
    b = np.array([np.inf, 2.0, np.inf, 4.0, 6.0])
    got = paired(a, b, higher_is_better=False)
    assert (got.better, got.worse, got.equal) == (0, 4, 1)
    assert got.p_value == pytest.approx(2 / 16)
    assert got.mean_difference == np.inf


def test_refuses_other_clients():
    with pytest.raises(Refusal, match="same clients"):
        paired(np.zeros(3), np.zeros(4))


def run(seed, accuracy=0.0, **settings):
    dotted = {k.replace("__", "."): v for k, v in settings.items()}
    summary = {"personal": {"accuracy_mean": accuracy, "accuracy_deciles": [0, 1]}}
    return {"seed": seed, "train.lr": 0.1, **dotted}, summary


def test_seeds_are_gathered_by_hand():
    every = [(0, 1.0, 0.1), (0, 5.0, 1.0), (1, 2.0, 0.1), (2, 3.0, 0.1)]
    runs = [run(seed, value, personalizer__lam=lam) for seed, value, lam in every]
    first, second = by_seed(runs)
    assert first.settings == {"train.lr": 0.1, "personalizer.lam": 0.1}
    assert (first.seeds, first.runs) == ([0, 1, 2], [0, 2, 3])
    assert first.numbers == {"personal.accuracy_mean": interval([1.0, 2.0, 3.0])}
    assert second.seeds == [0]
    assert second.numbers["personal.accuracy_mean"][0] == 5.0
    assert by_seed([]) == []
    (group,) = by_seed([run(0, 1.0), run(0, 1.0), run(1, 3.0)])  # twice counts once
    assert group.runs == [0, 2]
    assert group.numbers["personal.accuracy_mean"] == interval([1.0, 3.0])


def test_only_numbers_that_all_have():
    summaries = [
        {"a": 1, "b": 2.0, "text": "x", "flag": True, "c": 1.0},
        {"a": 3, "b": None, "text": "y", "flag": True},
    ]
    (group,) = by_seed([({"seed": i}, s) for i, s in enumerate(summaries)])
    assert group.numbers.keys() == {"a", "b"}
    assert group.numbers["a"] == interval([1, 3])
    assert np.isnan(group.numbers["b"]).all()


def test_pairs_by_hand():
    grid = [run(s, personalizer__lam=lam) for lam in (0.1, 1.0, 2.0) for s in (0, 1)]
    wanted = [(0, 2), (1, 3), (0, 4), (1, 5)]
    assert pairs(grid) == [Pair("personalizer.lam", *two) for two in wanted]


def test_two_differences_are_no_pair():
    runs = [run(0, model__name="cnn", a=[1]), run(0, model__name="linear", a=[2])]
    assert pairs(runs) == []
    crossed = [*runs, run(0, model__name="cnn", a=[2])]
    assert pairs(crossed) == [Pair("a", 0, 2), Pair("model.name", 1, 2)]


def test_seeds_and_repeated_runs_are_no_pair():
    assert pairs([run(0), run(1), run(0)]) == []
    assert pairs([]) == []
    lam = [run(0, lam=1.0), run(0, lam=2.0), run(0, lam=1.0)]
    assert pairs(lam) == [Pair("lam", 0, 1)]


def test_options_go_with_the_name_of_their_part():
    ditto = {"personalizer__name": "ditto", "personalizer__lam": 1.0}
    local = {"personalizer__name": "local"}
    name = "personalizer.name"
    assert pairs([run(0, **ditto), run(0, **local)]) == [Pair(name, 0, 1)]
    # an option that both have and set differently is a second difference
    own = [run(0, **ditto, personalizer__lr=1), run(0, **local, personalizer__lr=2)]
    assert pairs(own) == []
    # and so is anything of another part
    assert pairs([run(0, **ditto), run(0, **local, model__name="cnn")]) == []
    assert pairs([run(0, **ditto), run(1, **local)]) == []
    # a part that only one of them has
    attack = {"attack__name": "scale", "attack__by": 2}
    assert pairs([run(0), run(0, **attack)]) == [Pair("attack.name", 0, 1)]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("none local ditto", [(0, 1), (0, 2), (1, 2)]),
        ("none ditto local", [(0, 1), (0, 2), (1, 2)]),
        ("local ditto apfl", [(0, 1), (0, 2)]),
        ("none ditto apfl", [(0, 1), (0, 2)]),
    ],
)
def test_training_alone_is_what_every_personalizer_is_beside(names, wanted):
    """As in the quickstart: own − shared, own − local, local − shared."""
    found = pairs([run(0, personalizer__name=each) for each in names.split()])
    assert found == [Pair("personalizer.name", *two) for two in wanted]
    crossed = [
        run(0, personalizer__name=each, aggregator__name=rule)
        for rule in ("mean", "median")
        for each in names.split()
    ]
    by_rule = [p for p in pairs(crossed) if p.setting == "personalizer.name"]
    both = wanted + [(a + 3, b + 3) for a, b in wanted]
    assert by_rule == [Pair("personalizer.name", *two) for two in both]
