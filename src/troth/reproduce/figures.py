"""Draw entries: figures of cells with the paper's points, and of scripts' results.

A label names a line, such as a method. A record is the result of one run.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from troth import files
from troth.reproduce import panels, scripts, tables
from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged
from troth.reproduce.kept import SAME
from troth.reproduce.panels import SIMULATED, THEIRS, THEORY, Head, Line, Panel
from troth.reproduce.store import Record

_THREAT = re.compile(r"(A\d) (\d+)%")
_NAMES = ("ours", "the paper's")
_MOST = 4  # largest number of panels of an entry without `shows`
_EARLY = ", early"
_TITLES: dict[str, str] = scripts.NAMES["titles"]


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG, atomically, and return both paths.

    Equal figures give equal bytes.
    """
    made = {}
    with mpl.rc_context({"svg.hashsalt": "troth"}):
        for form, facts in (("png", "Software"), ("svg", "Date")):
            content = made[stem.with_suffix(f".{form}")] = io.BytesIO()
            figure.savefig(content, format=form, metadata={facts: None})
            figure.set_layout_engine("none")  # both files have the same layout
    for file, content in made.items():
        with files.refused(file, "give another folder with --out, or make room"):
            files.put(file, content.getvalue())
    return [*made]


def of_cells(entry: Entry, judged: Sequence[Judged]) -> Figure:
    """Draw the cells of an entry: accuracy over the share of malicious clients.

    If the entry is a scatter plot, draw variance over clients against accuracy.
    """
    parts = tables.parts(judged)
    under = [tables.title(mine, "the paper prints no points; ") for mine in parts]
    head = Head(f"{entry.name}: {entry.title}", under, entry.note)
    if entry.form == "scatter":
        columns = {one.cell.column: list[Judged]() for one in judged}
        for one in judged:
            columns[one.cell.column].append(one)
        points = {_titled(name, mine): _points(mine) for name, mine in columns.items()}
        return panels.scatter(head, points, *_NAMES)
    every = [
        Panel(
            _titled(name, [one for _, one in points]),
            "attackers, %" if name else "cell",
            dict(_lines(points)),
            marked=True,
        )
        for name, points in _panels(judged).items()
    ]
    known = any(one.seeds for one in judged), any(one.theirs for one in judged)
    names = (name if any_ else "" for name, any_ in zip(_NAMES, known, strict=True))
    more = panels.meanings(*names)
    return panels.lines(head, every, more, "accuracy of benign clients")


def _panels(judged: Sequence[Judged]) -> dict[str, list[tuple[float, Judged]]]:
    """Return panel → points (share of malicious clients in %, cell).

    The cell without an attack is at 0 in all panels.
    """
    found: dict[str, list[tuple[float, Judged]]] = {}
    several = len({one.cell.part for one in judged}) > 1
    for one in judged:
        threat = _THREAT.fullmatch(one.cell.column)
        if threat:
            name = f"{one.cell.part}, {threat[1]}" if several else threat[1]
            found.setdefault(name, []).append((float(threat[2]), one))
    for one in judged:
        if one.cell.column == "clean":
            for name, points in found.items():
                if not several or name.startswith(f"{one.cell.part},"):
                    points.append((0.0, one))
    return found or {"": [(float(k), one) for k, one in enumerate(judged)]}


def _lines(points: Sequence[tuple[float, Judged]]) -> Iterator[tuple[str, Line]]:
    """Yield label and line for each row of the table: ours, then the paper's."""
    for row in dict.fromkeys(one.cell.row for _, one in points):
        own = [(x, one) for x, one in points if one.cell.row == row]
        mine = sorted(own, key=lambda point: point[0])
        ours = [(x, one.mean) for x, one in mine if one.seeds]
        theirs = [(x, one.theirs.mean) for x, one in mine if one.theirs]
        for label, line in ((row, ours), (row + THEIRS, theirs)):
            if line:
                yield label, Line(*np.array(line).T)


def _titled(name: str, judged: Sequence[Judged]) -> str:
    """Return the title of a panel, with a remark if our data are a substitute."""
    kinds = {one.cell.federation.kind for one in judged}
    return name if kinds <= {"original"} else f"{name} (ours: other data, see above)"


def _points(judged: Sequence[Judged]) -> tuple[panels.Points, panels.Points]:
    """Return row → (mean, variance over clients): of our numbers and of the paper's."""
    ours = {o.cell.row: (o.mean, o.std**2) for o in judged if o.seeds}
    theirs = {
        one.cell.row: (one.theirs.mean, one.theirs.std**2)
        for one in judged
        if one.theirs and one.theirs.std is not None
    }
    return ours, theirs


