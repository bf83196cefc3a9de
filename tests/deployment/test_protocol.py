"""Replies of anybody: what fits counts, and nothing else gets through or crashes."""

import math
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from troth.deployment.protocol import RAW, Expected, check, pack, unpack
from troth.types import Refusal

D, E = 12, 3
RUN = "0123456789abcdef"
EXPECTED = Expected(D, E, torch.float32, 4, RUN, 500, False)


def wired(vector):
    names = ("dtype", "shape", "stype", "data")
    return SimpleNamespace(**dict(zip(names, pack(vector), strict=True)))


def good():
    about = {"round": 4, "run": RUN, "name": "a", "size": 30, "card": ""}
    about["loss"] = math.nan
    update = torch.arange(D, dtype=torch.float32) / 7
    return about, {"update": wired(update), "extra": wired(-update[:E])}


def test_what_fits_counts():
    found = check(EXPECTED, "a", *good())
    assert torch.equal(found.update, torch.arange(D, dtype=torch.float32) / 7)
    assert torch.equal(found.extra, -found.update[:E])
    assert found.size == 30 and math.isnan(found.loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vector_comes_back_as_it_was(dtype):
    vector = torch.tensor([1e-30, -0.0, 1 / 3, torch.finfo(dtype).max], dtype=dtype)
    back = unpack("v", wired(vector), 4, dtype)
    assert back.dtype == dtype and torch.equal(back, vector)
    assert len(wired(vector).data) == 4 * dtype.itemsize  # no header


def test_a_loss_is_read_only_where_a_rule_asks():
    about, vectors = good()
    about["loss"] = -7.5
    assert math.isnan(check(EXPECTED, "a", about, vectors).loss)
    asks = EXPECTED._replace(loss=True)
    assert check(asks, "a", about, vectors).loss == -7.5
    about["loss"] = math.inf
    with pytest.raises(Refusal, match="its loss is inf, which is not a finite number"):
        check(asks, "a", about, vectors)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"round": 3}, "it is of round 3, not of 4"),
        ({"round": True}, "it is of round True, not of 4"),
        ({"round": "\x1b[2J\n" * 10_000}, "it is of round "),
        ({"name": "b"}, "it is of another site or of another run"),
        ({"run": "f" * 16}, "it is of another site or of another run"),
        ({"size": 0}, "it claims 0 examples"),
        ({"size": 2.5}, "it claims 2.5 examples"),
        ({"more": 1}, r"\['card', 'loss', 'more', 'name', 'round', 'run', 'size'\]"),
    ],
)
def test_words_that_do_not_fit(change, why):
    about, vectors = good()
    with pytest.raises(Refusal, match=why) as caught:
        check(EXPECTED, "a", about | change, vectors)
    assert len(str(caught.value)) < 120 and str(caught.value).isprintable()


def pick(random, some):
    return some[int(random.integers(len(some)))]


def odd(random):
    """A value that should not stand where it is put."""
    text = bytes(random.integers(0, 256, 9).tolist())
    some = [None, "", "x" * 300, text, -1, 0, 2**62, -(2**62), 1.5, math.nan, math.inf]
    some += [True, [], [1, 2], {}, (), float(random.normal()), ["a"] * 50]
    return pick(random, some)


KINDS = ["float64", "float16", "int32", "object", "<U9", "", "O", "float32 "]
WAYS = ["numpy.ndarray", "pickle", "", RAW + " ", "torch"]
SHAPES = [(), (0,), (D + 1,), (D - 1,), (D, 1), (1, D), (-D,), (10**15,), [D], None]
BOTH = ("update", "extra")


def infinite(random, vectors):
    one = vectors[pick(random, BOTH)]
    numbers = np.frombuffer(one.data, np.float32).copy()
    bad = pick(random, [np.nan, np.inf, -np.inf])
    numbers[int(random.integers(len(numbers)))] = bad
    one.data = numbers.tobytes()


def renamed(random, vectors):
    one = vectors.pop(pick(random, BOTH))
    if random.integers(2):
        vectors[str(random.integers(99))] = one


def length(random):
    count = int(random.integers(0, 3 * D * 4))
    return random.bytes(count + (count == D * 4))


CHANGES = [
    lambda r, about, _: about.update({pick(r, sorted(about)): odd(r)}),
    lambda r, about, _: about.pop(pick(r, sorted(about))),
    lambda r, about, _: about.update({str(r.integers(10**6)): odd(r)}),
    lambda r, _, vectors: setattr(vectors["update"], "dtype", pick(r, KINDS)),
    lambda r, _, vectors: setattr(vectors["extra"], "stype", pick(r, WAYS)),
    lambda r, _, vectors: setattr(vectors["update"], "shape", pick(r, SHAPES)),
    lambda r, _, vectors: setattr(vectors["update"], "data", length(r)),
    lambda r, _, vectors: setattr(vectors["update"], "data", odd(r)),
    lambda r, _, vectors: infinite(r, vectors),
    lambda r, _, vectors: renamed(r, vectors),
    lambda r, _, vectors: vectors.update({f"v{r.integers(99)}": vectors["update"]}),
]


def harmless(about):
    """Some odd values may stand: another count of examples, another loss."""
    whole, told = type(about.get("size")) is int, type(about.get("loss")) is float
    free = {"size": 30, "loss": 0.0, "card": ""}
    same = {**about, **free} == {**good()[0], **free} and "card" in about
    return same and whole and about["size"] > 0 and told


@pytest.mark.parametrize(
    "each", [200, pytest.param(1000, marks=pytest.mark.slow("many malformed replies"))]
)
def test_malformed_replies(each):
    """Of every kind; nothing odd passes, and nobody's word makes room."""
    refused, passed, random = 0, 0, np.random.default_rng(12)
    tracemalloc.start()
    for change in CHANGES * each:
        about, vectors = good()
        change(random, about, vectors)
        try:
            found = check(EXPECTED, "a", about, vectors)
        except Refusal as refusal:
            assert len(str(refusal)) < 200
            refused += 1
            continue
        assert harmless(about) and found.update.isfinite().all()
        assert torch.equal(found.update, torch.arange(D, dtype=torch.float32) / 7)
        assert 1 <= found.size <= 500
        passed += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > 10 * each and passed < each / 2
    assert peak < 2_000_000
