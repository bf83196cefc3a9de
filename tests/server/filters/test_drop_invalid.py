import pytest
import torch
from clients_sent import messages as sent_by
from torch import Tensor

from troth.server.filters.drop_invalid import all_finite, drop_invalid
from troth.types import Broadcast

BAD = [float("nan"), float("inf"), float("-inf")]


def sent(d=3, e=0, dtype=torch.float32):
    zero = torch.zeros
    return Broadcast(zero(d, dtype=dtype), zero(e, dtype=dtype), torch.ones(()))


def messages(update, extra=None):
    """`update` and `extra` may be lists of vectors."""
    n = len(update)
    beside = torch.zeros(n, 0) if extra is None else extra
    made = sent_by(torch.zeros(n, 1), torch.arange(n) + 40)
    return made._replace(update=update, extra=beside)


def rows(n=4, d=3):
    return torch.arange(1.0, n * d + 1).reshape(n, d)


def test_good_messages_pass_as_they_are():
    given = messages(rows())
    assert drop_invalid(sent(), given) is given


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("at", [(0, 0), (2, 1), (3, 2)])
def test_a_row_that_is_no_vector_of_numbers_goes(bad, at):
    update = rows()
    update[at] = bad
    left = [i for i in range(4) if i != at[0]]
    found = drop_invalid(sent(), messages(update))
    assert torch.equal(found.update, rows()[left])
    assert found.extra.shape == (3, 0)
    assert found.client.tolist() == [40 + i for i in left]
    assert found.size.tolist() == [1 + i for i in left]
    assert found.loss.tolist() == pytest.approx([i / 10 for i in left])


@pytest.mark.parametrize("bad", BAD)
def test_what_travels_beside_counts_too(bad):
    extra = torch.ones(4, 2)
    extra[1, 1] = bad
    found = drop_invalid(sent(e=2), messages(rows(), extra))
    assert found.client.tolist() == [40, 42, 43]
    assert torch.equal(found.extra, torch.ones(3, 2))


def test_the_largest_numbers_are_numbers():
    update = torch.tensor([[3e38, -3e38, 1e-45]])
    assert drop_invalid(sent(), messages(update)).update is update


def test_a_reported_loss_that_is_no_number_is_no_reason():
    given = messages(rows())._replace(loss=torch.full((4,), torch.nan))
    assert len(drop_invalid(sent(), given).client) == 4


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("e", [0, 2])
def test_none_left(n, e):
    given = messages(torch.full((n, 3), torch.nan), torch.zeros(n, e))
    found = drop_invalid(sent(e=e), given)
    assert [tuple(field.shape) for field in found] == [(0, 3), (0, e), (0,), (0,), (0,)]


def test_lists_become_a_matrix():
    update = list(rows())
    found = drop_invalid(sent(), messages(update, [torch.zeros(0)] * 4))
    assert isinstance(found.update, Tensor)
    assert torch.equal(found.update, rows())
    assert found.extra.shape == (4, 0)


def test_wrong_lengths_among_lists_go():
    short, long, deep = torch.ones(2), torch.ones(4), torch.ones(1, 3)
    point, empty = torch.ones(()), torch.ones(0)
    update = [rows()[0], short, long, rows()[1], deep, point, empty]
    found = drop_invalid(sent(), messages(update, [torch.zeros(0)] * 7))
    assert torch.equal(found.update, rows()[:2])
    assert found.client.tolist() == [40, 43]
    assert found.size.tolist() == [1, 4]


def test_wrong_lengths_beside_go():
    extra = [torch.ones(2), torch.ones(1), torch.ones(2), torch.ones(0)]
    found = drop_invalid(sent(e=2), messages(list(rows()), extra))
    assert found.client.tolist() == [40, 42]
    assert found.extra.shape == (2, 2)


@pytest.mark.parametrize("bad", BAD)
def test_wrong_lengths_and_wrong_numbers_in_one_list(bad):
    update = [torch.ones(9), torch.tensor([1.0, bad, 2.0]), rows()[0]]
    found = drop_invalid(sent(), messages(update, [torch.zeros(0)] * 3))
    assert found.client.tolist() == [42]
    assert torch.equal(found.update, rows()[:1])


def test_a_list_of_which_none_fits():
    found = drop_invalid(sent(e=2), messages([torch.ones(2)], [torch.ones(2)]))
    assert [tuple(field.shape) for field in found] == [(0, 3), (0, 2), (0,), (0,), (0,)]


def test_a_list_beside_a_matrix():
    many, matrix = list(rows()), torch.ones(4, 2)
    ragged = [torch.ones(2), torch.ones(1), torch.ones(2), torch.ones(2)]
    found = drop_invalid(sent(e=2), messages(many, matrix))
    assert torch.equal(found.update, rows())
    assert torch.equal(found.extra, matrix)
    found = drop_invalid(sent(e=2), messages(rows(), ragged))
    assert found.client.tolist() == [40, 42, 43]
    assert found.extra.shape == (3, 2)


def test_lists_take_the_precision_of_the_model():
    update = [torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.long)]
    found = drop_invalid(sent(), messages(update, [torch.zeros(0)] * 2))
    assert found.update.dtype == torch.float32


def test_what_overflows_in_that_precision_goes():
    update = [torch.full((3,), 1e300, dtype=torch.float64), torch.ones(3)]
    found = drop_invalid(sent(), messages(update, [torch.zeros(0)] * 2))
    assert found.client.tolist() == [41]


@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("e", [0, 2])
def test_a_matrix_of_the_wrong_width_goes_whole(width, e):
    found = drop_invalid(sent(e=e), messages(torch.ones(4, width), torch.ones(4, e)))
    assert [tuple(field.shape) for field in found] == [(0, 3), (0, e), (0,), (0,), (0,)]


@pytest.mark.parametrize(("e", "given"), [(0, 1), (2, 1), (2, 3)])
def test_a_matrix_beside_of_the_wrong_width_takes_all_along(e, given):
    found = drop_invalid(sent(e=e), messages(rows(), torch.ones(4, given)))
    assert [tuple(field.shape) for field in found] == [(0, 3), (0, e), (0,), (0,), (0,)]


def test_it_says_beforehand_whether_all_rows_are_numbers():
    """Without a look at the device; of lists it cannot say."""
    good, bad = rows(), rows()
    bad[1, 2] = torch.inf
    assert all_finite(sent(), messages(good)).tolist() == [True]
    assert all_finite(sent(), messages(bad)).tolist() == [False]
    extra = torch.tensor([[0.0], [torch.nan], [0.0], [0.0]])
    assert all_finite(sent(e=1), messages(good, extra)).tolist() == [False]
    for other in (list(good), torch.ones(4, 2)):
        assert all_finite(sent(), messages(other)).tolist() == []
