"""Whose own model relies on what the shared one does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth import plot


def test_audit_draws_every_client(lines: Any, examined: Path) -> None:
    place = examined / "attacked" / "personalizer=ditto+lam=auto"
    drawn = lines(plot.audit(place))
    points = [y for x, y in drawn[:-1]]  # the last is the limit
    assert sum(map(len, points)) == 9 and drawn[-1][1] == [0.1, 0.1]


def test_the_axis_names_clients_in_their_order(examined: Path) -> None:
    place = examined / "attacked" / "personalizer=ditto+lam=auto"
    axes = plot.audit(place).axes[0]
    assert axes.get_xlabel() == "client, the largest change first"
