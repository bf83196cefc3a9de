"""Pictures of what scripts under experiments/ found: curves, points, or else bars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from troth.reproduce import panels, radii, scripts, simulated
from troth.reproduce.entry import Entry
from troth.reproduce.kept import SAME
from troth.reproduce.panels import Head, Line, Panel

_MOST = 4  # panels where an entry does not say what it is about
_EARLY = ", early"
_TITLES = {
    "personal, weighted": "own models: accuracy of benign clients",
    "shared, weighted": "shared model: accuracy of benign clients",
    "personal, std": "own models: deviation over clients",
    "shared, std": "shared model: deviation over clients",
    "personal, biased": "own models: accuracy, biased data",
    "personal, conflicting": "own models: conflicting data",
    "personal, disparity": "own models: biased − conflicting",
    "shared, biased": "shared model: accuracy, biased data",
    "shared, conflicting": "shared model: conflicting data",
    "shared, disparity": "shared model: biased − conflicting",
    "all clients', train_loss": "training loss of all clients",
    "all clients', valid_accuracy": "validation accuracy of all clients",
    "own models": "own models: mean accuracy",
    "shared model": "shared model: mean accuracy",
}
"""Numbers and curves by plain names."""


def draw(entry: Entry, root: Path) -> Figure:
    """A panel a quantity, a line a label; where there are no curves, a bar a label."""
    under = [f"ours: {', '.join(_data(entry, root))}"] if entry.data else []
    head = Head(f"{entry.name}: {entry.title}", under, entry.note)
    if entry.form == "scatter":
        return panels.scatter(head, scattered(entry, root))
    if several := found(entry, root):
        return panels.lines(head, several)
    rows = [
        (label, {_TITLES.get(k, k): v for k, v in numbers.items() if k != "seeds"})
        for label, numbers in scripts.lines(entry, root)
    ]
    return panels.bars(head, rows)


def _data(entry: Entry, root: Path) -> list[str]:
    """What ours are trained on: of a script's data those that labels name, if any."""
    labels = " ".join(label for label, _ in scripts.said(entry, root))
    named = [name for name in entry.data if name in labels]
    return [scripts.DATA.get(name, name) for name in named or entry.data]


def found(entry: Entry, root: Path) -> list[Panel]:
    """A panel a quantity that the entry is about; else at most four that tell."""
    every = [*scripts.said(entry, root)]
    figure = f"figure {entry.name.rpartition('figure')[2]}"
    for _, said in every:
        if figure in said:
            return [*simulated.panels(said[figure])]
    if any("certified" in said for _, said in every):
        return [*radii.panels(entry, every)]
    along, quantities = _ways(every)
    if entry.shows:
        names = [name for name in entry.shows if name in quantities]
    else:
        names = [name for name, own in quantities.items() if _differ(own)][:_MOST]
    ways = [
        Panel(_TITLES.get(name, name), along, _long(quantities[name], entry))
        for name in names
    ]
    if along == "batches":
        ways = [p._replace(scale="symlog", lines=_joined(p.lines)) for p in ways]
    return [*ways, *(_numbers(entry, root) if entry.over[0] else ())]


def _ways(
    every: list[tuple[str, dict[str, Any]]],
) -> tuple[str, dict[str, dict[str, Line]]]:
    """Over what, and quantity → label → the mean over seeds."""
    along, seeds = "", dict[str, dict[str, list[Line]]]()
    for label, said in every:
        along, own = _of(said)
        for quantity, line in own.items():
            seeds.setdefault(quantity, {}).setdefault(label, []).append(line)
    return along, {
        quantity: {label: _mean(lines) for label, lines in labels.items()}
        for quantity, labels in seeds.items()
    }