# Figures of scripts: curves, points or bars.


def of_script(entry: Entry, root: Path) -> Figure:
    """Draw the results of a script: one panel per quantity and one line per label.

    If the results have no curves, draw bars.
    """
    labels = " ".join(label for label, _ in scripts.labelled(entry, root))
    data = [name for name in entry.data if name in labels] or entry.data
    names = [scripts.NAMES["data"].get(name, name) for name in data]
    under = [f"ours: {', '.join(names)}"] if entry.data else []
    head = Head(f"{entry.name}: {entry.title}", under, entry.note)
    if entry.form == "scatter":
        points = scattered(entry, root)
        return panels.scatter(head, points, "shared models", "own models")
    if several := found(entry, root):
        return panels.lines(head, several)
    rows = [
        (label, {_TITLES.get(k, k): v for k, v in numbers.items() if k != "seeds"})
        for label, numbers in scripts.lines(entry, root)
    ]
    return panels.bars(head, rows)


def found(entry: Entry, root: Path) -> list[Panel]:
    """Return one panel per quantity of `entry.shows`; if it is empty, at most four."""
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
    ways = []
    for name in names:
        own = quantities[name]
        if entry.over[0]:  # single points are drawn in other panels, see `_numbers`
            own = {label: line for label, line in own.items() if len(line.x) > 1}
        panel = Panel(_TITLES.get(name, name), along, own)
        if along == "batches":
            panel = panel._replace(scale="symlog", lines=_joined(own))
        ways.append(panel)
    return [*ways, *(_numbers(entry, root) if entry.over[0] else ())]


def _ways(every: list[tuple[str, Record]]) -> tuple[str, dict[str, dict[str, Line]]]:
    """Return the name of the x axis, and quantity → label → mean line over seeds."""
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
    """Return the name of the x axis, and name → curve of one record."""
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
        x, y = lines["own models"]
        end = float(record["summary"]["personal"]["accuracy_mean"])
        if abs(y[-1] - end) >= SAME:  # trained only after the last round: one point
            lines["own models"] = _line(x[-1:], [end])
    return "round", lines


def _line(x: Any, y: Any) -> Line:
    return Line(np.array(x, float), np.array(y, float))


def _mean(seeds: list[Line]) -> Line:
    """Return the mean of lines up to the end of the shortest one."""
    least = min(len(line.x) for line in seeds)
    mean = np.mean([line.y[:least] for line in seeds], axis=0)
    return Line(seeds[0].x[:least], mean)


def _differ(lines: dict[str, Line]) -> bool:
    """Return whether the curves of several labels differ at all."""
    first, *others = lines.values()
    return not others or not all(np.array_equal(first.y, line.y) for line in others)


def _joined(lines: Mapping[str, Line]) -> dict[str, Line]:
    """Merge the line of each label with that of its early evaluations.

    Early evaluations are closer together, and their label ends in ", early".
    """
    found = dict(lines)
    for label, line in lines.items():
        if (first := found.pop(label + _EARLY, None)) is not None:
            after = line.x > first.x[-1]
            x, y = np.r_[first.x, line.x[after]], np.r_[first.y, line.y[after]]
            found[label] = Line(x, y)
    return found


def _numbers(entry: Entry, root: Path) -> Iterator[Panel]:
    """Yield one panel per number, over the value of x in the labels.

    A label without a value of x gives a horizontal line.
    """
    lines = scripts.lines(entry, root)
    names = dict.fromkeys(name for _, numbers in lines for name in numbers)
    for name in (name for name in names if name != "seeds"):
        points: dict[str, dict[float, float]] = {}
        levels: dict[str, Line] = {}
        for label, numbers in lines:
            if name in numbers:
                rest, x = over(entry, label)
                if x is None:
                    levels[label] = _line([], [numbers[name]])
                else:
                    points.setdefault(rest, {})[x] = numbers[name]
        drawn = {
            label: _line(sorted(own), [own[x] for x in sorted(own)])
            for label, own in points.items()
        }
        own = drawn | levels
        yield Panel(_TITLES.get(name, name), entry.over[0], own, marked=True)


def over(entry: Entry, label: str) -> tuple[str, float | None]:
    """Split a label into its text without the value of x, and this value.

    If there is none, the value is None.
    """
    at = re.search(entry.over[1], label)
    if at is None:
        return label, None
    return label[: at.start()] + label[at.end() :], float(at[1])


