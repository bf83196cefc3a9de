import pytest
import torch
from clients_sent import drawn, messages

from troth.server.attacks.mimic import mimic

EMPTY = torch.zeros(0)
UPDATE = torch.tensor([[1.0, 0.1], [0.0, 0.0], [-5.0, 0.2], [2.0, -0.1], [9.0, 9.0]])
HOSTILE = torch.tensor([False, False, False, False, True])
LAST = torch.arange(9) == 8


def test_a_given_client():
    """If it is absent, malicious or sent no numbers, the lowest benign id."""
    for client in range(4):
        found, memory = mimic(messages(UPDATE), HOSTILE, EMPTY, client=client)
        assert torch.equal(found.update[4], UPDATE[client])
        assert memory is EMPTY
    ids = torch.tensor([13, 11, 10, 12, 14])
    for client in (0, 14, 99):
        found, _ = mimic(messages(UPDATE, ids), HOSTILE, EMPTY, client=client)
        assert torch.equal(found.update[4], UPDATE[2])
    update = UPDATE.clone()
    update[1, 0] = torch.nan
    found, _ = mimic(messages(update), HOSTILE, EMPTY, client=1)
    assert torch.equal(found.update[4], UPDATE[0])


def test_the_first_round_is_the_first_principal_axis():
    """Against the whole singular value decomposition; the copy is bit for bit."""
    for seed in range(20):
        update = drawn(9, 6, seed, torch.float32) * torch.tensor([1, 3, 1, 1, 1, 2])
        found, memory = mimic(messages(update), LAST, EMPTY)
        rows = update[:8].double()
        z = torch.linalg.svd(rows - rows.mean(dim=0)).Vh[0]
        assert torch.equal(found.update[8], update[(rows @ z).abs().argmax()])
        most = torch.linalg.svdvals(rows - rows.mean(dim=0))[0]
        assert memory.double().norm() == pytest.approx(float(most), rel=1e-5)
        cosine = memory.double() @ z / memory.double().norm()
        assert cosine.abs() == pytest.approx(1, abs=1e-6)


def test_over_rounds_it_learns_the_direction():
    """One round hardly shows the axis (its spread is 1.5 against 1); many do."""
    axis, memory = torch.tensor([1.5, 1.0, 1.0, 1.0]), EMPTY
    for seed in range(40):
        update = drawn(9, 4, seed, torch.float32) * axis
        _, memory = mimic(messages(update), LAST, memory)
    assert abs(memory[0]) / memory.norm() > 0.9


def test_it_pulls_to_one_side_all_the_time():
    """Whatever side has the longer row in a round, once z has its sense."""
    axis, memory, ends = torch.tensor([9.0, 1.0, 1.0]), EMPTY, []
    for seed in range(15):
        update = drawn(9, 3, seed, torch.float32) * axis
        found, memory = mimic(messages(update), LAST, memory)
        side, first = found.update[8, 0], update[:8, 0]
        ends.append((bool(side == first.min()), bool(side == first.max())))
    assert {*ends} in ({(True, False)}, {(False, True)})


def test_memory_stays_without_adversaries_and_is_not_written_to():
    memory = torch.tensor([1.0, 2.0])
    _, after = mimic(messages(UPDATE), torch.zeros_like(HOSTILE), memory)
    assert after is memory
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
