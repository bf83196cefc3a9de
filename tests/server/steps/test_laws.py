"""What holds of every server in the folder."""

import math
import re

import numpy as np
import pytest
import torch
from clients_sent import broadcast, drawn, natural, walked
from hypothesis import given, settings
from hypothesis import strategies as st

import troth
from troth import lookup
from troth.server import rules
from troth.types import Refusal

SERVERS = [(name, {}) for name in lookup.names("server")]
SERVERS += [("sgd", {"momentum": 0.9}), ("adagrad", {"beta1": 0.9})]
EVERY = pytest.mark.parametrize(("name", "options"), SERVERS, ids=str)
BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
NAN, INF = math.nan, math.inf
ADAPT = ["adagrad", "adam", "yogi"]
LR = "must be a finite number of at least 0; 1 takes the whole step, 0 none$"
REFUSED = [
    (lookup.names("server"), "lr", [-0.1, NAN, INF, 1e300], LR),  # 1e300: no float32
    (ADAPT, "tau", [0.0, -1.0, NAN, INF], "must be a finite number above 0"),
    (ADAPT, "beta1", [-0.1, 1.1, NAN], "must be in .0, 1.; 0 uses"),
    (["adam", "yogi"], "beta2", [-0.1, 1.1, NAN], "must be in .0, 1.; 0 uses"),
    (["sgd"], "momentum", [-0.1, 1.0, 2.0, NAN], "must be at least 0 and below 1"),
]
SECOND = {
    "adagrad": lambda v, s, beta2: v + s,
    "adam": lambda v, s, beta2: beta2 * v + (1 - beta2) * s,
    "yogi": lambda v, s, beta2: v - (1 - beta2) * s * np.sign(v - s),
}


def lift(name, options):
    return rules.lift("server", name, lookup.check("server", name, options))


def after(rule, w, steps, memory=None):
    """The model and the memory after these steps."""
    memory = rules.no_memory() if memory is None else memory
    for r, step in enumerate(steps):
        w, memory = rule(memory, broadcast=broadcast(w, 3), step=step, round_=r)
    return w, memory


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
@pytest.mark.parametrize("beta1", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("beta2", [0.0, 0.5, 0.99, 1.0])
def test_as_the_paper_defines_it(name, beta1, beta2):
    steps = np.random.default_rng(0).normal(size=(40, 3)) * [1e-4, 1.0, 1e4]
    options = {"lr": 0.1, "beta1": beta1, "beta2": beta2, "tau": 1e-3}
    expected = by_definition(steps, name, **options)
    server = lookup.find("server", name)
    known = {k: v for k, v in options.items() if k in lookup.options(server)}
    found = walked(server, steps, **known)
    rtol = 1e-9 if name == "yogi" else 1e-11
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)


@EVERY
@BOTH
@pytest.mark.parametrize("d", [1, 7])
def test_keeps_type_device_and_shape(name, options, dtype, d):
    rule, steps = lift(name, options), drawn(4, d, dtype=dtype)
    w, memory = after(rule, steps[0], steps[1:2])
    shape = memory.shape
    for step in steps:
        w, memory = after(rule, w, step[None], memory)
        assert (w.shape, w.dtype, w.device) == ((d,), dtype, step.device)
        assert memory.shape == shape and (not len(memory) or memory.dtype == dtype)


@EVERY
def test_does_not_touch_what_it_reads(name, options):
    rule, steps = lift(name, options), drawn(4, 5)
    first, again = (after(rule, steps[0], steps) for _ in range(2))
    assert all(map(torch.equal, first, again))
    for rounds in (0, 2):  # without memory and with it
        w, memory = after(rule, steps[0].clone(), steps[1 : 1 + rounds])
        read = (w, memory, steps)
        kept = [t.clone() for t in read]
        again, new = after(rule, w, steps[3:], memory)
        assert not torch.equal(again, w)
        again.zero_(), new.zero_()  # what it gives is nobody else's
        assert all(map(torch.equal, read, kept))


@EVERY
def test_where_nothing_moves_the_model_stays(name, options):
    """Without a step; and without a rate, however far the step would lead."""
    w, steps = drawn(1, 5)[0], drawn(3, 5)
    assert torch.equal(after(lift(name, options), w, steps * 0)[0], w)
    still = lift(name, options | {"lr": 0.0})
    assert torch.equal(after(still, w, steps * 1e300)[0], w)


@EVERY
def test_the_first_step_leads_where_the_update_points(name, options):
    step = drawn(1, 50)
    w, _ = after(lift(name, options), torch.zeros_like(step[0]), step)
    assert torch.equal(w.sign(), step[0].sign())


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
@BOTH
@pytest.mark.parametrize("share", [0.4, 1e-5, 1e-12])
def test_a_huge_step_is_survived(name, options, dtype, share):
    """No square of it overflows, and afterwards steps still move the model."""
    rule, huge = lift(name, options), torch.finfo(dtype).max * share
    steps = torch.tensor([[1.0], [huge], [-huge]], dtype=dtype)
    w, memory = after(rule, steps[0] * 0, steps)
    assert w.isfinite().all() and memory.isfinite().all()
    again, memory = after(rule, w * 0, -steps[1:2], memory)
    assert memory.isfinite().all() and again.isfinite().all() and again.any()


SLOW = pytest.mark.slow("a run, a kill and a resume")
REST = [pytest.param(*one, marks=SLOW) for one in SERVERS if one[0] != "yogi"]


@pytest.mark.parametrize(("name", "options"), [("yogi", {}), *REST], ids=str)
def test_memory_goes_through_a_checkpoint(tmp_path, killed, contents, name, options):
    """A run that was killed ends with the bytes of one that was not."""
    draw, owner = np.random.default_rng(0), np.repeat(np.arange(5), 8)
    arrays = {"x": draw.random((40, 3)), "y": draw.integers(0, 2, 40), "owner": owner}
    tree = natural(tmp_path / "data.npz", [0.6, 0.1, 0.3], **arrays) | {
        "train": {"rounds": 4, "cohort": 3},
        "personalizer": "ditto",
        "server": {"name": name, **options},
        "engine": {"how": "threads", "device": "cpu"},
        "checkpoint": {"every": 1},
    }
    troth.run(tree, out=tmp_path / "whole")
    killed(tree, 3, tmp_path / "cut")
    troth.resume(tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
