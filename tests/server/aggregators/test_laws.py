"""What holds of every aggregator in the folder.

Which laws hold for which rule is said once, in the table of docs/threat-model.md. Where
it says yes, the law is checked over random rows; where it says no, some rows must break
it, so that the table cannot say less than is true.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup, seeding
from troth.server import rules
from troth.types import Broadcast, Messages, Refusal

NAMES = lookup.names("aggregator")
PAGE = Path(__file__).parents[3] / "docs" / "threat-model.md"
CONDITIONS = {"–": (0, 1), "n ≥ f + 1": (1, 1), "n ≥ 2f + 1": (2, 1)}
CONDITIONS |= {"n ≥ 2f + 3": (2, 3), "n ≥ 4f + 3": (4, 3)}
"""Of the table: for f > 0, n must be at least a·f + b."""

SHAPES = [(1, 1), (2, 1), (1, 4), (2, 4), (7, 4), (30, 4), (31, 3)]
"""(n, d): odd, even, one, and more than 25 rows, where `cdist` changes its formula."""

Shape = tuple[int, int]
SHAPED = pytest.mark.parametrize("shape", SHAPES, ids=str)
EVERY = pytest.mark.parametrize("name", NAMES)
DTYPES = [torch.float32, torch.float64]


def table() -> dict[str, dict[str, str]]:
    """Rule → column → cell, of the table of laws."""
    section = PAGE.read_text("utf-8").split("### Laws", 1)[1].split("\n## ", 1)[0]
    lines = section.splitlines()
    cells = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    head, _, *rows = cells
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


TABLE = table()
LAWS = ("shift", "scale", "mean at f = 0", "bounded", "reads")


def holds(law: str, verdict: str = "yes") -> list[str]:
    return [name for name in NAMES if TABLE.get(name, {}).get(law) == verdict]


def least(name: str, f: int) -> int:
    """How many rows the condition of a rule asks for."""
    a, b = CONDITIONS[TABLE[name]["condition"]]
    return a * f + b if f else 1


def takes(name: str, option: str) -> bool:
    return option in lookup.options(lookup.find("aggregator", name))


def messages(
    shape: Shape, dtype: torch.dtype = torch.float64, seed: int = 0
) -> Messages:
    n, d = shape
    draw = torch.Generator().manual_seed(1000 * seed + n + d)
    return Messages(
        torch.randn(n, d, generator=draw, dtype=dtype),
        torch.zeros(n, 0, dtype=dtype),
        torch.rand(n, generator=draw, dtype=dtype),
        torch.randint(1, 9, (n,), generator=draw),
        torch.arange(n) * 3,
    )


def aggregated(name: str, given: Messages, times: int = 1, **options: Any) -> Tensor:
    """As the round does it; f is what the rule stands at most, of up to a fifth."""
    if takes(name, "f") and "f" not in options:
        n = len(given.client)
        options["f"] = max(f for f in range(n // 5 + 1) if n >= least(name, f))
    full = lookup.check("aggregator", name, options)
    zero = given.update.new_zeros
    memory = rules.no_memory()
    for round_ in range(times):
        result, memory = rules.lift("aggregator", name, full)(
            memory,
            broadcast=Broadcast(zero(given.update.shape[1]), zero(0), zero(()) + 1),
            messages=given,
            loss=given.loss,
            key=seeding.keys(0, "aggregator", round_, torch.tensor(0)),
            round_=round_,
        )
    assert isinstance(result, Tensor)
    assert isinstance(memory, Tensor)
    return result


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-7, atol=1e-9)


def test_the_table_names_every_rule_and_law() -> None:
    assert list(TABLE) == NAMES
    for row in TABLE.values():
        assert row["condition"] in CONDITIONS
        assert {row[law] for law in LAWS[:4]} <= {"yes", "no", "–"}
        assert row["reads"] in ("–", "size", "loss")


@EVERY
@SHAPED
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_finite_vector_of_the_same_type(
    name: str, shape: Shape, dtype: torch.dtype
) -> None:
    given = messages(shape, dtype)
    found = aggregated(name, given)
    assert found.shape == (shape[1],)
    assert found.dtype == dtype
    assert found.device == given.update.device
    assert found.isfinite().all()


@EVERY
@SHAPED
def test_clients_have_no_order(name: str, shape: Shape) -> None:
    given = messages(shape)
    draw = torch.Generator().manual_seed(1)
    expected = aggregated(name, given)
    for _ in range(3):
        order = torch.randperm(shape[0], generator=draw)
        mixed = Messages(*(field[order] for field in given))
        close(aggregated(name, mixed), expected)


@EVERY
def test_equal_rows_leave_the_choice_to_the_ids(name: str) -> None:
    """Rows that tie in every way: a permutation still changes nothing."""
    given = messages((9, 3))
    rows = given.update[[0, 0, 0, 1, 1, 1, 2, 2, 2]]
    given = given._replace(update=rows, loss=given.loss * 0 + 0.5)
    expected = aggregated(name, given)
    order = torch.tensor([8, 1, 4, 7, 0, 3, 6, 2, 5])
    close(aggregated(name, Messages(*(field[order] for field in given))), expected)


SHIFT = torch.tensor([-30.0, 50.0, 0.5, 20.0], dtype=torch.float64)


def shifts(name: str, shape: Shape) -> bool:
    given, shift = messages(shape), SHIFT[: shape[1]]
    moved = given._replace(update=given.update + shift)
    return same(aggregated(name, moved), aggregated(name, given) + shift)


@pytest.mark.parametrize("name", holds("shift"))
@SHAPED
def test_shifts_with_the_updates(name: str, shape: Shape) -> None:
    assert shifts(name, shape)


@pytest.mark.parametrize("name", holds("shift", "no"))
def test_or_does_not(name: str) -> None:
    assert not all(shifts(name, shape) for shape in SHAPES)


def scales(name: str, shape: Shape, unit: float) -> bool:
    given = messages(shape)
    larger = given._replace(update=unit * given.update)
    return torch.allclose(
        aggregated(name, larger) / unit, aggregated(name, given), 1e-7, 1e-9
    )


@pytest.mark.parametrize("name", holds("scale"))
@SHAPED
@pytest.mark.parametrize("unit", [4.0, 1e-3, -1.0])
def test_scales_with_the_updates(name: str, shape: Shape, unit: float) -> None:
    assert scales(name, shape, unit)


@pytest.mark.parametrize("name", holds("scale", "no"))
def test_or_does_not_scale(name: str) -> None:
    assert not all(scales(name, shape, 1000.0) for shape in SHAPES)


def is_mean(name: str, shape: Shape) -> bool:
    given = messages(shape)
    given = given._replace(update=100 * given.update)
    return same(aggregated(name, given, f=0), given.update.mean(0))


@pytest.mark.parametrize("name", holds("mean at f = 0"))
@SHAPED
def test_nobody_hostile_is_the_mean(name: str, shape: Shape) -> None:
    assert is_mean(name, shape)


@pytest.mark.parametrize("name", holds("mean at f = 0", "no"))
def test_or_is_not(name: str) -> None:
    assert not all(is_mean(name, shape) for shape in SHAPES)


@pytest.mark.parametrize("name", holds("mean at f = 0", "–"))
def test_who_has_no_f_says_nothing_of_it(name: str) -> None:
    assert not takes(name, "f")


# Hostile rows

CROWDS = [(11, 2), (7, 1), (30, 4), (31, 7)]
"""(n, f); f is brought to the limit of each rule's condition beside."""


