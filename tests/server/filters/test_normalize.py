import pytest
import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.filters.normalize import normalize


def of(update, **options):
    return normalize(messages(update), **options).update


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=6),
    st.sampled_from([1e-30, 1.0, 2.5, 1e30]),
)
def test_every_row_is_as_long(row, length):
    update = torch.tensor([row], dtype=torch.float32)
    found = of(update, length=length).double()
    norm = float(torch.linalg.vector_norm(found))
    assert norm == pytest.approx(length if any(row) else 0.0, rel=1e-5)
    if any(row):  # and it points where it did
        cosine = torch.nn.functional.cosine_similarity(found, update.double(), eps=0.0)
        assert float(cosine) == pytest.approx(1.0, abs=1e-6)
