"""What holds of every aggregator in the folder.

Which laws hold for which rule is said once, in the table of
docs/explanation/threat-model.md. Where it says yes, the law is checked over random
rows; where it says no, some rows must break it, so that the table cannot say less than
is true. A new rule needs a row in that table, and no change here.
"""

import itertools
import math
from pathlib import Path

import pytest
import torch
from clients_sent import applied, matrices, mixed
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import lookup
from troth.server.aggregators.mean import mean
from troth.types import Messages, Refusal

NAMES = lookup.names("aggregator")
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "threat-model.md"
CONDITIONS = {"–": (0, 1), "n ≥ f + 1": (1, 1), "n ≥ 2f + 1": (2, 1)}
CONDITIONS |= {"n ≥ 2f + 3": (2, 3), "n ≥ 4f + 3": (4, 3)}
"""Of the table: for f > 0, n must be at least a·f + b."""

SHAPES = [(1, 1), (2, 1), (1, 4), (2, 4), (7, 4), (30, 4), (31, 3)]
"""(n, d): odd, even, one, and more than 25 rows, where `cdist` changes its formula."""

EVERY = pytest.mark.parametrize("name", NAMES)
DTYPES = [torch.float32, torch.float64]
NAN, INF = math.nan, math.inf
TINY = 2.0**-149
REFUSED = [
    ("afl", "lr", [-0.1, NAN, INF], "must be a finite number ≥ 0"),
    ("centered_clipping", "tau", [0.0, -1.0, NAN, INF], "must be a positive number"),
    ("centered_clipping", "iterations", [0], "must be above 0"),
    ("fedmgda", "eps", [-0.1, 1.5, NAN, INF], r"must be in \[0, 1\]"),
    ("geometric_median", "nu", [0.0, -1.0, NAN, INF], "must be a positive number"),
    ("geometric_median", "tolerance", [0.0, NAN, INF], "must be a positive number"),
    ("geometric_median", "iterations", [0], "must be above 0"),
    ("mda", "limit", [0, -5], "must be at least 1"),
    ("multi_krum", "m", [-1], "must be at least 1, or 0"),
    ("multi_krum", "m", [9], "must be at most n − f = 8; lower m"),
    ("qffl", "q", [-1.0, -1e-9, NAN, INF], "must be a finite number ≥ 0"),
    ("qffl", "lr", [0.0, -0.1, NAN, INF], "must be a finite number > 0"),
    ("term", "t", [NAN, INF, -INF], "must be a finite number; t = 0 is the mean"),
]


@pytest.mark.parametrize(("name", "option", "values", "words"), REFUSED)
def test_refusals(name, option, values, words):
    for value in values:
        with pytest.raises(Refusal, match=f"{name}'s {option} = {value} {words}"):
            aggregated(name, messages((9, 2)), **{option: value})


def table():
    """Rule → column → cell, of the table of laws."""
    section = PAGE.read_text("utf-8").split("### Laws", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[c.strip(" `") for c in line.strip("|").split("|")] for line in lines]
    head, _, *rows = cells
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


TABLE = table()


def claims(name):
    """The row of a rule: column → cell."""
    assert name in TABLE, (
        f"docs/explanation/threat-model.md has no row for `{name}` in the table under "
        "'### Laws': add one, in the order of the names"
    )
    return TABLE[name]


def least(name, f):
    """How many rows the condition of a rule asks for."""
    condition = claims(name)["condition"]
    assert condition in CONDITIONS, (
        f"the condition of `{name}` in docs/explanation/threat-model.md, "
        f"'{condition}', is none of {', '.join(CONDITIONS)}: write one of these, or "
        "add yours to CONDITIONS in this file"
    )
    a, b = CONDITIONS[condition]
    return a * f + b if f else 1


def takes(name, option):
    return option in lookup.options(lookup.find("aggregator", name))


def messages(shape, dtype=torch.float64, seed=0):
    n, d = shape
    draw = torch.Generator().manual_seed(1000 * seed + n + d)
    return Messages(
        torch.randn(n, d, generator=draw, dtype=dtype),
        torch.zeros(n, 0, dtype=dtype),
        torch.rand(n, generator=draw, dtype=dtype),
        torch.randint(1, 9, (n,), generator=draw),
        torch.arange(n) * 3,
    )


