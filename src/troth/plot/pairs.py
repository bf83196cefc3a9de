"""Runs beside each other, client by client."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from troth.cli import outcome
from troth.plot._style import (
    INK,
    Several,
    dress,
    figure,
    finished,
    name,
)
from troth.types import Refusal

_MOST = 20
_WIDE = 60  # characters of two names
_POINT: dict[str, Any] = {"marker": "o", "color": INK, "markersize": 6}


def pairs(runs: Several) -> Figure:
    """The mean difference of every pair that differs in one setting, and its interval.

    Where that is the personalizer, each stands beside training alone too.

    Args:
        runs: two or more.
    """
    mine, _ = finished(runs, "comparisons")
    known = [(run.run, run.label) for run in mine if run.run is not None]
    found = outcome.compare([r for r, _ in known], [label for _, label in known])
    return drawn([each for each in found if each["kind"] == "paired"])


def drawn(found: Sequence[Mapping[str, Any]]) -> Figure:
    """The same of comparisons that were made already."""
    if not found:
        raise Refusal(
            "no two of the runs differ in one setting alone, with the same seed and "
            "the same clients; give two that do"
        )
    shown = found[:_MOST]
    made = figure(7.5, 1.1 + 0.32 * len(shown))
    axes = made.subplots()
    for i, pair in enumerate(shown):
        low, high = pair["low"], pair["high"]
        if not math.isnan(low):
            axes.plot([low, high], [i, i], color=INK, lw=2)
        axes.plot([pair["mean_difference"]], [i], **_POINT)
    axes.axvline(0, color=INK, lw=1, ls=":")
    axes.set_yticks(range(len(shown)), [name(p["label"], _WIDE) for p in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.margins(x=0.08)
    metric = shown[0]["metric"]
    dress(axes, "mean over clients, 95 % interval", f"difference in {metric}")
    return made
