import pytest
import torch
from clients_sent import messages

from troth.server.attacks.mimic import mimic

EMPTY = torch.zeros(0)
UPDATE = torch.tensor([[1.0, 0.1], [0.0, 0.0], [-5.0, 0.2], [2.0, -0.1], [9.0, 9.0]])
HOSTILE = torch.tensor([False, False, False, False, True])


def chosen(found):
    """The rows that the last one is a copy of."""
    update = found[0].update
    return [i for i in range(len(update) - 1) if torch.equal(update[i], update[-1])]


def test_by_hand():
    """They vary along the first axis; −5 is farthest out."""
    found, memory = mimic(messages(UPDATE), HOSTILE, EMPTY)
    assert torch.equal(found.update[4], UPDATE[2])
    assert torch.equal(found.update[:4], UPDATE[:4])
    z = memory / memory.norm()
    assert z[0] < -0.99  # towards the row that it copies
    deviations = UPDATE[:4] - UPDATE[:4].mean(dim=0)
    largest = torch.linalg.svdvals(deviations)[0]
    torch.testing.assert_close(memory.norm(), largest)


@pytest.mark.parametrize("client", range(4))
def test_a_given_client(client):
    found, memory = mimic(messages(UPDATE), HOSTILE, EMPTY, client=client)
    assert torch.equal(found.update[4], UPDATE[client])
    assert memory is EMPTY


@pytest.mark.parametrize("client", [0, 14, 99])
def test_a_client_that_is_not_there_or_is_hostile(client):
    """The lowest benign id, wherever its row stands."""
    ids = torch.tensor([13, 11, 10, 12, 14])
    found, _ = mimic(messages(UPDATE, ids), HOSTILE, EMPTY, client=client)
    assert torch.equal(found.update[4], UPDATE[2])


def test_a_client_that_sent_no_numbers():
    update = UPDATE.clone()
    update[1, 0] = torch.nan
    found, _ = mimic(messages(update), HOSTILE, EMPTY, client=1)
    assert torch.equal(found.update[4], UPDATE[0])


def test_the_first_round_is_the_first_principal_axis():
    """Against the whole singular value decomposition; copies are bit for bit."""
    for seed in range(20):
        draw = torch.Generator().manual_seed(seed)
        update = torch.randn(9, 6, generator=draw) * torch.tensor([1, 3, 1, 1, 1, 2])
        hostile = torch.arange(9) == 8
        found = mimic(messages(update), hostile, EMPTY)
        rows = update[:8].double()
        z = torch.linalg.svd(rows - rows.mean(dim=0)).Vh[0]
        assert chosen(found) == [int((rows @ z).abs().argmax())]
        unit = found[1].double() / found[1].double().norm()
        assert (unit @ z).abs() == pytest.approx(1, abs=1e-6)


def test_over_rounds_it_learns_the_direction():
    """One round hardly shows the axis (its spread is 1.5 against 1); many do."""
    axis = torch.tensor([1.5, 1.0, 1.0, 1.0])
    draw, memory = torch.Generator().manual_seed(5), EMPTY
    hostile = torch.arange(9) == 8
    for _ in range(40):
        update = torch.randn(9, 4, generator=draw) * axis
        _, memory = mimic(messages(update), hostile, memory)
    assert abs(memory[0]) / memory.norm() > 0.9


def test_it_pulls_to_one_side_all_the_time():
    """Whatever side has the longer row in a round, once z has its sense."""
    draw, memory = torch.Generator().manual_seed(7), EMPTY
    hostile, sides = torch.arange(9) == 8, []
    for _ in range(15):
        update = torch.randn(9, 3, generator=draw) * torch.tensor([9.0, 1.0, 1.0])
        found, memory = mimic(messages(update), hostile, memory)
        sides.append(float(found.update[8, 0]))
        assert abs(sides[-1]) in (
            float(update[:8, 0].max().abs()),
            float(update[:8, 0].min().abs()),
        )
    assert len({side > 0 for side in sides}) == 1


def test_memory_is_of_the_updates_kind():
    for dtype in (torch.float32, torch.float64):
        _, memory = mimic(messages(UPDATE.to(dtype)), HOSTILE, EMPTY)
        assert memory.shape == (2,)
        assert memory.dtype == dtype


def test_memory_stays_without_adversaries():
    _, memory = mimic(messages(UPDATE), HOSTILE, EMPTY)
    found, after = mimic(messages(UPDATE), torch.zeros_like(HOSTILE), memory)
    assert after is memory
    assert torch.equal(found.update, UPDATE)


def test_memory_is_not_written_to():
    memory = torch.tensor([1.0, 2.0])
    mimic(messages(UPDATE), HOSTILE, memory)
    assert memory.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [0.0, 0.1, 3e38])
def test_equal_rows_are_the_lowest_clients(value):
    update = torch.full((5, 2), value)
    found, memory = mimic(messages(update), HOSTILE, EMPTY)
    assert torch.equal(found.update, update)
    assert not memory.any()


def test_large_numbers_over_many_rounds():
    memory = EMPTY
    for _ in range(20):
        _, memory = mimic(messages(UPDATE * 3e37), HOSTILE, memory)
        assert memory.isfinite().all()
    found, _ = mimic(messages(UPDATE * 1e-30), HOSTILE, memory)
    assert found.update.isfinite().all()
