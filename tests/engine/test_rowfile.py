"""What the background thread does; that rows come back, `test_population.py` tests."""

import errno
import os
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from troth.engine.population import RowFile, Slots
from troth.types import Refusal


def rows(*values):
    return torch.tensor(values, dtype=torch.float32)[:, None].expand(-1, 4).contiguous()


def slots(*numbers):
    return np.array(numbers, dtype=np.int64)


@pytest.fixture
def file(tmp_path):
    made = RowFile(4, torch.float32, torch.device("cpu"))
    made.open(tmp_path / "rows")
    yield made
    made.close()  # a second time does nothing


def test_rows_read_ahead_are_not_read_again(file):
    file.put(slots(0, 1, 2), rows(0, 1, 2))
    file.put(slots(3), rows(3))
    file.fetch(slots(2, 0))
    assert file._ahead is not None
    file._ahead.work.result()
    file._path.write_bytes(rows(*[9] * 4).numpy().tobytes())  # behind its back
    assert torch.equal(file.get(slots(0, 2)), rows(0, 2))
    assert torch.equal(file.get(slots(0, 2)), rows(9, 9))  # once


def test_a_slot_written_after_it_was_read_ahead_is_the_new_one(file):
    file.put(slots(0, 1), rows(0, 1))
    file.fetch(slots(0, 1))
    file.put(slots(1), rows(5))
    file.put(slots(2), rows(2))
    assert torch.equal(file.get(slots(0, 1)), rows(0, 5))


def test_rows_on_their_way_are_read_from_memory_and_then_waited_for(file, monkeypatch):
    write, go = os.pwritev, threading.Event()

    def slow(*given):
        assert go.wait(10)
        return write(*given)

    monkeypatch.setattr(os, "pwritev", slow)
    file.put(slots(1, 0), rows(1, 0))
    assert torch.equal(file.get(slots(0, 1)), rows(0, 1))  # though none is written
    assert file._path.stat().st_size == 0
    threading.Timer(0.05, go.set).start()
    file.sync()
    assert file._path.read_bytes() == rows(0, 1).numpy().tobytes()


def test_closing_waits_for_what_was_given(file):
    file.put(np.arange(100), rows(*range(100)))
    file.close()
    assert file._path.stat().st_size == 100 * 16


def test_a_file_that_was_never_opened_keeps_nothing(tmp_path, monkeypatch):
    file = RowFile(4, torch.float32, torch.device("cpu"))
    file.sync()
    with pytest.raises(AssertionError, match="open a file first"):
        file.put(slots(0), rows(0))
    monkeypatch.delattr(os, "preadv")  # as on a system that cannot read in place
    with pytest.raises(Refusal, match=r"engine\.store = 'disk' needs a system"):
        file.open(tmp_path / "rows")
    file.close()


@pytest.mark.parametrize("ahead", [False, True])
def test_a_disk_that_cannot_be_read_is_said(file, monkeypatch, ahead):
    def broken(*given):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file.put(slots(0, 1), rows(0, 1))
    file.put(slots(2), rows(2))
    monkeypatch.setattr(os, "preadv", broken)
    if ahead:
        file.fetch(slots(0))
    with pytest.raises(Refusal, match=r"rows cannot be read or written \(Input/output"):
        file.get(slots(0))


# Slots


def test_worked_example():
    table = Slots(6, shadow=True)
    assert table.table.tolist() == [-1] * 6 and table.used == 0
    assert table.take(slots(4, 1)).tolist() == [1, 0]  # the lower number comes first
    assert table.take(slots(1, 5)).tolist() == [0, 2]  # nothing was saved: 1 stays
    table.saved()
    assert table.take(slots(1)).tolist() == [3]  # slot 0 is what was saved
    assert table.take(slots(1, 2)).tolist() == [3, 4]
    table.saved()
    assert table.take(slots(4, 3)).tolist() == [5, 0]  # slot 0 is free again
    assert table.table.tolist() == [-1, 3, 4, 0, 5, 2] and table.used == 6


def test_without_shadows_a_slot_is_for_good():
    table, again = Slots(6, shadow=False), Slots(6, shadow=False)
    first = table.take(slots(4, 1)).tolist()
    table.saved()
    again.load(table.table)
    assert table.take(slots(4, 1)).tolist() == again.take(slots(4, 1)).tolist() == first
    assert again.take(slots(0)).tolist() == [2]


def test_a_table_that_was_saved_is_taken_up():
    table, again = Slots(6, shadow=True), Slots(6, shadow=True)
    table.take(slots(0, 1, 2))
    table.saved()
    table.take(slots(1))
    kept = table.table.copy()
    again.load(kept)
    assert again.used == 4
    assert again.take(slots(3)).tolist() == [1]  # which client 1 had left
    assert kept.tolist() == [0, 3, 2, -1, -1, -1]  # it was copied


CLIENTS = st.lists(st.integers(0, 7), min_size=1, unique=True)


@given(st.lists(st.tuples(CLIENTS, st.booleans()), max_size=30))
def test_what_was_saved_is_never_given_out(history):
    """And no two clients share a slot, and no slot is lost: 2 n are enough."""
    table, saved = Slots(8, shadow=True), np.zeros(0, np.int64)
    for clients, save in history:
        assert not np.isin(table.take(np.array(clients)), saved).any()
        there = table.table[table.table >= 0]
        assert len(np.unique(there)) == len(there) and table.used <= 16
        if save:
            saved = there.copy()
            table.saved()
