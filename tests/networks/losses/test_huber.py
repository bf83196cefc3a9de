import math

import numpy as np
import pytest
import torch
from torch.nn.functional import huber_loss

import troth
from troth import build
from troth.networks.losses.absolute import absolute
from troth.networks.losses.huber import huber
from troth.networks.losses.squared import squared
from troth.types import Refusal

F64 = torch.float64


def pair():
    draw = torch.Generator().manual_seed(0)
    f = 5 * torch.randn(200, 1, generator=draw, dtype=F64)
    return f, torch.randn(200, generator=draw, dtype=F64)


def test_by_hand():
    f, y = torch.tensor([[0.5], [2.0], [5.0], [-4.0]]), torch.zeros(4)
    # δ = 2: ½·0.25, ½·4 where they meet, 2·(5 − 1), 2·(4 − 1)
    assert huber(f, y, delta=2.0).tolist() == [0.125, 2.0, 8.0, 6.0]
    assert huber(f, y)[1] == 1.5  # δ = 1


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.1, 1.0, 4.0])
def test_it_is_torchs(delta):
    f, y = pair()
    theirs = huber_loss(f[:, 0], y, reduction="none", delta=delta)
    assert torch.equal(huber(f, y, delta=delta), theirs)
    far = (delta * absolute(f, y) - theirs).abs()  # a small one: δ times absolute
    assert bool((far <= delta**2 / 2 + 1e-15 * (1 + theirs)).all())


@pytest.mark.parametrize("delta", [1e3, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_large_delta_is_squared(delta, dtype):
    f, y = (t.to(dtype) for t in pair())
    torch.testing.assert_close(huber(f, y, delta=delta), squared(f, y))
    found = torch.func.grad(lambda f: huber(f, y, delta=delta).sum())(f)
    torch.testing.assert_close(found[:, 0], f[:, 0] - y)


@pytest.mark.parametrize("delta", [0.0, -1.0, math.inf, math.nan])
def test_refuses(delta):
    with pytest.raises(Refusal, match=f"delta = {delta} must be a positive, finite"):
        huber(*pair(), delta=delta)


def test_the_table_holds_the_loss_that_was_trained(tmp_path):
    x, noise = np.random.default_rng(0).normal(size=(2, 300, 1))
    np.savez(tmp_path / "data.npz", x=x, y=(2 * x + noise)[:, 0])
    wanted = {
        "data": {"name": "npz", "path": str(tmp_path / "data.npz")},
        "partition": {"name": "iid", "clients": 6},
        "train": {"rounds": 2, "loss": {"name": "huber", "delta": 0.5}},
        "engine": {"how": "loop", "device": "cpu"},
    }
    [run] = troth.run(wanted, out=tmp_path / "run")
    data, k = build.build(run.experiment).data, 3
    test = data.test
    rows = slice(int(test.start[k]), int(test.start[k] + test.size[k]))
    y = test.y[rows]
    with torch.no_grad():
        f = run.shared()(data.x[test.row[rows]])
    loss, error = huber(f, y, delta=0.5).mean(), (f[:, 0] - y).square().mean()
    assert run.clients["shared_loss"][k] == pytest.approx(float(loss), rel=1e-5)
    assert run.clients["shared_error"][k] == pytest.approx(float(error), rel=1e-5)
