"""Runs beside each other, client by client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth import plot


def test_pairs_hold_their_intervals(lines: Any, examined: Path) -> None:
    figure = plot.pairs(examined / "attacked")
    (ends, _), (mean, _) = lines(figure)[:2]
    assert ends[0] <= mean[0] <= ends[1]


def test_every_pair_that_one_must_decide_between(examined: Path) -> None:
    axes = plot.pairs(examined / "attacked").axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    own = "ditto,lam=auto"
    assert names == [
        "local − no personalizer",
        f"{own} − no personalizer",
        f"{own} − local",
    ]
