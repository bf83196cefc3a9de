"""Which model on the way from the shared one is kept, and who wins a tie."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.client.personalizers._tuned import Way, way
from troth.types import Refusal

from ..hand import BOWL, INF, NAN, ONE, batch, by
from ..small import THREADS, built, done

SCORES = st.sampled_from([0.0, 1.0, 2.0, 2.0, NAN, INF])


def walked(scores, per_epoch, select, valid=None):
    """Where a client ends whose model counts its steps, judged by this table."""
    table = torch.tensor(scores, dtype=ONE.dtype)
    one = Way(by(1.0), lambda v, valid: table[v.long()], select)
    valid = batch(1.0) if valid is None else valid
    carry = one.begin(torch.zeros((), dtype=ONE.dtype))
    for t in range(len(scores) - 1):
        seen = batch(1.0, t=t, per_epoch=per_epoch)
        carry = one.step(carry, lambda v: -ONE, seen, valid, ONE)
    return int(one.end(carry, valid))


def expected(scores, per_epoch, select):
    """The best candidate: by the first number, then the second, then the latest."""
    last, found = len(scores) - 1, []
    for t, (first, second) in enumerate(scores):
        candidate = select == "step" or t % per_epoch == 0 or t == last
        if candidate and math.isfinite(first) and math.isfinite(second):
            found.append((first, INF if t == 0 < last else second, -t))
    return -min(found)[2] if found else 0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=9),
    st.integers(1, 4),
    st.sampled_from(["epoch", "step"]),
)
def test_the_kept_model_by_an_oracle(scores, per_epoch, select):
    assert walked(scores, per_epoch, select) == expected(scores, per_epoch, select)


@pytest.mark.parametrize(
    ("scores", "per_epoch", "select", "kept"),
    [
        ([(1, 0)] * 7, 2, "epoch", 6),  # all are equal: the latest
        ([(1, 0)] * 6, 2, "step", 5),
        ([(1, 0), (1, 9), (1, 9), (2, 0)], 1, "epoch", 2),  # w* loses the tie
        ([(0, 0), (1, 0), (1, 0)], 1, "epoch", 0),  # w* is strictly better
        ([(3, 0), (2, 5), (2, 1), (2, 4)], 1, "epoch", 2),  # equal: the second number
        ([(3, 0), (0, 0), (2, 0), (2, 0), (3, 0)], 2, "epoch", 2),  # no epoch ends at 1
        ([(3, 0), (0, 0), (2, 0), (2, 0), (3, 0)], 2, "step", 1),
        ([(3, 0), (2, 0), (2, 0), (1, 0)], 2, "epoch", 3),  # the last always counts
    ],
)
def test_ties_by_hand(scores, per_epoch, select, kept):
    assert walked(scores, per_epoch, select) == kept
    assert walked(scores, per_epoch, select, batch(padding=3)) == len(scores) - 1


def test_clients_with_epochs_of_their_own_choose_together():
    """Lifted, with another number of batches in each client's epoch."""
    scores = [(9, 0), (1, 1), (2, 0), (0, 0), (1, 1), (3, 0), (2, 0)]
    table = torch.tensor(scores, dtype=ONE.dtype)
    one = Way(
        by(1.0),
        lambda v, valid: (table * (v == torch.arange(7))[:, None]).sum(0),
        "epoch",
    )
    each = torch.arange(1, 6)

    def client(per_epoch):
        carry = one.begin(torch.zeros((), dtype=ONE.dtype))
        for t in range(6):
            seen = batch(1.0, t=t)._replace(per_epoch=per_epoch)
            carry = one.step(carry, lambda v: -ONE, seen, batch(1.0), ONE)
        return one.end(carry, batch(1.0))

    found = torch.func.vmap(client)(each).long().tolist()
    assert found == [expected(scores, int(k), "epoch") for k in each]
    assert len({*found}) > 2


@pytest.mark.parametrize("name", ["finetune", "skl", "transfer"])
def test_equal_accuracies_do_not_keep_the_shared_model(tree, name):
    """Steps too small to change a prediction: a trained model, not w* bit for bit."""
    small = {"name": name, "steps": 6, "lr": 1e-7, "keep": "accurate"}
    ready = built(tree("linear", small, adversarial={"bounds": []}), THREADS)
    found, w = done(ready), ready.federation.broadcast.w
    assert (found - w).abs().max() < 1e-5
    assert not any(torch.equal(v, w) for v in found)


def test_select_needs_a_choice():
    with pytest.raises(
        Refusal, match="select = 'step' does nothing with keep = 'last'"
    ):
        way(BOWL, by(0.1), "last", "step")
    assert way(BOWL, by(0.1), "best", "step").select == "step"
