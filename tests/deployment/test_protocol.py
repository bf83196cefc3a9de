"""Replies of anybody: what fits counts, and nothing else gets through or crashes."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from troth.deployment.protocol import RAW, Expected, check, pack, unpack
from troth.types import Refusal

D, E = 12, 3
RUN = "0123456789abcdef"
EXPECTED = Expected(D, E, torch.float32, 4, RUN, 500, False)


def wired(vector: torch.Tensor) -> SimpleNamespace:
    return SimpleNamespace(
        **dict(zip(("dtype", "shape", "stype", "data"), pack(vector), strict=True))
    )


def good() -> tuple[dict[str, Any], dict[str, Any]]:
    about = {"round": 4, "run": RUN, "name": "a", "size": 30, "card": ""}
    about["loss"] = math.nan
    update = torch.arange(D, dtype=torch.float32) / 7
    return about, {"update": wired(update), "extra": wired(-update[:E])}


def test_what_fits_counts() -> None:
    found = check(EXPECTED, "a", *good())
    assert torch.equal(found.update, torch.arange(D, dtype=torch.float32) / 7)
    assert torch.equal(found.extra, -found.update[:E])
    assert found.size == 30 and math.isnan(found.loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vector_comes_back_as_it_was(dtype: torch.dtype) -> None:
    vector = torch.tensor([1e-30, -0.0, 1 / 3, torch.finfo(dtype).max], dtype=dtype)
    back = unpack("v", wired(vector), 4, dtype)
    assert back.dtype == dtype and torch.equal(back, vector)
    assert len(wired(vector).data) == 4 * dtype.itemsize  # no header


def test_a_claimed_size_is_capped() -> None:
    about, vectors = good()
    about["size"] = 10**15
    assert check(EXPECTED, "a", about, vectors).size == 500


def test_a_loss_is_read_only_where_a_rule_asks() -> None:
    about, vectors = good()
    about["loss"] = -7.5
    assert math.isnan(check(EXPECTED, "a", about, vectors).loss)
    asks = EXPECTED._replace(loss=True)
    assert check(asks, "a", about, vectors).loss == -7.5
    about["loss"] = math.inf
    with pytest.raises(Refusal, match="its loss is inf, which is no number"):
        check(asks, "a", about, vectors)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"round": 3}, "it is of round 3, not of 4"),
        ({"round": True}, "it is of round True, not of 4"),
        ({"name": "b"}, "it is of another site or of another run"),
        ({"run": "f" * 16}, "it is of another site or of another run"),
        ({"size": 0}, "it claims 0 examples"),
        ({"size": 2.5}, "it claims 2.5 examples"),
        (
            {"more": 1},
            "it says \\['card', 'loss', 'more', 'name', 'round', 'run', 'size'\\]",
        ),
    ],
)
def test_words_that_do_not_fit(change: dict[str, Any], why: str) -> None:
    about, vectors = good()
    with pytest.raises(Refusal, match=why):
        check(EXPECTED, "a", about | change, vectors)


def test_a_reason_is_one_short_line() -> None:
    about, vectors = good()
    about["round"] = "\x1b[2J\n" * 10_000
    with pytest.raises(Refusal) as caught:
        check(EXPECTED, "a", about, vectors)
    assert len(str(caught.value)) < 120 and str(caught.value).isprintable()


Change = Callable[[np.random.Generator, dict[str, Any], dict[str, Any]], None]


def odd(random: np.random.Generator) -> Any:
    """A value that should not stand where it is put."""
    text = bytes(random.integers(0, 256, 9).tolist())
    some = [None, "", "x" * 300, text, -1, 0, 2**62, -(2**62), 1.5, math.nan, math.inf]
    some += [True, [], [1, 2], {}, (), float(random.normal()), ["a"] * 50]
    return some[int(random.integers(len(some)))]


def word(random: np.random.Generator, about: dict[str, Any], vectors: Any) -> None:
    key = sorted(about)[int(random.integers(len(about)))]
    about[key] = odd(random)


def missing(random: np.random.Generator, about: dict[str, Any], vectors: Any) -> None:
    about.pop(sorted(about)[int(random.integers(len(about)))])


def another(random: np.random.Generator, about: dict[str, Any], vectors: Any) -> None:
    about[str(random.integers(10**6))] = odd(random)


def kind(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    some = ["float64", "float16", "int32", "object", "<U9", "", "O", "float32 "]
    vectors["update"].dtype = some[int(random.integers(len(some)))]


def way(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    some = ["numpy.ndarray", "pickle", "", RAW + " ", "torch"]
    vectors["extra"].stype = some[int(random.integers(len(some)))]


def shape(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    some = [(), (0,), (D + 1,), (D - 1,), (D, 1), (1, D), (-D,), (10**15,), [D], None]
    vectors["update"].shape = some[int(random.integers(len(some)))]


def length(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    count = int(random.integers(0, 3 * D * 4))
    count += count == D * 4
    vectors["update"].data = random.bytes(count)


def type_of_data(random: np.random.Generator, about: Any, vectors: Any) -> None:
    vectors["update"].data = odd(random)


def infinite(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    name = ("update", "extra")[int(random.integers(2))]
    numbers = np.frombuffer(vectors[name].data, np.float32).copy()
    bad = [np.nan, np.inf, -np.inf][int(random.integers(3))]
    numbers[int(random.integers(len(numbers)))] = bad
    vectors[name].data = numbers.tobytes()


def names(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    one = vectors.pop(("update", "extra")[int(random.integers(2))])
    if random.integers(2):
        vectors[str(random.integers(99))] = one


def more(random: np.random.Generator, about: Any, vectors: dict[str, Any]) -> None:
    vectors[f"v{random.integers(99)}"] = vectors["update"]


CHANGES: list[Change] = [
    *(word, missing, another, kind, way, shape),
    *(length, type_of_data, infinite, names, more),
]


def malformed(count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    random = np.random.default_rng(12)
    for i in range(count):
        about, vectors = good()
        CHANGES[i % len(CHANGES)](random, about, vectors)
        yield about, vectors


def harmless(about: dict[str, Any]) -> bool:
    """Some odd values may stand: another count of examples, another loss."""
    whole, told = type(about.get("size")) is int, type(about.get("loss")) is float
    free = {"size": 30, "loss": 0.0, "card": ""}
    same = {**about, **free} == {**good()[0], **free} and "card" in about
    return same and whole and about["size"] > 0 and told


def test_eleven_thousand_malformed_replies() -> None:
    refused, passed = 0, 0
    tracemalloc.start()
    for about, vectors in malformed(11_000):
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
    assert refused > 10_000 and passed < 500
    assert peak < 2_000_000  # nobody's word makes room for what it does not send
