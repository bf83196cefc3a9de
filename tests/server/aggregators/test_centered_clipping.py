import pytest
import torch
from clients_sent import DENORMAL, drawn, matrices, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.centered_clipping import centered_clipping

WIDE = torch.float64
NONE = torch.zeros(0)


def of(update, memory=NONE, **options):
    return centered_clipping(messages(update), memory, **options)[0]


def by_definition(update, v, tau, iterations):
    for _ in range(iterations):
        gaps = [u - v for u in update]
        clipped = [g * min(1.0, tau / max(float(g.norm()), 1e-300)) for g in gaps]
        v = v + torch.stack(clipped).mean(dim=0)
    return v


def test_far_rows_count_with_their_direction():
    for far in (1e30, 3e38):
        update = torch.tensor([[far, 0.0], [-far, 0.0], [0.0, far]])
        assert of(update, tau=3.0).tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 5), (9, 3), (30, 40), (5, 500_000)])
@pytest.mark.parametrize("tau", [1e-3, 1.5, 100.0, 1e30])
def test_as_its_definition(n, d, tau):
    update, start = drawn(n, d), drawn(1, d, seed=3)[0]
    for iterations in (1, 2) if d > 1000 else (1, 2, 7):
        found = of(update, start, tau=tau, iterations=iterations)
        expected = by_definition(update, start, tau, iterations)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_remembers_where_it_ended():
    first, memory = centered_clipping(messages(drawn(5, 3)), NONE, tau=0.1)
    assert torch.equal(first, memory)
    second, again = centered_clipping(messages(drawn(5, 3, seed=1)), memory, tau=0.1)
    torch.testing.assert_close(second, by_definition(drawn(5, 3, 1), first, 0.1, 1))
    assert torch.equal(second, again)
    second.add_(1.0)
    assert not torch.equal(second, again)  # the memory is its own


def test_starts_anew_where_the_width_differs_or_it_need_not_remember():
    sent, expected = messages(drawn(5, 3)), of(drawn(5, 3), tau=0.1)
    for other in (torch.ones(2), torch.ones(4), torch.ones(3, 1), torch.ones(1, 3)):
        assert torch.equal(of(sent.update, other, tau=0.1), expected)
    memory = torch.ones(3, dtype=WIDE)
    found, after = centered_clipping(sent, memory, tau=0.1, remember=False)
    assert torch.equal(found, expected) and after.tolist() == [1.0] * 3


def test_more_rounds_come_to_the_benign_ones():
    """Time works for it: two of nine far away, and a start far off as well."""
    benign = drawn(7, 20)
    update = torch.cat([benign, torch.full((2, 20), 1e9, dtype=WIDE)])
    memory = torch.full((20,), 30.0, dtype=WIDE)
    for _ in range(100):
        memory = of(update, memory, tau=5.0)
    assert float((memory - benign.mean(dim=0)).norm()) < 5.0


@settings(max_examples=100, deadline=None)
@given(
    matrices(st.floats(-(2.0**120), 2.0**120, width=32) | DENORMAL, 6),
    st.sampled_from([1e-6, 0.5, 10.0]),
    st.integers(1, 4),
)
def test_moves_no_farther_than_promised(rows, tau, iterations):
    update = torch.tensor(rows, dtype=torch.float32)
    start = drawn(1, update.shape[1])[0].float()
    found = of(update, start, tau=tau, iterations=iterations)
    assert found.isfinite().all()
    limit = iterations * tau + 1e-6 * iterations * float(start.norm())
    assert float((found.double() - start.double()).norm()) <= limit * (1 + 1e-6)


@pytest.mark.parametrize("size", [1e200, 1.7e308])
def test_rows_as_far_as_numbers_go_are_clipped(size):
    update, others = drawn(9, 30), torch.arange(9) != 4
    update[4] = size
    (found, _), said = noted(centered_clipping, messages(update), NONE, f=1)
    assert torch.equal(said["clipped"], ~others)
    rest = update[others].sum(dim=0) / 9
    assert float((found - rest).norm()) <= 10 / 9 * (1 + 1e-9)  # τ/n