def aggregated(name, sent, times=1, **options):
    """As the round does it; f is what the rule stands at most, of up to a fifth."""
    if takes(name, "f") and "f" not in options:
        n = len(sent.client)
        options["f"] = max(f for f in range(n // 5 + 1) if n >= least(name, f))
    memory = None
    for _ in range(times):
        result, memory, _ = applied("aggregator", name, sent, memory, **options)
    return result


def same(a, b):
    return torch.allclose(a, b, rtol=1e-7, atol=1e-9)


def shifts(name, shape):
    sent, shift = messages(shape), torch.tensor([-30.0, 50.0, 0.5, 20.0]).double()
    moved = sent._replace(update=sent.update + shift[: shape[1]])
    return same(aggregated(name, moved), aggregated(name, sent) + shift[: shape[1]])


def scales(name, shape):
    sent = messages(shape)
    once, units = aggregated(name, sent), (4.0, 1e-3, -1.0, 1000.0)
    sents = [sent._replace(update=unit * sent.update) for unit in units]
    each = [aggregated(name, sent) for sent in sents]
    return all(same(a / unit, once) for a, unit in zip(each, units, strict=True))


def is_mean(name, shape):
    """To the bit."""
    sent = messages(shape)
    sent = sent._replace(update=100 * sent.update)
    return torch.equal(aggregated(name, sent, f=0), mean(sent))


def within_rows(name, rows, **options):
    """Up to rounding, in every coordinate; the rows may be parts of what is added."""
    parts = rows / len(rows) if claims(name)["within"] == "n ×" else rows
    found = aggregated(name, messages(rows.shape)._replace(update=parts), **options)
    assert found.dtype == rows.dtype and found.isfinite().all()
    slack = 1e-5 * rows.abs().amax(0) + len(rows) * TINY  # what rounding may take
    low, high = rows.amin(0) - slack, rows.amax(0) + slack
    return bool((low <= found).all() and (found <= high).all())


def within(name, shape):
    return within_rows(name, 100 * messages(shape).update)


CROWDS = [(11, 2), (7, 1), (30, 4), (31, 7)]
"""(n, f) for rules that promise nothing; the others are brought to their limit."""


def crowd(n, f, seed):
    """Benign rows about a point far from 0, and f others as an adversary likes them."""
    sent = messages((n, 3), seed=seed)
    rows = 5 + 1e-3 * sent.update
    far = 10.0 ** ((seed % 8) * 4 - 2)  # 1e-2 … 1e26
    hostile = [
        far * sent.update[:f],
        far * sent.update[:1].expand(f, 3),
        -0.9 * rows[f:].mean(0).expand(f, 3),  # back, and not even long
    ][seed // 8]
    return sent._replace(update=torch.cat([hostile, rows[f:]])), rows[f:]


def bounded(name, case):
    """Within some diameters of the benign rows, from their mean."""
    n, f, seed = case
    sent, benign = crowd(n, f, seed)
    found = aggregated(name, sent, **({"f": f} if takes(name, "f") else {}))
    diameter = torch.cdist(benign, benign).max()
    return bool((found - benign.mean(0)).norm() <= 4 * n * diameter)


def limit(name, n):
    """The most hostile rows of n that the condition of a rule allows."""
    return max(f for f in range(n) if n >= least(name, f))


def crowds(name):
    """Up to the limit of its condition, where a rule claims to stand them."""
    few = [(n, f) for n, f in CROWDS if n >= least(name, f)]
    if claims(name)["bounded"] == "yes":
        few = [(n, limit(name, n)) for n in (7, 11, 12, 31)] + [(12, 1)]
    return [(*each, seed) for each in few for seed in range(24)]


LAWS = {"shift": shifts, "scale": scales, "mean at f = 0": is_mean, "bounded": bounded}
LAWS["within"] = within


def test_the_table_names_every_rule_and_law():
    assert [*map(claims, NAMES)] == [*TABLE.values()], "one row per rule, by name"
    for name, row in TABLE.items():
        assert least(name, 0) == 1
        assert {row[law] for law in LAWS} <= {"yes", "no", "–", "n ×"}
        assert (row["uses f"] == "–") == (not takes(name, "f"))
        assert row["equal"] in ("yes", "no") and row["within"] != "–"
        assert (row["mean at f = 0"] == "–") == (not takes(name, "f"))
        assert row["reads"] in ("–", "size", "loss")


@EVERY
@pytest.mark.parametrize("law", LAWS)
def test_the_table_is_right(name, law):
    """Where a law is not claimed, some rows break it."""
    claim = claims(name)[law]
    if claim == "–":
        return
    cases = crowds(name) if law == "bounded" else SHAPES
    broken = [case for case in cases if not LAWS[law](name, case)]
    assert bool(broken) == (claim == "no"), broken


@EVERY
def test_the_condition_of_the_table_is_enforced(name):
    condition, sent = claims(name)["condition"], messages((9, 2))
    if not takes(name, "f"):
        assert condition == "–"
        return
    for f in (1, 2, 3):
        n = least(name, f)
        aggregated(name, messages((n, 2)), f=f)
        aggregated(name, messages((n - 1, 2)), f=f, strict=False)
        with pytest.raises(Refusal) as refused:
            aggregated(name, messages((n - 1, 2)), f=f)
        said = f"{name} with f = {f} holds for {condition} = {n}, and n is {n - 1}; "
        assert str(refused.value).startswith(said)
    with pytest.raises(Refusal, match=rf"{name}'s f = -1 must be at least 0"):
        aggregated(name, sent, f=-1)
    if claims(name)["uses f"] == "no":
        found = [aggregated(name, sent, f=f) for f in (0, 3, "auto")]
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    else:
        with pytest.raises(Refusal, match=rf"{name}'s f = 'auto' is known within"):
            aggregated(name, sent, f="auto")


@EVERY
def test_one_finite_vector_of_the_same_type(name):
    """The same twice, which shares nothing with what was read and stays as it was."""
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        sent = messages(shape, dtype)
        kept = [field.clone() for field in sent]
        found = aggregated(name, sent)
        assert (found.shape, found.dtype) == ((shape[1],), dtype)
        assert found.device == sent.update.device and found.isfinite().all()
        assert torch.equal(aggregated(name, sent), found)
        found.add_(1.0)
        assert all(map(torch.equal, sent, kept))


@EVERY
def test_clients_have_no_order(name):
    draw = torch.Generator().manual_seed(1)
    orders = [(s, torch.randperm(s[0], generator=draw)) for s in SHAPES * 3]
    cases = [(messages(shape), order) for shape, order in orders]
    rows = messages((9, 3)).update[[0, 0, 0, 1, 1, 1, 2, 2, 2]]  # tie in every way
    tied = messages((9, 3))._replace(update=rows, loss=torch.full((9,), 0.5).double())
    cases.append((tied, torch.tensor([8, 1, 4, 7, 0, 3, 6, 2, 5])))
    for sent, order in cases:
        found = aggregated(name, mixed(sent, order))
        assert same(found, aggregated(name, sent)), order


@EVERY
def test_it_reads_what_the_table_says(name):
    """Who claims to withstand hostile rows believes nothing that clients report."""
    sent, reads = messages((7, 3)), claims(name)["reads"]
    honest = aggregated(name, sent, 2)
    for field, factor in (("size", 5), ("loss", 40)):
        lies = sent._replace(**{field: factor * getattr(sent, field).flip(0)})
        alike = torch.equal(aggregated(name, lies, 2), honest)
        assert alike == (reads != field)
    absurd = sent._replace(size=sent.size * 0 + 2**62, loss=sent.loss * math.nan)
    if reads == "–":
        assert torch.equal(aggregated(name, absurd), aggregated(name, sent))
    else:
        assert claims(name)["bounded"] == "no"


@pytest.mark.parametrize("name", [n for n in NAMES if takes(n, "strict")])
def test_beyond_its_condition_it_still_gives_a_vector(name):
    """The papers' tables go to 80 % malicious clients."""
    for n, dtype, unit in itertools.product((1, 2, 3, 5, 10), DTYPES, (1.0, 3e37)):
        sent = messages((n, 3), dtype)
        sent = sent._replace(update=unit * sent.update)
        for f in (0, 1, 2, n // 2, n - 1, n, n + 3):
            found = aggregated(name, sent, f=f, strict=False)
            assert found.dtype == dtype and found.isfinite().all(), (n, f, unit)


@EVERY
def test_what_all_say_is_the_result(name):
    """Up to its length where a rule sees to the length itself, as some rows show."""
    itself, lengths = claims(name)["equal"] == "yes", []
    for n, dtype in itertools.product((1, 2, 3, 30), DTYPES):
        row = torch.nn.functional.normalize(messages((1, 6), dtype).update)
        sent = messages((n, 6), dtype)._replace(update=row.repeat(n, 1))
        found = aggregated(name, sent)
        lengths.append(float(found.norm()))
        found = found if itself else found / found.norm()
        accuracy = 8 * torch.finfo(dtype).eps
        torch.testing.assert_close(found, row[0], rtol=accuracy, atol=accuracy)
    assert itself == all(math.isclose(length, 1, abs_tol=1e-5) for length in lengths)


VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, TINY, -TINY, 1e-38, 1e30, -1e30, 1 + 2**-23, 3e37]
)


@EVERY
@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 12), different=matrices(VALUES, 12))
def test_corners_stay_numbers_within_the_rows(name, n, different):
    """Equal rows, one row, d = 1, denormals, 1e30, duplicates, f at its limit."""
    rows = torch.tensor([different[i % len(different)] for i in range(n)])
    options = {"f": limit(name, n)} if takes(name, "f") else {}
    inside = within_rows(name, rows, **options)
    assert inside or claims(name)["within"] == "no"


@pytest.mark.parametrize("name", ["afl", "qffl", "term"])
def test_losses_that_are_no_numbers(name):
    """NaN counts as the mean of the others, infinity as the largest number."""
    for strange, plain in (
        ([NAN, 1.0, 3.0], [2.0, 1.0, 3.0]),
        ([INF, 1.0, INF], [1e300, 1.0, 1e300]),
    ):
        each = []
        for loss in (strange, plain):
            sent = messages((3, 2))._replace(loss=torch.tensor(loss).double())
            each.append(aggregated(name, sent, 2))
        torch.testing.assert_close(*each, msg=str(strange))
