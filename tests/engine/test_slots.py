from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from troth.engine.rowfile import Slots


def ids(*clients: int) -> np.ndarray:
    return np.array(clients, dtype=np.int64)


def test_worked_example() -> None:
    slots = Slots(6, shadow=True)
    assert slots.of(ids(4, 1)).tolist() == [-1, -1] and slots.used == 0
    assert slots.take(ids(4, 1)).tolist() == [1, 0]  # the lower number comes first
    assert slots.take(ids(1, 5)).tolist() == [0, 2]  # nothing was saved: 1 stays
    slots.saved()
    assert slots.take(ids(1)).tolist() == [3]  # slot 0 is what was saved
    assert slots.take(ids(1, 2)).tolist() == [3, 4]
    slots.saved()
    assert slots.take(ids(4, 3)).tolist() == [5, 0]  # slot 0 is free again
    assert slots.table.tolist() == [-1, 3, 4, 0, 5, 2] and slots.used == 6


def test_without_shadows_a_slot_is_for_good() -> None:
    slots = Slots(6, shadow=False)
    first = slots.take(ids(4, 1)).tolist()
    slots.saved()
    assert slots.take(ids(4, 1)).tolist() == first
    again = Slots(6, shadow=False)
    again.load(slots.table)
    assert again.take(ids(4, 1)).tolist() == first
    assert again.take(ids(0)).tolist() == [2]


def test_a_table_that_was_saved_is_taken_up() -> None:
    slots = Slots(6, shadow=True)
    slots.take(ids(0, 1, 2))
    slots.saved()
    slots.take(ids(1))
    table = slots.table.copy()
    slots.saved()
    again = Slots(6, shadow=True)
    again.load(table)
    assert again.used == 4
    assert again.take(ids(3)).tolist() == [1]  # which client 1 had left
    assert table.tolist() == [0, 3, 2, -1, -1, -1]  # it was copied


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 7), min_size=1, unique=True), st.booleans()),
        max_size=30,
    )
)
def test_what_was_saved_is_never_given_out(
    history: list[tuple[list[int], bool]],
) -> None:
    """And no two clients share a slot, and no slot is lost: 2 n are enough."""
    slots, saved = Slots(8, shadow=True), np.zeros(0, np.int64)
    for clients, save in history:
        given_out = slots.take(np.array(clients))
        assert not np.isin(given_out, saved).any()
        there = slots.table[slots.table >= 0]
        assert len(np.unique(there)) == len(there) and slots.used <= 16
        if save:
            saved = there.copy()
            slots.saved()
