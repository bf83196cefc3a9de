"""Pictures of what scripts under experiments/ found: curves, points, or else bars."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from troth.reproduce import panels, scripts
from troth.reproduce.entry import Entry
from troth.reproduce.kept import SAME
from troth.reproduce.panels import SIMULATED, THEORY, Head, Line, Panel

_MOST = 4  # panels where an entry does not say what it is about
_EARLY = ", early"
_TITLES: dict[str, str] = scripts.NAMES["titles"]


def draw(entry: Entry, root: Path) -> Figure:
    """Draw one panel per quantity and one line per label; without curves, bars."""
    under = [f"ours: {', '.join(_data(entry, root))}"] if entry.data else []
    head = Head(f"{entry.name}: {entry.title}", under, entry.note)
    if entry.form == "scatter":
        return panels.scatter(
            head, scattered(entry, root), "shared models", "own models"
        )
    if several := found(entry, root):
        return panels.lines(head, several)
    rows = [
        (label, {_TITLES.get(k, k): v for k, v in numbers.items() if k != "seeds"})
        for label, numbers in scripts.lines(entry, root)
    ]
    return panels.bars(head, rows)


def _data(entry: Entry, root: Path) -> list[str]:
    """What ours are trained on: of a script's data those that labels name, if any."""
    labels = " ".join(label for label, _ in scripts.labelled(entry, root))
    named = [name for name in entry.data if name in labels]
    return [scripts.NAMES["data"].get(name, name) for name in named or entry.data]


def found(entry: Entry, root: Path) -> list[Panel]:
    """Return one panel per quantity that the entry is about, else at most four."""
    every = [*scripts.labelled(entry, root)]
    figure = f"figure {entry.name.rpartition('figure')[2]}"
    for _, record in every:
        if figure in record:
            return [*simulated(record[figure])]
    if any("certified" in record for _, record in every):
        return [*radii(entry, every)]
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
    for label, record in every:
        along, own = _of(record)
        for quantity, line in own.items():
            seeds.setdefault(quantity, {}).setdefault(label, []).append(line)
    return along, {
        quantity: {label: _mean(lines) for label, lines in labels.items()}
        for quantity, labels in seeds.items()
    }


def _of(record: dict[str, Any]) -> tuple[str, dict[str, Line]]:
    """Over what, and the curves in one file."""
    if "curves" in record:
        every = scripts.ways(record).items()
        return "batches", {name: _line(record["steps"], way) for name, way in every}
    own = record.get("curve", record)
    names = dict(scripts.NAMES["curves"])
    names |= {"personal_mean": "own models", "shared_mean": "shared model"}
    lines = {
        name: _line(own["round"], own[key])
        for key, name in names.items()
        if "round" in own and key in own
    }
    if "own models" in lines and "summary" in record:
        lines["own models"] = _ended(lines["own models"], record["summary"])
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


# Certified accuracy: one panel per change of inputs, data set and federation.

EVERY = "every client"
"""In `Entry.shows`: one panel per way of training, one line per client."""
_LOCAL = "λ=1.0"  # of mixtures: every client trains alone

Record = dict[str, Any]


def radii(entry: Entry, every: Sequence[tuple[str, Record]]) -> Iterator[Panel]:
    """One line per way of training and model, the mean over clients; or per client."""
    ways = [_way(label, record) for label, record in every]
    mixed = any("λ=" in way and way != _LOCAL for way in ways)
    found: dict[tuple[str, str], dict[str, Line]] = {}
    for way, (label, record) in zip(ways, every, strict=True):
        if way == _LOCAL:
            way = f"{_LOCAL} (local)" if mixed else "local"
        at, unit = _setting(label, record), f"radius, {record['certified']['unit']}"
        for whose, model in record["certified"]["models"].items():
            own = way if "λ" in way or way == "local" else f"{way}, {whose}"
            if EVERY not in entry.shows:
                found.setdefault((at, unit), {})[own] = _certified(model, model["mean"])
            elif whose == "personal":
                found[f"{at}: {own}", unit] = {
                    f"client {k}": _certified(model, each["accuracy"])
                    for k, each in model["clients"].items()
                }
    for (title, unit), lines in sorted(found.items(), key=lambda item: _order(item[0])):
        yield Panel(f"{title}\ncertified accuracy", unit, lines)