def scattered(
    entry: Entry, root: Path
) -> dict[str, tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]]:
    """Return panel → points of shared models, and points of personal models.

    Points are a dictionary from label to (accuracy, variance over clients).
    """
    made: dict[str, Any] = {}
    for label, numbers in scripts.lines(entry, root):
        rest, x = over(entry, label)
        name, _, unit = entry.over[0].partition(", ")
        title = "" if x is None else f"{x:g} {unit} {name}"
        for k, whose in enumerate(("shared", "personal")):
            at = numbers[f"{whose}, weighted"], numbers[f"{whose}, std"] ** 2
            made.setdefault(title, ({}, {}))[k][rest] = at
    return made


# Certified accuracy: one panel per deformation of inputs, data set and federation.

EVERY = "every client"
"""Value in `Entry.shows` for one panel per way of training, and one line per client."""
_LOCAL = "λ=1.0"  # a mixture with λ = 1, in which every client trains alone


def radii(entry: Entry, every: Sequence[tuple[str, Record]]) -> Iterator[Panel]:
    """Yield panels with one line per way of training, or one line per client."""
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
                line = _line(model["radii"], model["mean"])
                found.setdefault((at, unit), {})[own] = line
            elif whose == "personal":
                found[f"{at}: {own}", unit] = {
                    f"client {k}": _line(model["radii"], each["accuracy"])
                    for k, each in model["clients"].items()
                }
    for (title, unit), lines in sorted(found.items(), key=lambda item: _order(item[0])):
        yield Panel(f"{title}\ncertified accuracy", unit, lines)


def _way(label: str, record: Record) -> str:
    """Return how models were trained.

    This is the label without the deformation and the number of clients. If nothing
    remains, it is taken from the name of the folder, such as mnist_nominal.
    """
    parts = label.rpartition(": ")[2].split(", ")[1:]
    rest = [part for part in parts if not part.endswith(" clients")]
    return ", ".join(rest) or record.get("folder", "").partition("_")[2]


def _setting(label: str, record: Record) -> str:
    """Return deformation, data and number of clients, if they are known, as a text."""
    change = label.rpartition(": ")[2].partition(", ")[0]
    data = str(record.get("changes", {}).get("data", ""))
    clients = record.get("summary", {}).get("clients")
    many = f"{clients} clients" if clients else ""
    named = scripts.NAMES["data"].get(data, data)
    return ", ".join(part for part in (change, named, many) if part)


def _order(at: tuple[str, str]) -> tuple[bool, str, int]:
    """Return a sort key of a panel: data set, deformation and number of clients."""
    parts = at[0].split(", ")
    numbers = [int(p.split()[0]) for p in parts if p.endswith(" clients")]
    return "CIFAR-10" in parts, parts[0], numbers[0] if numbers else 0


# Figures 1 and 2 of Ditto: lines of theory, marks of simulation.

_MEANS = {"error": "mean error"}
_SPREADS = {
    "std_within": "spread within a federation",
    "std_pooled": "spread pooled over federations",
}
_ERROR = "error of benign clients"


def simulated(figure: dict[str, Any]) -> Iterator[Panel]:
    """Yield the panels of a simulated figure of Ditto: 1 (over λ) or 2 (over 1/τ)."""
    yield from _over_lam(figure) if "lam" in figure else _over_tau(figure)


def _over_lam(figure: dict[str, Any]) -> Iterator[Panel]:
    """Yield Figure 1: mean and spread of clients' errors over λ, with a mark at λ*."""
    for title, names in ((_ERROR, _MEANS), ("its spread over clients", _SPREADS)):
        for panel in figure["panels"]:
            case = "adversarial" if panel["case"]["K_a"] else "clean"
            at = {f"λ* = {panel['best']:.2f}, {case}": panel["best"]}
            if names is _SPREADS and (fair := panel.get("fairest")) is not None:
                at[f"least spread within: λ = {fair:.2f}"] = fair
            lines = {}
            for name, label in names.items():
                lines[label + THEORY] = _line(figure["fine"], panel["theory"][name])
                lines[label + SIMULATED] = _line(figure["lam"], panel[name])
            yield Panel(f"{panel['title']}\n{title}", "λ", lines, "symlog", at)


def _over_tau(figure: dict[str, Any]) -> Iterator[Panel]:
    """Yield Figure 2: errors of three models, and the best λ, over relatedness 1/τ."""
    x, along = 1 / np.array(figure["tau"]), "relatedness of clients, 1/τ"
    for panel in figure["panels"]:
        lines: dict[str, Line] = {}
        for name, values in panel["theory"].items():
            lines[name + THEORY] = _line(x, values)
            lines[name + SIMULATED] = _line(x, panel[name])
        yield Panel(f"{panel['title']}\n{_ERROR}", along, lines)
    for panel in figure["panels"]:
        best = {"λ* by theory": _line(x, panel["best"])}
        yield Panel(f"{panel['title']}\nbest λ", along, best)
