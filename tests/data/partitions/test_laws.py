"""Laws of every partition that there is."""

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from troth import lookup
from troth.types import TEST, TRAIN, Arrays

OPTIONS = {
    "classes": [{}, {"recipe": "ditto"}, {"assign": "first"}, {"assign": "random"}],
    "dirichlet": [{"min_size": 1}, {"by": "client"}, {"min_size": 0, "alpha": 0.01}],
    "draws": [{"sizes": [400] * 50}],
    "fixed_sizes": [{"sizes": [140] * 50}, {"sizes": [9] * 50}],
    "identities": [{}, {"clients": 0, "per_client": 7}],
    "inner_dirichlet": [{"sizes": [140] * 50}, {"sizes": [9] * 50, "alpha": 0.01}],
    "quantity": [
        {},
        {"law": "power"},
        {"law": "linear"},
        {"law": "square"},
        {"law": "exponential"},
    ],
    "shard": [{}, {"per_client": 1, "size": 9}],
}
"""Options to try beside clients = 50; a member that is not here has none."""

DRAWS = ("draws", OPTIONS["draws"][0])
SHARES = [("classes", {"recipe": "ditto"}), DRAWS]  # clients may hold the same example
UNSEEDED = [("classes", {"recipe": "ditto"}), ("natural", {})]
WHOLE = ("identities", OPTIONS["identities"][1])
FEWER = [("fixed_sizes", {"sizes": [9] * 50}), ("shard", OPTIONS["shard"][1])]
FEWER += [("inner_dirichlet", OPTIONS["inner_dirichlet"][1])]
LEAVES = [("classes", {"recipe": "ditto"}), DRAWS, WHOLE, *FEWER]

MEMBERS = [(n, o) for n in lookup.names("partition") for o in OPTIONS.get(n, [{}])]


def made(m=7000):
    """Ten classes, 120 owners, one in seven for test: all one may ask for."""
    rows = np.arange(m)
    split = np.where(rows % 7 == 6, TEST, TRAIN).astype(np.int8)
    y, owner = rows // 7 % 10, rows * 13 % 120 - 10
    return Arrays(np.zeros((m, 1), np.float32), y, 10, owner=owner, split=split)


def dealt(name, options, seed=0, arrays=None):
    function = lookup.find("partition", name)
    many = {"clients": 50} if "clients" in lookup.options(function) else {}
    full = lookup.check("partition", name, {**many, **options})
    return lookup.call(function, full, arrays=arrays or made(), seed=seed)


def same(one, other):
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def test_rows_are_rows_with_one_home_unless_it_says_otherwise():
    for name, options in MEMBERS:
        lists = dealt(name, options)
        expected = 17 if (name, options) == WHOLE else {"natural": 120}.get(name, 50)
        assert len(lists) == expected
        for mine in lists:
            assert mine.ndim == 1 and mine.dtype == np.int64
            assert len(np.unique(mine)) == len(mine)  # no client has one twice
            assert len(mine) == 0 or (mine.min() >= 0 and mine.max() < 7000)
        used = np.bincount(np.concatenate(lists), minlength=7000)
        assert (used.max() > 1) == ((name, options) in SHARES)
        assert (used.min() == 0) == ((name, options) in LEAVES)


def test_the_seed_decides_and_nothing_else():
    for name, options in MEMBERS:
        arrays = made()
        before = [np.copy(v) for v in (arrays.x, arrays.y, arrays.owner, arrays.split)]
        one = dealt(name, options, 3, arrays)
        np.random.seed(5)
        random.seed(5)
        torch.manual_seed(5)
        other = arrays._replace(
            x=np.ones((7000, 3, 2), np.uint8)
        )  # inputs do not matter
        assert same(one, dealt(name, options, 3, other))
        assert same(one, dealt(name, options, 4)) == ((name, options) in UNSEEDED)
        for mine in one:
            mine += 1  # what it gives is the caller's
        after = (arrays.x, arrays.y, arrays.owner, arrays.split)
        assert all(map(np.array_equal, before, after))


@given(
    m=st.integers(1, 120),
    n=st.integers(1, 40),
    marked=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_example_has_one_home_whatever_the_sizes(m, n, marked, seed):
    draw, n = np.random.default_rng(seed), min(n, m)
    marks = draw.integers(0, 3, m).astype(np.int8) if marked else None
    y, owner = draw.integers(0, 5, m), draw.integers(-5, 6, m)
    arrays = Arrays(np.zeros((m, 1)), y, 5, owner=owner, split=marks)
    least = 0 if marked else seed % (m // n + 1)
    for name, options in (
        ("iid", {}),
        ("natural", {}),
        ("quantity", {"law": "lognormal", "min_size": least}),
        ("quantity", {"law": "power", "min_size": least}),
        *(
            ("dirichlet", {"by": by, "alpha": alpha, "min_size": 0})
            for by in ("class", "client")
            for alpha in (1e-6, 0.5, 1e6)
        ),
    ):
        more = {} if name == "natural" else {"clients": n}
        lists = dealt(name, options | more, seed, arrays)
        assert np.array_equal(np.sort(np.concatenate(lists)), np.arange(m)), name
        assert all((np.diff(mine) > 0).all() for mine in lists), name
        sizes = [len(mine) for mine in lists]
        assert name == "natural" or len(sizes) == n, name
        assert min(sizes) >= options.get("min_size", 1 if name == "natural" else 0)
        assert name != "iid" or max(sizes) - min(sizes) <= 1
        if name == "natural":
            owners = [set(owner[mine].tolist()) for mine in lists]
            assert owners == [{one} for one in sorted(set(owner.tolist()))]
