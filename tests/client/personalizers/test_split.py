"""Vectors in two parts: taken apart, put together, and stepped."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.client.personalizers._split import Halves, Runs

from ..hand import ONE, OPTIMIZERS, by, drawn

MASKS = st.lists(st.booleans(), min_size=0, max_size=12)


@settings(max_examples=100, deadline=None)
@given(MASKS)
def test_runs_as_indexing_does_it(flags):
    mask, v = torch.tensor(flags, dtype=torch.bool), drawn(len(flags), seed=0)
    runs, new = Runs(mask), drawn(sum(flags))
    own, shared = runs.take(v, True), runs.take(v, False)
    assert own.equal(v[mask]) and shared.equal(v[~mask])
    assert runs.weave(own, shared).equal(v)
    expected = v.clone()
    expected[mask] = new
    assert runs.put(v, new).equal(expected)
    rows = torch.stack([v, 2 * v, v - 1])
    lifted = torch.func.vmap(lambda one: runs.put(one, runs.take(-one, True)))(rows)
    assert lifted.equal(torch.where(mask, -rows, rows))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=9), MASKS, st.data())
def test_halves_step_as_the_whole(optimizer, flags, pairs, data):
    """Every optimizer of ours goes number by number: apart or together is the same."""
    mask, tail = torch.tensor([*flags, *pairs, *pairs]), 2 * len(pairs)
    halves, how = Halves(mask, tail), by(0.1, optimizer, 0.3, tail)
    v = drawn(len(mask), seed=0)
    assert halves.join(halves.half(v, True), halves.half(v, False)).equal(v)
    moments = [how.init(halves.half(v, own)) for own in (True, False)]
    whole, all_moments, apart = v, how.init(v), v
    for t in range(data.draw(st.integers(1, 3))):
        g, parts = drawn(len(mask), seed=t + 1), []
        whole, all_moments = how.step(whole, g, all_moments, ONE)
        for k, own in enumerate((True, False)):
            half, pull = halves.half(apart, own), halves.half(g, own)
            part, moments[k] = how.step(half, pull, moments[k], ONE)
            parts.append(part)
        apart = halves.join(*parts)
    torch.testing.assert_close(apart, whole, rtol=1e-13, atol=1e-13)
