"""What holds of every filter in the folder: it never invents a message."""

import itertools
import math

import clients_sent
import pytest
import torch
from clients_sent import applied, drawn, mixed, same

from troth import lookup
from troth.types import Messages, Refusal

NAMES = lookup.names("filter")
EVERY = pytest.mark.parametrize("name", NAMES)
OPTIONS = {  # for members that cannot do without
    "nnm": {"f": 3, "strict": False},
    "plausible": {"radius": 2.0},
}
NAN, INF = math.nan, math.inf
RADIUS = "clip's radius = {} must be at least 0, and finite; 0 takes"
LENGTH = "normalize's length = {} must be a positive number"
REFUSED = [
    ("bucketing", "s", [0, -2], "bucketing's s = {} must be at least 1"),
    ("clip", "radius", [-1.0, NAN, INF, -INF], RADIUS),
    ("normalize", "length", [0.0, -1.0, NAN, INF], LENGTH),
    ("nnm", "f", [-1], "nnm's f = {} must be at least 0"),
    ("nnm", "f", ["auto"], "nnm's f = '{}' is known within"),
    ("nnm", "f", [5], r"nnm with f = {} holds for n ≥ 2f \+ 1 = 11, and n is 9;"),
    ("plausible", "radius", [0.0, NAN], "radius = {} must be above 0"),
    ("plausible", "slack", [-0.1, INF], "slack = {} must be at least 0, and finite"),
    ("plausible", "radius", ["auto"], "radius = '{}' is known only with personali"),
]
ONE_TO_ONE = ["clip", "drop_invalid", "nnm", "normalize"]
"""They keep every row that is a vector of numbers, and what was reported with it."""


def messages(n, dtype=torch.float32, extra=2):
    beside = drawn(n, extra, seed=1, dtype=dtype)
    return clients_sent.messages(
        drawn(n, 5, dtype=dtype), torch.arange(n) * 3 + 7, extra=beside
    )


def filtered(name, sent, **options):
    """As the round does it."""
    found, _, _ = applied("filter", name, sent, **OPTIONS.get(name, {}) | options)
    assert isinstance(found, Messages)
    return found


@pytest.mark.parametrize(("name", "option", "values", "words"), REFUSED)
def test_refusals(name, option, values, words):
    """Whether there are rows or none, but for what the number of rows decides."""
    for value in values:
        given = {"strict": True} if name == "nnm" else {}
        for n in (9,) if value == 5 else (0, 9):
            with pytest.raises(Refusal, match=words.format(value)):
                filtered(name, messages(n), **given, **{option: value})


@EVERY
def test_what_comes_out_is_of_what_came(name):
    """No more rows nor other clients, of the same types, finite, twice the same."""
    dtypes = torch.float32, torch.float64
    for n, dtype, extra in itertools.product((0, 1, 2, 9), dtypes, (0, 2)):
        sent = messages(n, dtype, extra)
        kept = Messages(*(field.clone() for field in sent))
        found = filtered(name, sent)
        assert same(sent, kept) and same(filtered(name, sent), found)
        ids = found.client.tolist()
        assert len({*ids}) == len(ids) <= n and {*ids} <= {*sent.client.tolist()}
        for field, before in zip(found, sent, strict=True):
            assert field.shape == (len(ids), *before.shape[1:])
            assert (field.dtype, field.device) == (before.dtype, before.device)
        assert found.update.isfinite().all() and found.extra.isfinite().all()


@EVERY
def test_clients_have_no_order(name):
    sent, draw = messages(11), torch.Generator().manual_seed(0)
    for order in (torch.randperm(11, generator=draw) for _ in range(4)):
        both = [filtered(name, each) for each in (sent, mixed(sent, order))]
        torch.testing.assert_close(*(mixed(one, one.client.argsort()) for one in both))


@pytest.mark.parametrize("name", ONE_TO_ONE)
def test_what_is_reported_stays(name):
    sent = messages(9)
    found = filtered(name, sent)
    for field in ("loss", "size", "client", *(() if name == "nnm" else ("extra",))):
        assert torch.equal(getattr(found, field), getattr(sent, field))


@EVERY
def test_equal_rows_stay(name):
    """Of any size; `normalize` keeps their direction alone."""
    values = 3e38, -3e38, 1e30, 7.0, 2.0**-149, 0.0
    for n, value in itertools.product((1, 2, 7), values):
        sent = messages(n)._replace(update=torch.full((n, 3), value))
        options = {"radius": INF} if name == "plausible" else {}
        found = filtered(name, sent, **options).update
        expected = sent.update[: len(found)]
        if name == "normalize":
            torch.testing.assert_close(found, expected.sign() / 3**0.5)
        else:
            assert torch.equal(found, expected)
