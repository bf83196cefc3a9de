import errno
import os
import shutil
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.engine import population
from troth.engine.population import Population
from troth.types import Refusal

CPU = torch.device("cpu")


def ids(*clients):
    return np.array(clients, dtype=np.int64)


def fresh(n=10, width=3):
    return Population(n, torch.arange(width) + 0.5, CPU)


def rows(*values, width=3):
    column = torch.tensor(values, dtype=torch.float32)[:, None]
    return column.expand(-1, width).contiguous()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "rows.bin"


@pytest.fixture
def people(file):
    """Ten clients, whose rows lie in a file."""
    with closing(opened(file)) as made:
        yield made


def everyone(people):
    return people.read(np.arange(people.n))


@pytest.fixture
def two_a_block(monkeypatch):
    monkeypatch.setattr(population, "_BLOCK", {"cpu": 6})  # of width 3


def test_unvisited_rows_are_the_start_row_and_allocate_nothing():
    people = fresh(10**7, 1000)
    read = people.read(ids(0, 9_999_999, 5))
    assert torch.equal(read, people.start.expand(3, -1))
    assert people._rows._blocks == [] and len(people.visited) == 0


@pytest.mark.parametrize("who", [[0, 1, 2, 3, 4], [3], [0, 2], [4, 1, 3]])
def test_some_may_start_from_another_row(who):
    first, other = torch.zeros(3), torch.ones(3)
    people = Population(5, first, CPU, (ids(1, 3), other))
    expected = torch.stack([other if i in (1, 3) else first for i in who])
    for _ in range(2):
        assert torch.equal(people.read(ids(*who)), expected)
        people.write(ids(2), first[None])  # changes nothing of the others'
    people.write(ids(3), torch.full((1, 3), 7.0))
    assert torch.equal(people.read(ids(3, 1)), rows(7, 1))


def test_an_untouched_population_round_trips():
    people, again = fresh(), fresh()
    again.write(ids(1), rows(1))
    people.write(ids(), torch.zeros(0, 3))  # nobody asked
    again.load(people.dump())
    assert len(again.visited) == 0 and people._rows._blocks == again._rows._blocks == []
    assert torch.equal(again.read(ids(1))[0], again.start)
    assert people.read(ids()).shape == (0, 3)


@pytest.mark.usefixtures("two_a_block")
def test_memory_grows_with_the_visited_block_by_block():
    people = fresh(10**6)
    people.write(ids(7, 2, 9), rows(7, 2, 9))
    assert len(people._rows._blocks) == 2
    people.write(ids(7, 9), rows(7, 9))  # those that were there
    assert len(people._rows._blocks) == 2
    people.write(ids(0, 2, 4), rows(0, 22, 4))
    assert people.visited.tolist() == [0, 2, 4, 7, 9]
    assert len(people._rows._blocks) == 3
    read = people.read(ids(9, 1, 2, 7, 0, 4, 2))
    start = people.start[None]
    expected = [rows(9), start, rows(22), rows(7), rows(0), rows(4), rows(22)]
    assert torch.equal(read, torch.cat(expected))


@pytest.mark.parametrize("store", [CPU, None])
def test_zero_width_costs_nothing_and_reads_as_nothing(file, store):
    start = torch.zeros(0, dtype=torch.float64)
    people, again = Population(5, start, store), Population(5, start, store)
    for one in (people, again):
        one.open(file)
        one.write(ids(1, 2), torch.zeros(2, 0))
        one.prefetch(ids(1))
        read = one.read(ids(1, 2, 4))
        assert read.shape == (3, 0) and read.dtype == torch.float64
        again.load(people.dump())
        assert not one.on_disk and not file.exists()
        one.close()


