"""Who was dropped, clipped, chosen or weighed down, and when."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from troth import plot
from troth.plot.trust import happened


def test_verdicts_are_those_of_the_rounds(examined: Path) -> None:
    (run, *_) = plot._style.given(examined / "attacked")
    table = run.column("clipped")
    found = happened(run, "clipped")
    assert np.bincount(found[:, 1], minlength=12).tolist() == table.tolist()
    titles = [axes.get_title(loc="left") for axes in plot.verdicts(run).axes]
    assert [title.split()[0] for title in titles] == ["clipped", "chosen"]
