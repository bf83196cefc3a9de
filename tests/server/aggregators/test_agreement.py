"""Our rules beside those of byzfl 0.0.11, an independent implementation, in float64.

byzfl computes in float64 for numpy arrays alone (tensors become float32), so it gets
arrays. Rows are spread around a common one, widely or hardly at all, and errors count
in units of that spread: 1e-6 of it (1e-4 for the geometric median, which byzfl
approaches slowly). Where byzfl's definition differs, the test says so.
"""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from clients_sent import messages

import troth
from troth.server.attacks.alie import alie
from troth.server.attacks.infinite import infinite
from troth.server.attacks.ipm import ipm
from troth.server.attacks.mimic import mimic
from troth.server.attacks.sign_flip import sign_flip
from troth.server.filters.bucketing import bucketing
from troth.server.filters.clip import clip
from troth.server.filters.nnm import nnm

PEERS = Path(__file__).parents[3] / "benchmarks" / "byzfl_rules.py"


@pytest.fixture(scope="module")
def byzfl():
    found = runpy.run_path(str(PEERS))["byzfl"]()
    if found is None:
        pytest.skip("byzfl is not installed: pip install --no-deps byzfl==0.0.11")
    return found


def case(seed, largest=60):
    """Rows [n, d], f < n/2, and their spread around a common row of normal numbers."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(5, largest + 1))
    d = int(10 ** (7 * seed % 16 * 4 / 15))  # from 1 to 10,000, all lengths evenly
    spread = (1.0, 1e-3, 1e-6, 1e-9)[seed % 4]
    rows = draw.standard_normal(d) + spread * draw.standard_normal((n, d))
    return rows, int(draw.integers(0, (n - 1) // 2 + 1)), spread


FEW = pytest.mark.parametrize("seed", range(8))


def ours(rule, rows, **options):
    kept = torch.from_numpy(rows.copy())
    return np.asarray(troth.aggregate(rule, kept, **options))


def close(found, expected, spread, share=1e-6):
    """To a share of the spread, and 16 roundings of numbers up to 8."""
    atol = share * spread + 16 * 8 * np.finfo(float).eps
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def middle(rows):
    """A radius that clips about half of the rows."""
    return float(np.median(np.linalg.norm(rows, axis=1)))


def with_f(rule, **options):
    return lambda rows, f: ours(rule, rows, f=f, **options)


BYZFL = {"neighbors": "byzfl", "strict": False}
PAIRS = {
    "mean": (lambda x, f: ours("mean", x), lambda b, x, f: b.Average()),
    "median": (lambda x, f: ours("median", x), lambda b, x, f: b.Median()),
    # Ties, of which half is ours, do not come about by chance.
    "meamed": (with_f("meamed"), lambda b, x, f: b.Meamed(f=f)),
    "trimmed_mean": (with_f("trimmed_mean"), lambda b, x, f: b.TrMean(f=f)),
    # byzfl adds up n − f − 1 neighbors, the paper one fewer.
    "krum": (with_f("krum", **BYZFL), lambda b, x, f: b.Krum(f=f)),
    "multi_krum": (with_f("multi_krum", **BYZFL), lambda b, x, f: b.MultiKrum(f=f)),
    # Both start at 0.
    "centered_clipping": (
        lambda x, f: ours("centered_clipping", x, tau=middle(x), iterations=3),
        lambda b, x, f: b.CenteredClipping(L=3, tau=middle(x)),
    ),
    "nnm": (lambda x, f: nnm(messages(x), f=f).update, lambda b, x, f: b.NNM(f=f)),
    "clip": (
        lambda x, f: clip(messages(x), radius=middle(x)).update,
        lambda b, x, f: b.Clipping(c=middle(x)),
    ),
    # Of subsets with the same diameter both take the first in lexical order.
    "mda": (with_f("mda"), lambda b, x, f: b.MDA(f=f)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_ours_is_theirs(byzfl, name):
    """Over sixteen cases and the corners of what is compared; of `krum`, the very row.

    byzfl mixes neighbors, and looks at all subsets, slowly: fewer columns, fewer rows.
    """
    one, other = PAIRS[name]
    cases = [case(seed, 11 if name == "mda" else 60) for seed in range(16)]
    if name in ("median", "trimmed_mean", "krum"):
        for shape in ((5, 1), (5, 10_000), (60, 1), (60, 10_000)):
            cases.append((np.random.default_rng(1).standard_normal(shape), 2, 1.0))
    if name == "mda":
        cases.append((np.random.default_rng(3).standard_normal((15, 50)), 3, 1.0))
    package = byzfl.filters if name in ("nnm", "clip") else byzfl.aggregators
    for rows, f, spread in cases:
        rows = rows[:, :1000] if name == "nnm" else rows
        found, theirs = one(rows, f), other(package, rows, f)(rows.copy())
        close(found, theirs, spread)
        assert name != "krum" or np.array_equal(found, theirs)


def sum_of_distances(rows, z):
    return float(np.linalg.norm(rows - z, axis=1).sum())


@pytest.mark.parametrize("seed", range(16))
def test_geometric_median(byzfl, seed):
    """byzfl's three steps by default are not enough; with 300 it comes close.

    Below ten coordinates the optimum may lie on a row, where Weiszfeld's steps hardly
    move, or (d = 1) anywhere between two: there only the sum of distances compares.
    """
    rows, _, spread = case(seed)
    rows = rows[:, :3000]
    found = ours("geometric_median", rows)
    theirs = byzfl.aggregators.GeometricMedian(nu=1e-9 * spread, T=300)(rows)
    if rows.shape[1] >= 10:
        close(found, theirs, spread, share=1e-4)
    best = sum_of_distances(rows, theirs) * (1 + 1e-9 + 1e-14 / spread)
    assert sum_of_distances(rows, found) <= best


@FEW
@pytest.mark.parametrize("s", [1, 2, 3, 7, 100])
def test_bucketing(byzfl, s, seed, monkeypatch):
    """In the same order of rows, which buckets of one show."""
    rows, _, spread = case(seed)
    order, found = (
        bucketing(messages(rows.copy()), torch.tensor(seed), s=size).update.numpy()
        for size in (1, s)
    )
    assert np.array_equal(rows[np.lexsort(rows.T)], order[np.lexsort(order.T)])
    monkeypatch.setattr(np.random, "permutation", lambda rows: rows)
    whole = len(rows) >= s  # byzfl makes a mean of nothing of larger buckets
    theirs = byzfl.filters.Bucketing(s=s)(order) if whole else order.mean(0)[None]
    close(found, theirs, spread)


@FEW
def test_attacks(byzfl, seed):
    """Three hostile clients in front of the benign ones."""
    rows, _, spread = case(seed)
    sent = messages(np.concatenate([np.zeros((3, rows.shape[1])), rows]))
    hostile = torch.arange(len(sent.client)) < 3
    theirs, k = byzfl.attacks, len(rows)
    # byzfl's ALIE adds τ times the sample's deviation; ours takes off z times that of
    # the population, as the paper's formula does.
    z = -1.5 * math.sqrt(k / (k - 1))
    copied, _ = mimic(sent, hostile, torch.zeros(0), client=5)
    pairs = [
        (sign_flip(sent, hostile, of="benign"), theirs.SignFlipping()),
        (ipm(sent, hostile, epsilon=0.7), theirs.InnerProductManipulation(tau=0.7)),
        (alie(sent, hostile, z=z), theirs.ALittleIsEnough(tau=1.5)),
        (infinite(sent, hostile), theirs.Inf()),
        (copied, theirs.Mimic(epsilon=2)),
    ]
    for found, attack in pairs:
        expected = attack(rows)
        for row in found.update[:3]:
            close(row, expected, spread)
        assert np.array_equal(found.update[3:], rows)
