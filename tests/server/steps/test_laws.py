"""What holds of every server in the folder."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from clients_sent import drawn, members, walked
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import troth
from troth import files, lookup
from troth.server import rules
from troth.types import Broadcast, Refusal

SERVERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in lookup.names("server")),
    ("sgd", {"momentum": 0.9}),
    ("adagrad", {"beta1": 0.9}),
]
EVERY = pytest.mark.parametrize(("name", "options"), SERVERS, ids=str)
DTYPES = [torch.float32, torch.float64]


ADAPTIVE = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3}
MEMBERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "adagrad": ({"lr": 0.1, "beta1": 0.0, "tau": 1e-3}, ["reddi2021adaptive"]),
    "adam": (ADAPTIVE, ["reddi2021adaptive"]),
    "sgd": ({"lr": 1.0, "momentum": 0.0}, []),
    "yogi": (ADAPTIVE, ["reddi2021adaptive"]),
}
NAN, INF = math.nan, math.inf
ADAPT = ["adagrad", "adam", "yogi"]
LR = "must be a finite number of at least 0; 1 takes the whole step, 0 none$"
REFUSED: list[tuple[list[str], str, list[float], str]] = [
    (lookup.names("server"), "lr", [-0.1, NAN, INF, 1e300], LR),  # 1e300: no float32
    (ADAPT, "tau", [0.0, -1.0, NAN, INF], "must be a finite number above 0"),
    (ADAPT, "beta1", [-0.1, 1.1, NAN], "must lie in .0, 1.; 0 keeps"),
    (["adam", "yogi"], "beta2", [-0.1, 1.1, NAN], "must lie in .0, 1.; 0 keeps"),
    (["sgd"], "momentum", [-0.1, 1.0, 2.0, NAN], "must be at least 0 and below 1"),
]
SECOND: dict[str, Any] = {
    "adagrad": lambda v, s, beta2: v + s,
    "adam": lambda v, s, beta2: beta2 * v + (1 - beta2) * s,
    "yogi": lambda v, s, beta2: v - (1 - beta2) * s * np.sign(v - s),
}


def test_options_and_papers():
    """The options are those of the paper's experiments."""
    assert members("server") == MEMBERS


@pytest.mark.parametrize(("names", "option", "values", "words"), REFUSED)
def test_refusals(names, option, values, words):
    w = torch.ones(2)
    for name in names:
        for value in values:
            said = f"^server.{option} = {re.escape(str(value))} {words}"
            with pytest.raises(Refusal, match=said):
                after(lift(name, {option: value}), w, w[None])


def by_definition(steps, name, lr, beta1, beta2, tau):
    """Algorithm 2 of Reddi et al., as it stands there but for v₋₁ = 0."""
    m = v = x = np.zeros(steps.shape[1])
    found = []
    for step in steps:
        m = beta1 * m + (1 - beta1) * step
        v = SECOND[name](v, step**2, beta2)
        x = x + lr * m / (np.sqrt(v) + tau)
        found.append(x)
    return np.stack(found)


@pytest.mark.parametrize("name", SECOND)
def test_as_the_paper_defines_it(name):
    steps = np.random.default_rng(0).normal(size=(40, 3)) * [1e-4, 1.0, 1e4]
    for beta1 in (0.0, 0.9, 1.0):
        for beta2 in (0.0, 0.5, 0.99, 1.0):
            given_ = {"lr": 0.1, "beta1": beta1, "beta2": beta2, "tau": 1e-3}
            expected = by_definition(steps, name, **given_)
            known = {k: v for k, v in given_.items() if k in MEMBERS[name][0]}
            found = walked(lookup.find("server", name), steps, **known)
            rtol = 1e-9 if name == "yogi" else 1e-11
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)


def lift(name, options):
    return rules.lift("server", name, lookup.check("server", name, options))


def sent(w):
    return Broadcast(w, w.new_zeros(3), w.new_ones(()))


def after(rule, w, steps):
    """The model and the memory after these steps, from no memory."""
    memory = rules.no_memory()
    for r, step in enumerate(steps):
        w, memory = rule(memory, broadcast=sent(w), step=step, round_=r)
    return w, memory


