import pytest
import torch
from clients_sent import broadcast, column

from troth.server.filters.drop_invalid import all_finite, drop_invalid

BAD = pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
ROWS = torch.arange(1.0, 13.0).reshape(4, 3)


def messages(update, extra=None):
    """Messages of clients 40, 41, …"""
    n = len(update)
    beside = torch.zeros(n, 0) if extra is None else extra
    made = column(*[0.0] * n, client=torch.arange(n) + 40)
    return made._replace(update=update, extra=beside)


def left(update, extra=None, e=0):
    """What passes for a model of 3 parameters, and e numbers beside."""
    return drop_invalid(broadcast(torch.zeros(3), e), messages(update, extra))


def test_good_messages_pass_as_they_are():
    """The largest numbers, too, and losses that are no numbers."""
    given = messages(torch.tensor([[3e38, -3e38, 1e-45]] * 4))
    given = given._replace(loss=torch.full((4,), torch.nan))
    assert drop_invalid(broadcast(torch.zeros(3)), given) is given


@BAD
@pytest.mark.parametrize("at", [(0, 0), (2, 1), (3, 2)])
def test_a_row_that_is_no_vector_of_numbers_goes(bad, at):
    update = ROWS.clone()
    update[at] = bad
    found, rest = left(update), torch.tensor([i for i in range(4) if i != at[0]])
    assert torch.equal(found.update, ROWS[rest])
    assert found.extra.shape == (3, 0)
    assert torch.equal(found.client, 40 + rest)
    assert torch.equal(found.size, 1 + rest)
    torch.testing.assert_close(found.loss, rest / 10)


@BAD
def test_what_travels_beside_counts_too(bad):
    extra = torch.ones(4, 2)
    extra[1, 1] = bad
    found = left(ROWS, extra, e=2)
    assert found.client.tolist() == [40, 42, 43]
    assert torch.equal(found.extra, torch.ones(3, 2))


def none_left():
    """Messages of which no row may stay, and how many numbers travel beside."""
    for e in (0, 2):
        for n in (0, 1, 4):
            yield torch.full((n, 3), torch.nan), torch.zeros(n, e), e
        for width in (1, 2, 4, 9):
            yield torch.ones(4, width), torch.ones(4, e), e
    for e, given in ((0, 1), (2, 1), (2, 3)):  # a wrong width takes all along
        yield ROWS, torch.ones(4, given), e


@pytest.mark.parametrize(("update", "extra", "e"), [*none_left()])
def test_none_left(update, extra, e):
    shapes = [tuple(field.shape) for field in left(update, extra, e)]
    assert shapes == [(0, 3), (0, e), (0,), (0,), (0,)]


def test_it_says_beforehand_whether_all_rows_are_numbers():
    """Without waiting for the device; of rows of another length it cannot say."""

    def said(update, extra=None, e=0):
        sent = broadcast(torch.zeros(3), e)
        return all_finite(sent, messages(update, extra)).tolist()

    bad, beside = ROWS.clone(), torch.tensor([[0.0], [torch.nan], [0.0], [0.0]])
    bad[1, 2] = torch.inf
    assert [said(ROWS), said(bad), said(ROWS, beside, 1)] == [[True], [False], [False]]
    assert said(torch.ones(4, 2)) == []
