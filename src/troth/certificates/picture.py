"""Certified accuracy over the radius: the mean of clients, and each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.certificates.curves import Curves

_HUES = {"personal": "#009e73", "shared": "#0072b2", "local": "#d55e00"}  # as plot's
_INK, _SOFT, _OTHER = "#22303c", "#6b7b88", "#8e5572"
_FEW = 20  # radii that are marked one by one


def draw(curves: Mapping[str, Curves], title: str, unit: str) -> Figure:
    """Left the mean over clients with a band from the least to the most, right each.

    Args:
        curves: by model.
        title: what stands above.
        unit: of radii.
    """
    figure = Figure(figsize=(11, 4.4), dpi=130, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", size=12, weight="bold", color=_INK)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for name, found in curves.items():
        hue = _HUES.get(name, _OTHER)
        # between two radii no more is claimed than at the larger one
        steps: dict[str, Any] = {"color": hue, "drawstyle": "steps-pre"}
        few, a = len(found.radii) <= _FEW, found.accuracy
        style = steps | {"marker": "o" if few else "", "markersize": 3.5}
        left.plot(found.radii, a.mean(axis=0), lw=2, label=name, **style)
        left.fill_between(
            found.radii,
            a.min(axis=0),
            a.max(axis=0),
            step="pre",
            color=hue,
            alpha=0.18,
            lw=0,
        )
        fade = max(0.15, min(0.8, 5 / len(a)))
        right.plot(found.radii, a.T, lw=1, alpha=fade, **steps)
    clients = max(len(found.clients) for found in curves.values())
    several = f"mean of {clients} clients, band from the lowest to the highest"
    _dress(left, several if clients > 1 else "1 client", unit)
    _dress(right, "each client", unit)
    left.set_ylabel("certified accuracy", color=_INK)
    left.legend(frameon=False)
    return figure


def _dress(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, size=9.5, color=_SOFT, loc="left")
    axes.set_xlabel(f"radius ({unit})", color=_INK)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.grid(color="#e3e8ec", lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)