def crowd(n: int, f: int, seed: int) -> tuple[Messages, Tensor]:
    """Benign rows about a point far from 0, and f others as an adversary likes them."""
    given = messages((n, 3), seed=seed)
    rows = 5 + 1e-3 * given.update
    far = 10.0 ** ((seed % 8) * 4 - 2)  # 1e-2 … 1e26
    kind = seed // 8
    hostile = far * given.update[:f]
    if kind == 1:  # all the same
        hostile = hostile[:1].expand(f, 3)
    if kind == 2:  # back, and not even long
        hostile = -0.9 * rows[f:].mean(0).expand(f, 3)
    return given._replace(update=torch.cat([hostile, rows[f:]])), rows[f:]


def bounded(name: str, n: int, f: int, seed: int) -> bool:
    """Within some diameters of the benign rows, from their mean."""
    sent, benign = crowd(n, f, seed)
    diameter = torch.cdist(benign, benign).max()
    found = aggregated(name, sent, **({"f": f} if takes(name, "f") else {}))
    return bool((found - benign.mean(0)).norm() <= 4 * n * diameter)


def limit(name: str, n: int) -> int:
    """The most hostile rows of n that the condition of a rule allows."""
    return max(f for f in range(n) if n >= least(name, f))


@pytest.mark.parametrize("name", holds("bounded"))
@pytest.mark.parametrize("n", [7, 11, 12, 31])
@pytest.mark.parametrize("seed", range(24))
def test_f_rows_move_it_no_further_than_the_benign_reach(
    name: str, n: int, seed: int
) -> None:
    assert bounded(name, n, limit(name, n), seed)
    assert bounded(name, n, min(1, limit(name, n)), seed)