def _way(label: str, record: Record) -> str:
    """How models were trained: what a label says besides change and clients.

    Where it says nothing, the folder does, such as mnist_nominal.
    """
    parts = label.rpartition(": ")[2].split(", ")[1:]
    rest = [part for part in parts if not part.endswith(" clients")]
    return ", ".join(rest) or record.get("folder", "").partition("_")[2]


def _setting(label: str, record: Record) -> str:
    """Change of inputs, data and how many clients, as far as they are known."""
    change = label.rpartition(": ")[2].partition(", ")[0]
    data = str(record.get("changes", {}).get("data", ""))
    clients = record.get("summary", {}).get("clients")
    many = f"{clients} clients" if clients else ""
    return ", ".join(
        filter(None, (change, scripts.NAMES["data"].get(data, data), many))
    )


def _order(at: tuple[str, str]) -> tuple[bool, str, int]:
    """By data set, change and number of clients."""
    parts = at[0].split(", ")
    numbers = [int(p.split()[0]) for p in parts if p.endswith(" clients")]
    return "CIFAR-10" in parts, parts[0], numbers[0] if numbers else 0


def _certified(model: Record, values: Any) -> Line:
    return Line(np.array(model["radii"], float), np.array(values, float))


# Figures 1 and 2 of Ditto: lines by theory, marks by simulation.

_SPREADS = {"within": "within a federation", "pooled": "pooled over federations"}
_ERROR = "error of benign clients"


def simulated(figure: dict[str, Any]) -> Iterator[Panel]:
    """As the script left them: over λ, or over relatedness."""
    yield from _over_lam(figure) if "lam" in figure else _over_tau(figure)


def _over_lam(figure: dict[str, Any]) -> Iterator[Panel]:
    """Figure 1: mean errors, then their spread over clients; each with its best λ."""
    for panel in figure["panels"]:
        at = {f"λ* = {panel['best']:.2f}, {_case(panel)}": panel["best"]}
        lines = _both(figure, panel, "error", "mean error")
        yield Panel(f"{panel['title']}\n{_ERROR}", "λ", lines, "symlog", at)
    for panel in figure["panels"]:
        lines, at = {}, {f"λ* = {panel['best']:.2f}, {_case(panel)}": panel["best"]}
        for name, label in _SPREADS.items():
            lines |= _both(figure, panel, f"std_{name}", f"spread {label}")
        if "fairest" in panel:
            at[f"least spread within: λ = {panel['fairest']:.2f}"] = panel["fairest"]
        title = f"{panel['title']}\nits spread over clients"
        yield Panel(title, "λ", lines, "symlog", at)


def _case(panel: dict[str, Any]) -> str:
    return "adversarial" if panel["case"]["K_a"] else "clean"


def _both(
    figure: dict[str, Any], panel: dict[str, Any], name: str, label: str
) -> dict[str, Line]:
    """By theory, and as simulated."""
    return {
        label + THEORY: Line(np.array(figure["fine"]), np.array(panel["theory"][name])),
        label + SIMULATED: Line(np.array(figure["lam"]), np.array(panel[name])),
    }


def _over_tau(figure: dict[str, Any]) -> Iterator[Panel]:
    """Figure 2: errors of three models, then the best λ; clients alike to the right."""
    x, along = 1 / np.array(figure["tau"]), "relatedness of clients, 1/τ"
    for panel in figure["panels"]:
        lines: dict[str, Line] = {}
        for name, values in panel["theory"].items():
            lines[name + THEORY] = Line(x, np.array(values))
            lines[name + SIMULATED] = Line(x, np.array(panel[name]))
        yield Panel(f"{panel['title']}\n{_ERROR}", along, lines)
    for panel in figure["panels"]:
        lines = {"λ* by theory": Line(x, np.array(panel["best"]))}
        yield Panel(f"{panel['title']}\nbest λ", along, lines)