def test_rows_lie_in_the_store_and_start_does_not():
    """`meta` stands for another device: it keeps shapes and no numbers."""
    people = Population(6, torch.zeros(3), torch.device("meta"))
    people.write(ids(1, 2), rows(1, 2))
    assert people.visited.tolist() == [1, 2]
    assert {block.device.type for block in people._rows._blocks} == {"meta"}
    assert people.read(ids(0, 5)).device == CPU


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("store", [CPU, None])
def test_the_host_or_a_file_keeps_rows_of_a_device(file, store):
    with closing(Population(6, torch.zeros(3, device="cuda"), store)) as people:
        people.open(file)
        people.write(ids(2, 1), rows(2, 1).cuda())
        people.prefetch(ids(0, 2))
        if store is CPU:
            assert {block.device.type for block in people._rows._blocks} == {"cpu"}
        read = people.read(ids(2, 0, 1))
    assert read.device.type == "cuda"
    assert torch.equal(read.cpu(), torch.cat([rows(2), torch.zeros(1, 3), rows(1)]))


# In a file


def opened(file, n=10, dtype=torch.float32, store=None, width=3):
    people = Population(n, torch.arange(width, dtype=dtype) + 0.5, store)
    people.open(file)
    return people


KINDS = ["write", "read", "prefetch"] * 2 + ["round", "save", "save", "kill", "half"]
CHOSEN = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
DEEDS = st.lists(st.tuples(st.sampled_from(KINDS), CHOSEN), min_size=8, max_size=60)


@settings(max_examples=75, deadline=None)
@given(DEEDS, st.sampled_from([torch.float32, torch.float64]), st.booleans())
@patch.dict(population._BLOCK, cpu=6)  # two rows
def test_any_history_with_kills_reads_as_a_table(history, dtype, in_memory):
    """Whatever is written, read ahead, saved and killed, the rows are those of a plain
    table that is copied at every checkpoint; what is given or read is a copy."""
    n, count, store = 5, 0, CPU if in_memory else None
    table = (torch.arange(3, dtype=dtype) + 0.5).repeat(n, 1)
    saved, kept = None, table.clone()
    with TemporaryDirectory() as place:
        people = opened(Path(place) / "0", n, dtype, store)
        for kind, clients in history:
            who = np.array(clients)
            if kind in ("read", "round"):
                assert torch.equal(rows := people.read(who), table[who])
                rows.fill_(-1)
            if kind in ("prefetch", "round"):
                people.prefetch((who * 3 + 1) % n)
            if kind in ("write", "round"):
                count += 1
                new = torch.full((len(who), 3), float(count), dtype=dtype)
                new += torch.from_numpy(who)[:, None] / 16
                people.write(who, new)
                table[who] = new
                new.fill_(-1)
            if kind in ("save", "half"):  # half: killed before it could be noted
                saved, kept = people.dump(), table.clone()
            if kind == "save":
                people.saved()
            if kind in ("kill", "half"):
                count += 1
                old = Path(place) / f"{count}"
                if not in_memory:
                    shutil.copyfile(people._rows._path, old)
                people.close()
                people, table = opened(old, n, dtype, store), kept.clone()
                if saved is not None:
                    people.load(saved)
        assert torch.equal(everyone(people), table)
        people.close()


def test_a_file_grows_with_the_visited_and_slots_are_used_again(file):
    with closing(opened(file, 10**6, width=100)) as people:
        assert people.on_disk and file.stat().st_size == 0
        for k in range(20):
            people.write(np.arange(5), torch.full((5, 100), float(k)))
            people.dump()
            people.saved()
        assert file.stat().st_size == 2 * 5 * 400  # what is kept and what replaces it
        people.write(np.arange(5, 8), torch.ones(3, 100))
        people.dump()
        assert file.stat().st_size == 2 * 5 * 400  # three slots that were left
        assert torch.equal(people.read(np.arange(5)), torch.full((5, 100), 19.0))


def test_without_checkpoints_rows_are_written_in_place(people):
    for k in range(9):
        people.write(ids(3, 1), rows(k, k))
    people._rows.sync()
    assert people._rows._path.stat().st_size == 2 * 3 * 4