@pytest.mark.parametrize("name", holds("bounded", "no"))
def test_or_one_row_moves_it_further(name: str) -> None:
    """Or a few that do not even lie far out; so the rule must not claim it."""
    few = [(n, f, seed) for n, f in CROWDS for seed in range(24)]
    assert not all(
        bounded(name, n, f, seed) for n, f, seed in few if n >= least(name, f)
    )


@pytest.mark.parametrize("name", holds("bounded"))
@SHAPED
def test_falsified_sizes_and_losses_move_nothing(name: str, shape: Shape) -> None:
    given = messages(shape)
    n = shape[0]
    lies = given._replace(
        size=torch.full((n,), 2**62),
        loss=torch.full((n,), torch.nan, dtype=torch.float64),
    )
    assert torch.equal(aggregated(name, lies), aggregated(name, given))


@EVERY
def test_it_reads_what_the_table_says(name: str) -> None:
    given, reads = messages((7, 3)), TABLE[name]["reads"]
    lies = {
        "size": given._replace(size=given.size.flip(0) * 5),
        "loss": given._replace(loss=40 * given.loss.flip(0)),
    }
    for field, sent in lies.items():
        alike = torch.equal(aggregated(name, sent, 2), aggregated(name, given, 2))
        assert alike == (reads != field)


@EVERY
def test_the_condition_of_the_table_is_enforced(name: str) -> None:
    if not takes(name, "f"):
        assert TABLE[name]["condition"] == "–"
        return
    for f in (1, 2, 3):
        n = least(name, f)
        aggregated(name, messages((n, 2)), f=f)
        with pytest.raises(Refusal, match=rf"f = {f}.*= {n}.*n is {n - 1}.*strict"):
            aggregated(name, messages((n - 1, 2)), f=f)


@pytest.mark.parametrize("name", [n for n in NAMES if takes(n, "strict")])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 10])
def test_beyond_its_condition_it_still_gives_a_vector(
    name: str, dtype: torch.dtype, n: int
) -> None:
    """The papers' tables go to 80 % hostile clients."""
    for f in (0, 1, 2, n // 2, n - 1, n, n + 3):
        found = aggregated(name, messages((n, 3), dtype), f=f, strict=False)
        assert found.dtype == dtype and found.isfinite().all()


@EVERY
@pytest.mark.parametrize("n", [1, 2, 3, 30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_all_say_is_the_result(name: str, n: int, dtype: torch.dtype) -> None:
    """Up to its length where a rule sees to the length itself."""
    row = messages((1, 6), dtype).update
    row = row / row.norm()
    alike = messages((n, 6), dtype)._replace(update=row.expand(n, 6).clone())
    found = aggregated(name, alike)
    if name in ("qffl", "sum"):
        found = found / found.norm()
    accuracy = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(found, row[0], rtol=accuracy, atol=accuracy)


@EVERY
def test_twice_the_same(name: str) -> None:
    given = messages((7, 4))
    assert torch.equal(aggregated(name, given), aggregated(name, given))


@EVERY
@SHAPED
def test_does_not_touch_what_it_reads(name: str, shape: Shape) -> None:
    given = messages(shape)
    kept = [field.clone() for field in given]
    found = aggregated(name, given)
    found.add_(1.0)  # nor does the result lie in what was read
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))


# Corners of numbers

TINY = 2.0**-149
VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, TINY, -TINY, 1e-38, 1e30, -1e30, 1 + 2**-23, 3e37]
)


@EVERY
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_corners_stay_numbers_within_the_rows(name: str, data: st.DataObject) -> None:
    """Equal rows, one row, d = 1, denormals, 1e30, duplicates, f at its limit."""
    n = data.draw(st.integers(1, 12))
    d = data.draw(st.integers(1, 3))
    drawn = st.lists(VALUES, min_size=d, max_size=d)
    different = data.draw(st.lists(drawn, min_size=1, max_size=n))
    rows = torch.tensor([different[i % len(different)] for i in range(n)])
    parts = rows / n if name == "sum" else rows  # which then is their average
    sent = messages((n, d), torch.float32)._replace(update=parts)
    options = {"f": limit(name, n)} if takes(name, "f") else {}
    found = aggregated(name, sent, **options)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    if name not in ("fedmgda", "qffl", "centered_clipping"):  # not averages of rows
        slack = 1e-5 * rows.abs().amax(0) + n * TINY  # what rounding may take
        assert (rows.amin(0) - slack <= found).all()
        assert (found <= rows.amax(0) + slack).all()
