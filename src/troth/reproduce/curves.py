"""Pictures of what scripts under experiments/ found: curves, or else bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from troth.reproduce import scripts
from troth.reproduce.entry import Entry
from troth.reproduce.kept import SAME
from troth.reproduce.looks import COLOURS

Curve = tuple[np.ndarray, np.ndarray]
Panels = dict[str, dict[str, Curve]]
"""Quantity → label → its curve, the mean over seeds."""

_MOST = 16  # labels that a legend can hold


def draw(entry: Entry, root: Path) -> Figure:
    """A panel a quantity, a line a label; where there are no curves, a bar a label."""
    figure = Figure(figsize=(11, 4.2), dpi=130, layout="constrained")
    figure.suptitle(f"{entry.name}: {entry.title}", fontsize=10)
    along, panels = found(entry, root)
    if panels:
        _lines(figure, panels, along)
    else:
        _bars(figure, scripts.lines(entry, root))
    return figure


def found(entry: Entry, root: Path) -> tuple[str, Panels]:
    """All curves of an entry's results, and over what; at most four quantities."""
    along, every = "", dict[str, dict[str, list[Curve]]]()
    for label, said in scripts.said(entry, root):
        along, own = _of(entry, said)
        for what, curve in own.items():
            quantity, _, part = what.partition("|")
            named = part if part.startswith("panel") else f"{label}, {part}"
            named = named if part else label
            every.setdefault(quantity, {}).setdefault(named, []).append(curve)
    panels = {
        quantity: {label: _mean(seeds) for label, seeds in labels.items()}
        for quantity, labels in every.items()
    }
    telling = [quantity for quantity, lines in panels.items() if _differ(lines)]
    return along, {quantity: panels[quantity] for quantity in telling[:4]}


def _differ(lines: dict[str, Curve]) -> bool:
    """Whether labels have curves of their own: some differ only after training."""
    first = next(iter(lines.values()))[1]
    return len(lines) == 1 or not all(
        np.array_equal(first, y) for _, y in lines.values()
    )


def _of(entry: Entry, said: dict[str, Any]) -> tuple[str, dict[str, Curve]]:
    """Over what, and the curves in one file: "quantity", or "quantity|label's part"."""
    simulated = said.get(f"figure {entry.name.rpartition('figure')[2]}")
    if simulated:
        return "λ" if "lam" in simulated else "τ", _simulated(simulated)
    if "certified" in said:
        models = said["certified"]["models"].items()
        pairs = {name: (curve["radii"], curve["mean"]) for name, curve in models}
        what = f"certified accuracy, radius in {said['certified']['unit']}"
        every = {f"{what}|{k}": _curve(*pair) for k, pair in pairs.items()}
        return "radius", every
    if "curves" in said:  # [steps][clients] each
        named = {k.replace("_", " "): v for k, v in said["curves"].items()}
        return "batches", {
            k: _curve(said["steps"], np.nanmean(np.array(v, float), axis=1))
            for k, v in named.items()
        }
    own = said.get("curve", said)
    names = dict(scripts.CURVES) | {"personal_mean": "own models", "shared_mean": "w"}
    every = {
        name: _curve(own["round"], own[key])
        for key, name in names.items()
        if "round" in own and key in own
    }
    if "own models" in every and "summary" in said:
        every["own models"] = _ended(every["own models"], said["summary"])
    return "round", every


def _ended(curve: Curve, summary: dict[str, Any]) -> Curve:
    """Own models that are trained after the last round have no way: a point there."""
    rounds, values = curve
    end = float(summary["personal"]["accuracy_mean"])
    return curve if abs(values[-1] - end) < SAME else _curve(rounds[-1:], [end])


def _simulated(figure: dict[str, Any]) -> dict[str, Curve]:
    """Ditto's Figures 1 and 2: over λ, or over τ."""
    x = figure.get("lam", figure.get("tau"))
    return {
        f"{name}|panel {k + 1}": _curve(x, values)
        for k, panel in enumerate(figure["panels"])
        for name, values in panel.items()
        if isinstance(values, list) and len(values) == len(x or ())
    }


def _curve(x: Any, y: Any) -> Curve:
    return np.array(x, float), np.array(y, float)


def _mean(seeds: list[Curve]) -> Curve:
    """Of as many points as all have."""
    least = min(len(x) for x, _ in seeds)
    return seeds[0][0][:least], np.mean([y[:least] for _, y in seeds], axis=0)


def _lines(figure: Figure, panels: Panels, along: str) -> None:
    axes: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (quantity, lines) in zip(axes, panels.items(), strict=True):
        for k, (label, (x, y)) in enumerate(lines.items()):
            dash = "-" if k < len(COLOURS) else "--"
            dash = dash if len(x) > 1 else "o"
            axis.plot(x, y, dash, color=COLOURS[k % len(COLOURS)], label=label)
        axis.set_title(quantity, fontsize=9)
        axis.set_xlabel(along)
        axis.set_xscale("log" if along == "λ" else "linear")
        axis.grid(alpha=0.3)
    many = len(next(reversed(panels.values())))
    if many <= _MOST:
        axes[-1].legend(fontsize=7 if many < 10 else 6, ncols=1 if many < 10 else 2)


def _bars(figure: Figure, lines: scripts.Lines) -> None:
    names, _ = scripts.layout(lines)
    shown = [n for n in names if n != "seeds" and not n.endswith("std")][:4]
    axes: Any = figure.subplots(1, max(1, len(shown)), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, shown, strict=False):
        values = [numbers.get(name, np.nan) for _, numbers in lines]
        axis.barh(range(len(lines)), values, color=COLOURS[0])
        axis.set_title(name, fontsize=9)
    axes[0].set_yticks(range(len(lines)), [label for label, _ in lines], fontsize=6)
    axes[0].invert_yaxis()
