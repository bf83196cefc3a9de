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
