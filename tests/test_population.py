from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import population
from troth.population import Population

CPU = torch.device("cpu")


def ids(*clients: int) -> np.ndarray:
    return np.array(clients, dtype=np.int64)


def fresh(
    n: int = 10, width: int = 3, dtype: torch.dtype = torch.float32
) -> Population:
    return Population(n, torch.arange(width, dtype=dtype) + 0.5, CPU)


def rows(*values: float, width: int = 3) -> Tensor:
    return (
        torch.tensor(values, dtype=torch.float32)[:, None]
        .expand(-1, width)
        .contiguous()
    )


@pytest.fixture
def two_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population, "_BLOCK", 6)  # of width 3


def test_unvisited_rows_are_the_start_row_and_allocate_nothing() -> None:
    people = fresh(10**7, 1000)
    read = people.read(ids(0, 9_999_999, 5))
    assert read.shape == (3, 1000)
    assert all(torch.equal(row, people.start) for row in read)
    assert people.bytes == 0 and len(people.visited) == 0


def test_what_is_read_is_a_copy() -> None:
    people = fresh()
    people.read(ids(0, 1))[:] = 9
    assert torch.equal(people.read(ids(0))[0], people.start)
    people.write(ids(0), rows(1))
    people.read(ids(0))[:] = 9
    assert torch.equal(people.read(ids(0)), rows(1))
    people.write(ids(1), given := rows(2))
    given[:] = 9
    assert torch.equal(people.read(ids(1)), rows(2))


@pytest.mark.usefixtures("two_a_block")
def test_read_and_write_over_block_borders() -> None:
    people = fresh(10)
    people.write(ids(7, 2, 9), rows(7, 2, 9))
    assert people.bytes == 2 * 2 * 3 * 4
    people.write(ids(0, 2, 4), rows(0, 22, 4))
    assert people.visited.tolist() == [0, 2, 4, 7, 9]
    assert people.bytes == 3 * 2 * 3 * 4
    read = people.read(ids(9, 1, 2, 7, 0, 4, 2))
    start = people.start[None]
    expected = [rows(9), start, rows(22), rows(7), rows(0), rows(4), rows(22)]
    assert torch.equal(read, torch.cat(expected))


@pytest.mark.usefixtures("two_a_block")
def test_any_history_reads_as_a_plain_table() -> None:
    random = np.random.default_rng(0)
    people, table = fresh(30), fresh().start.repeat(30, 1)
    for _ in range(40):
        cohort = random.permutation(30)[: random.integers(1, 9)]
        assert torch.equal(people.read(cohort), table[cohort])
        new = torch.from_numpy(random.random((len(cohort), 3), dtype=np.float32))
        people.write(cohort, new)
        table[cohort] = new
    everyone = np.arange(30)
    assert torch.equal(people.read(everyone), table[everyone])


def test_a_row_wider_than_a_block_has_a_block_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(population, "_BLOCK", 2)
    people = fresh(5)
    people.write(ids(3, 1), rows(3, 1))
    assert torch.equal(people.read(ids(1, 3)), rows(1, 3))


@pytest.mark.usefixtures("two_a_block")
def test_memory_grows_with_the_visited() -> None:
    people = fresh(10**6)
    people.write(ids(5, 999_999, 0), rows(5, 9, 0))
    assert people.bytes == 2 * 2 * 3 * 4  # two blocks
    people.write(ids(5, 0), rows(1, 2))
    assert people.bytes == 2 * 2 * 3 * 4  # those that were there
    assert torch.equal(people.read(ids(999_999, 0)), rows(9, 2))


@pytest.mark.usefixtures("two_a_block")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dump_and_load_round_trip(dtype: torch.dtype) -> None:
    people = fresh(8, dtype=dtype)
    people.write(ids(6, 1, 3), rows(6, 1, 3).to(dtype))
    dumped = {k: v.clone() for k, v in people.dump().items()}
    assert sum(v.numel() for k, v in dumped.items() if k != "slot") == 9  # no padding
    again = fresh(8, dtype=dtype)
    again.load(dumped)
    assert again.visited.tolist() == [1, 3, 6]
    assert again.read(np.arange(8)).dtype == dtype
    assert torch.equal(again.read(np.arange(8)), people.read(np.arange(8)))
    for one in (people, again):  # both go on alike
        one.write(ids(0, 3), rows(10, 13).to(dtype))
    assert torch.equal(again.read(np.arange(8)), people.read(np.arange(8)))
    assert torch.equal(dumped["block1"], rows(6).to(dtype))  # load took a copy


def test_an_untouched_population_round_trips() -> None:
    people, again = fresh(), fresh()
    again.write(ids(1), rows(1))
    again.load(people.dump())
    assert len(again.visited) == 0 and again.bytes == 0
    assert torch.equal(again.read(ids(1))[0], again.start)


def test_zero_width_costs_nothing_and_reads_as_nothing() -> None:
    people = fresh(5, 0, torch.float64)
    people.write(ids(1, 2), torch.zeros(2, 0))
    read = people.read(ids(1, 2, 4))
    assert read.shape == (3, 0) and read.dtype == torch.float64
    assert people.bytes == 0
    again = fresh(5, 0, torch.float64)
    again.load(people.dump())
    assert again.read(ids(0)).shape == (1, 0)


def test_nobody_asked() -> None:
    people = fresh()
    people.write(ids(), torch.zeros(0, 3))
    assert people.read(ids()).shape == (0, 3) and people.bytes == 0


def test_rows_lie_in_the_store_and_start_does_not() -> None:
    """`meta` stands for another device: it keeps shapes and no numbers."""
    people = Population(6, torch.zeros(3), torch.device("meta"))
    people.write(ids(1, 2), rows(1, 2))
    assert people.visited.tolist() == [1, 2]
    assert {block.device.type for block in people._blocks} == {"meta"}
    assert people.read(ids(0, 5)).device == CPU


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_host_keeps_rows_of_a_device() -> None:
    people = Population(6, torch.zeros(3, device="cuda"), CPU)
    people.write(ids(1, 2), rows(1, 2).cuda())
    assert {block.device.type for block in people._blocks} == {"cpu"}
    read = people.read(ids(2, 0, 1))
    assert read.device.type == "cuda"
    assert torch.equal(read.cpu(), torch.cat([rows(2), torch.zeros(1, 3), rows(1)]))
