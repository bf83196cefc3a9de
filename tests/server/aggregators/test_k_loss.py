import math

import torch
from clients_sent import RANDOM, column, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import lookup
from troth.server.aggregators.k_loss import k_loss

SENT = column(10.0, 20.0, 30.0, 40.0)
STRANGE = [math.nan, math.inf, -math.inf]


def test_reads_the_losses_it_is_given():
    """And neither those in the messages nor the updates."""
    sent = SENT._replace(loss=torch.tensor([9.0, 0.0, 0.0, 0.0]))
    found, said = noted(k_loss, sent, torch.tensor([0.0, 0.0, 9.0, 8.0]), f=1)
    assert found.tolist() == [40.0]
    assert said["chosen"].tolist() == [False, False, False, True]
    assert "loss" in lookup.asks(k_loss)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-3, 3) | st.sampled_from(STRANGE), min_size=1, max_size=10),
    st.integers(0, 12),
    RANDOM,
)
def test_as_sorting_does(loss, f, random):
    """Whatever is reported is believed; what is no number is largest.

    Of equal losses the lowest id comes first.
    """
    n = len(loss)
    client = random.sample(range(50), n)
    size = [-math.inf if math.isnan(v) else -v for v in loss]
    ranked = sorted(zip(size, client, range(n), strict=True))
    sent = messages(torch.arange(float(n))[:, None], client)
    found = k_loss(sent, torch.tensor(loss, dtype=torch.float32), f=f, strict=False)
    assert found.item() == ranked[min(f, n - 1)][2]
