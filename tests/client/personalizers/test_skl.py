import pytest
import torch

from ..small import THREADS, built, done


@pytest.mark.parametrize(("keep", "regularizer"), [("best", "l2sq"), ("last", "l2")])
def test_is_ditto_finetune_with_kl_exactly(tree, keep, regularizer):
    """Whatever `[regularizer]` says: so a step by hand is one of that."""
    own = {"lam": 0.8, "steps": 5, "keep": keep, "lr": 0.2}
    first = tree("linear", {"name": "skl", **own}, regularizer=regularizer)
    second = tree("linear", {"name": "ditto_finetune", **own}, regularizer="kl")
    free = tree("linear", {"name": "finetune", "steps": 5, "lr": 0.2})
    found, same, other = (done(built(t, THREADS)) for t in (first, second, free))
    assert torch.equal(found, same)
    assert not torch.allclose(found, other, 0, 1e-5)


def test_keeps_predictions_near(tree):
    """The stronger the pull, the nearer to what the shared model predicts."""
    away = []
    for lam in (0.0, 0.5, 2.0):
        own = {"name": "skl", "lam": lam, "steps": 30, "lr": 0.05}
        ready = built(tree("linear", own), THREADS)
        predict, x = ready.federation.engine.task.predict, ready.data.x
        each = torch.stack([predict(v, x).softmax(1) for v in done(ready)])
        p = predict(ready.federation.broadcast.w, x).softmax(1)
        away.append((each - p).abs().sum(2).mean().item())
    assert away[0] > 1.2 * away[1] > 1.2 * 1.2 * away[2] > 0