def _of(said: dict[str, Any]) -> tuple[str, dict[str, Line]]:
    """Over what, and the curves in one file."""
    if "curves" in said:
        every = scripts.ways(said).items()
        return "batches", {name: _line(said["steps"], way) for name, way in every}
    own = said.get("curve", said)
    names = dict(scripts.CURVES)
    names |= {"personal_mean": "own models", "shared_mean": "shared model"}
    lines = {
        name: _line(own["round"], own[key])
        for key, name in names.items()
        if "round" in own and key in own
    }
    if "own models" in lines and "summary" in said:
        lines["own models"] = _ended(lines["own models"], said["summary"])
    return "round", lines


def _ended(line: Line, summary: dict[str, Any]) -> Line:
    """Own models that are trained after the last round have no way: a point there."""
    end = float(summary["personal"]["accuracy_mean"])
    return line if abs(line.y[-1] - end) < SAME else _line(line.x[-1:], [end])


def _line(x: Any, y: Any) -> Line:
    return Line(np.array(x, float), np.array(y, float))


def _mean(seeds: list[Line]) -> Line:
    """Of as many points as all have."""
    least = min(len(line.x) for line in seeds)
    mean = np.mean([line.y[:least] for line in seeds], axis=0)
    return Line(seeds[0].x[:least], mean)


def _differ(lines: dict[str, Line]) -> bool:
    """Whether labels have curves of their own: some differ only after training."""
    first, *others = lines.values()
    return not others or not all(np.array_equal(first.y, line.y) for line in others)


def _joined(lines: Mapping[str, Line]) -> dict[str, Line]:
    """A run and the closer looks at its first batches, ", early", as one line."""
    found = {label: line for label, line in lines.items() if not _early(label, lines)}
    for label, line in found.items():
        if (first := lines.get(label + _EARLY)) is not None:
            after = line.x > first.x[-1]
            x, y = np.r_[first.x, line.x[after]], np.r_[first.y, line.y[after]]
            found[label] = Line(x, y)
    return found


def _early(label: str, lines: Mapping[str, Line]) -> bool:
    return label.endswith(_EARLY) and label.removesuffix(_EARLY) in lines


def _long(lines: dict[str, Line], entry: Entry) -> dict[str, Line]:
    """What has a way; points are in panels of their own where numbers have an axis."""
    return {
        label: line
        for label, line in lines.items()
        if len(line.x) > 1 or not entry.over[0]
    }


def _numbers(entry: Entry, root: Path) -> Iterator[Panel]:
    """Last numbers over what their labels say; a label that says nothing is level."""
    lines = scripts.lines(entry, root)
    names = dict.fromkeys(name for _, numbers in lines for name in numbers)
    for name in (name for name in names if name != "seeds"):
        points: dict[str, dict[float, float]] = {}
        levels: dict[str, Line] = {}
        for label, numbers in lines:
            if name in numbers:
                rest, x = over(entry, label)
                if x is None:
                    levels[label] = Line(np.array([]), np.array([numbers[name]]))
                else:
                    points.setdefault(rest, {})[x] = numbers[name]
        drawn = {
            label: _line(sorted(own), [own[x] for x in sorted(own)])
            for label, own in points.items()
        }
        title = _TITLES.get(name, name)
        yield Panel(title, entry.over[0], drawn | levels, marked=True)


def over(entry: Entry, label: str) -> tuple[str, float | None]:
    """A label without the number that an entry's figure goes over, and that."""
    at = re.search(entry.over[1], label)
    if at is None:
        return label, None
    return label[: at.start()] + label[at.end() :], float(at[1])


def scattered(
    entry: Entry, root: Path
) -> dict[str, tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]]:
    """Panel → accuracies and variances of shared, and of own models."""
    made: dict[str, Any] = {}
    for label, numbers in scripts.lines(entry, root):
        rest, x = over(entry, label)
        name, _, unit = entry.over[0].partition(", ")
        title = "" if x is None else f"{x:g} {unit} {name}"
        for k, whose in enumerate(("shared", "personal")):
            at = numbers[f"{whose}, weighted"], numbers[f"{whose}, std"] ** 2
            made.setdefault(title, ({}, {}))[k][rest] = at
    return made