@EVERY
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 7])
def test_keeps_type_device_and_shape(name, options, dtype, d):
    rule, steps = lift(name, options), drawn(4, d, dtype=dtype)
    w, memory = rule(rules.no_memory(), broadcast=sent(steps[0]), step=steps[1])
    shape = memory.shape
    for step in steps:
        w, memory = rule(memory, broadcast=sent(w), step=step)
        assert (w.shape, w.dtype, w.device) == ((d,), dtype, step.device)
        assert isinstance(memory, Tensor) and memory.shape == shape
        assert memory.numel() == 0 or memory.dtype == dtype


@EVERY
def test_does_not_touch_what_it_reads(name, options):
    rule, steps = lift(name, options), drawn(4, 5)
    first, again = (after(rule, steps[0], steps) for _ in range(2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    for rounds in (0, 2):  # without memory and with it
        w, memory = after(rule, steps[0].clone(), steps[1 : 1 + rounds])
        read = (w, memory, steps)
        kept = [t.clone() for t in read]
        again, new = rule(memory, broadcast=sent(w), step=steps[3])
        assert all(torch.equal(a, b) for a, b in zip(read, kept, strict=True))
        assert not torch.equal(again, w)
        again.zero_(), new.zero_()  # what it gives is nobody else's
        assert all(torch.equal(a, b) for a, b in zip(read, kept, strict=True))


@EVERY
def test_where_nothing_moves_the_model_stays(name, options):
    """Without a step; and without a rate, however far the step would lead."""
    w = drawn(1, 5)[0]
    found, _ = after(lift(name, options), w, torch.zeros(3, 5, dtype=w.dtype))
    assert torch.equal(found, w)
    found, _ = after(lift(name, options | {"lr": 0.0}), w, drawn(3, 5) * 1e300)
    assert torch.equal(found, w)


@EVERY
def test_the_first_step_leads_where_the_update_points(name, options):
    step = drawn(1, 50)[0]
    w, _ = after(lift(name, options), torch.zeros(50, dtype=step.dtype), step[None])
    assert torch.equal(w.sign(), step.sign())


@EVERY
@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(4)), seed=st.integers(0, 99))
def test_coordinates_do_not_meet(name, options, order, seed):
    rule = lift(name, options)
    steps = drawn(5, 4) * torch.logspace(-seed, seed, 4, dtype=torch.float64)
    w, _ = after(rule, steps[0], steps)
    mixed, _ = after(rule, steps[0][order], steps[:, order])
    torch.testing.assert_close(mixed, w[order], rtol=1e-13, atol=0)


@EVERY
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.4, 1e-5, 1e-12])
def test_a_huge_step_is_survived(name, options, dtype, share):
    """No square of it overflows, and afterwards steps still move the model."""
    rule, huge = lift(name, options), torch.finfo(dtype).max * share
    steps = torch.tensor([[1.0], [huge], [-huge]], dtype=dtype)
    w, memory = after(rule, torch.zeros(1, dtype=dtype), steps)
    assert w.isfinite().all() and memory.isfinite().all()
    again, memory = rule(memory, broadcast=sent(w * 0), step=-steps[1])
    assert memory.isfinite().all() and again.isfinite().all() and again.any()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("yogi", {}),
        *(
            pytest.param(*one, marks=pytest.mark.slow("a run, a kill and a resume"))
            for one in SERVERS
            if one[0] != "yogi"
        ),
    ],
    ids=str,
)
def test_memory_goes_through_a_checkpoint(tmp_path, name, options):
    """A run that was killed ends with the bytes of one that was not."""
    draw = np.random.default_rng(0)
    data = tmp_path / "data.npz"
    owner = np.repeat(np.arange(5), 8)
    np.savez(data, x=draw.random((40, 3)), y=draw.integers(0, 2, 40), owner=owner)
    tree = {
        "data": {"name": "npz", "path": str(data)},
        "partition": {"name": "natural", "split": [0.6, 0.1, 0.3]},
        "train": {"rounds": 4, "cohort": 3},
        "server": {"name": name, **options},
        "engine": {"how": "threads", "device": "cpu"},
        "checkpoint": {"every": 1},
    }
    troth.run(tree, out=tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(progress):
        if progress.done == 3:
            raise Killed

    with pytest.raises(Killed):
        troth.run(tree, out=tmp_path / "cut", watch=kill)
    troth.resume(tmp_path / "cut")
    for file in (files.ROUNDS, files.CLIENTS, files.SHARED):
        whole, cut = (tmp_path / run / file for run in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes(), file