def test_what_is_dumped_of_a_file_is_where_rows_lie(people):
    people.write(ids(7, 2), rows(7, 2))
    dumped = people.dump()
    assert list(dumped) == ["slot"] and dumped["slot"].shape == (10,)
    people.saved()
    people.write(ids(7), rows(9))
    assert sorted(dumped["slot"].tolist())[-2:] == [0, 1]  # no view
    people.load(dumped)
    assert torch.equal(people.read(ids(2, 7)), rows(2, 7))


def test_groups_come_with_their_rows(people):
    groups = [ids(0, 3), ids(9), ids(4, 3)]
    for one in (fresh(), people):
        one.write(ids(3, 4), rows(3, 4))
        found = list(one.each(groups))
        assert [who.tolist() for who, _ in found] == [g.tolist() for g in groups]
        assert all(torch.equal(got, one.read(who)) for who, got in found)
        assert list(one.each([])) == []


def test_groups_may_be_written_while_they_come(people):
    people.write(np.arange(8), rows(*range(8)))
    people.dump()
    people.saved()
    for who, got in people.each([ids(k, k + 1) for k in range(0, 8, 2)]):
        people.write(who, got + 1)
    assert torch.equal(people.read(np.arange(8)), rows(*range(1, 9)))


def test_files_that_are_refused(file, people):
    """In use, cut by another, lost, and where none can be made."""
    with pytest.raises(Refusal, match=r"rows\.bin is in use by another process"):
        opened(file)
    people.write(ids(7, 2), rows(7, 2))
    people.write(ids(1), rows(1))
    dumped = people.dump()
    os.truncate(file, 20)
    with pytest.raises(Refusal, match="it is shorter than it was"):
        people.read(ids(7))
    people.close()
    file.unlink()
    with (
        closing(opened(file)) as again,
        pytest.raises(Refusal, match="has 0 bytes and the checkpoint needs 36"),
    ):
        again.load(dumped)
    with pytest.raises(Refusal, match="set engine.state_dir to a folder"):
        opened(file / "rows.bin")


@pytest.fixture
def full(monkeypatch):
    """A disk that takes so many more rows, half of the last one first."""
    write, room = os.pwritev, [10**9]

    def limited(descriptor, buffers, offset):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= 1
        return write(descriptor, [buffers[0][: max(1, len(buffers[0]) // 2)]], offset)

    monkeypatch.setattr(os, "pwritev", limited)
    yield room


def test_a_disk_that_fills_up_is_said_and_the_checkpoint_holds(file, full):
    people = opened(file)
    people.write(np.arange(6), rows(*range(6)))
    saved = people.dump()
    people.saved()
    full[0] = 7
    people.write(np.arange(6), rows(*[9] * 6))
    assert torch.equal(people.read(ids(1)), rows(9))  # still held in memory
    with pytest.raises(Refusal, match="No space left on device.*troth resume"):
        people.write(ids(8), rows(8))
    with pytest.raises(Refusal, match="No space left"):  # no checkpoint of it either
        people.dump()
    people.close()
    full[0] = 10**9
    with closing(opened(file)) as again:
        again.load(saved)
        assert torch.equal(again.read(np.arange(6)), rows(*range(6)))


@pytest.mark.parametrize("numbers", [2, 3, 6, 12, 15, 27])
def test_what_was_written_in_other_blocks(monkeypatch, numbers):
    """By an earlier version, or on another device; a block holds at least one row."""
    monkeypatch.setattr(population, "_BLOCK", {"cpu": numbers})
    people = fresh(9)
    people.write(ids(*range(7)), rows(*range(7)))
    kept = people.dump()
    assert sum(t.numel() for k, t in kept.items() if k != "slot") == 21  # no padding
    monkeypatch.setattr(population, "_BLOCK", {"cpu": 9})
    again = fresh(9)
    again.load(kept)
    assert torch.equal(everyone(again), everyone(people))
    again.write(ids(8), rows(8))
    assert torch.equal(again.read(ids(8, 6)), rows(8, 6))
