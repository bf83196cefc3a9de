"""Tables of a grid: one row per method over its seeds, or a pivot table, as files."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from troth import files
from troth.evaluation.paired import NAN
from troth.runs import compare
from troth.runs.compare import number, short
from troth.runs.load import Run
from troth.types import Refusal

_NUMBERS = {
    "mean": "personal.{}_mean",
    "valid mean": "valid.personal.{}_mean",
    "std": "personal.{}_std",
    "worst 10 %": "personal.{}_worst10",
    "weighted": "personal.{}_weighted",
    "shared mean": "shared.{}_mean",
}
_ABOVE = ("attack", "corruption", "adversary")  # columns of a pivot, if they vary
# Methods are compared only under equal values of these axes.
_SURROUNDINGS = (*_ABOVE, "fraction", "data", "partition", "clients")
_OF_DATA = ("data.", "partition.")  # and only on the same data
_HALF = " half width"


class Method(NamedTuple):
    """The runs of a grid that differ only in their seed."""

    axes: dict[str, str]  # axis of the grid → value, without the seed
    metric: str
    seeds: int
    numbers: dict[str, tuple[float, float]]  # column → mean, half width of its interval
    corruption: str = ""  # corruption of malicious clients' data, if not an axis
    data: str = ""  # settings of the data and of their partition


class Pivot(NamedTuple):
    """Mean scores of a grid, with one axis as columns and all other axes as rows."""

    heads: list[str]
    rows: list[list[str]]
    sides: int  # number of leading columns with text


def methods(runs: Sequence[Run], labels: Sequence[str]) -> list[Method]:
    """Combine the runs of a grid over their seeds.

    Args:
        runs: Finished runs.
        labels: Their labels, such as `personalizer=ditto+lam=1.0,attack=alie,seed=0`. A
            label without axes becomes the value of an axis `run`.
    """
    found = []
    for group in compare.by_seed([(compare.settings_of(r), r.summary) for r in runs]):
        first = group.runs[0]
        metric = compare.heading(runs[first].summary)
        keys = {column: key.format(metric) for column, key in _NUMBERS.items()}
        for part in runs[first].experiment.evaluate.scores:
            for key in _means_of(part.name.rpartition(":")[2], group.numbers):
                keys[f"{key.removeprefix('personal.').removesuffix('_mean')} mean"] = (
                    key
                )
        numbers = {c: group.numbers[k] for c, k in keys.items() if k in group.numbers}
        axes, count = _axes(labels[first]), len(group.runs)
        done = "" if "corruption" in axes else compare.poisoned(runs[first])
        own = {k: v for k, v in group.settings.items() if k.startswith(_OF_DATA)}
        found.append(Method(axes, metric, count, numbers, done, repr(own)))
    return found


def _means_of(score: str, numbers: Mapping[str, object]) -> list[str]:
    """Return the keys of a score's means over clients, of all its columns."""
    mean = re.compile(rf"personal\.{re.escape(score)}(_[^.]*)?_mean")
    return [key for key in numbers if mean.fullmatch(key)]


def _axes(label: str) -> dict[str, str]:
    """Return axis → value for a label, without the seed."""
    rest = compare.without_seed(label)
    parts = [part.partition("=") for part in rest.split(",")]
    if not all(value for _, _, value in parts):
        return {"run": rest}
    return {key: value for key, _, value in parts}


def pivot(found: Sequence[Method]) -> Pivot | None:
    """Return the pivot table of a grid; None if fewer than two axes vary.

    The columns are the attacks if they are an axis of the grid, and otherwise the
    values of the last axis. A cell has the mean over seeds and, with several seeds, the
    half width of its 95 % interval.
    """
    axes = [*found[0].axes] if found else []
    if any([*method.axes] != axes for method in found):
        return None
    values = {a: [*dict.fromkeys(m.axes[a] for m in found)] for a in axes}
    axes = [axis for axis in axes if len(values[axis]) > 1]
    if len(axes) < 2:
        return None
    column = next((axis for axis in _ABOVE if axis in axes), axes[-1])
    side = [axis for axis in axes if axis != column]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for method in found:
        row = tuple(_value(axis, method.axes[axis], method.corruption) for axis in side)
        cells.setdefault(row, {})[method.axes[column]] = cell(method, "mean")
    done = {m.axes[column]: m.corruption for m in found if m.corruption}
    tops = [_value(column, value, done.get(value, "")) for value in values[column]]
    heads = [*side, *tops]
    rows = [[*r, *(c.get(v, "–") for v in values[column])] for r, c in cells.items()]
    return Pivot(heads, rows, len(side))


def _value(axis: str, value: str, corruption: str) -> str:
    """Format a value of an axis, without the axis."""
    return _part(axis, value, corruption).removeprefix(f"{axis}=")


def _part(axis: str, value: str, corruption: str) -> str:
    """Format a part of a label; after an attack, the corruption of data is added."""
    value = compare.acts(value, corruption) if axis == "attack" else value
    return short(f"{axis}={value}")


def _named(method: Method, axes: Mapping[str, str]) -> str:
    return ",".join(_part(a, v, method.corruption) for a, v in axes.items())


def cell(method: Method, column: str) -> str:
    """Format a mean over seeds, with the half width of its interval if it has one."""
    mean, half = method.numbers.get(column, (NAN, NAN))
    text = number(mean, method.metric)
    return text if method.seeds == 1 else f"{text} ± {number(half, method.metric)}"


def best(found: Sequence[Method]) -> list[tuple[dict[str, str], Method]]:
    """Return the methods with the best validation mean, for each setting.

    A setting is a combination of attack, data set, partition and metric. Methods
    without validation data and settings with a single method are left out. The result
    is a list of (axes of the setting, method).
    """
    groups: dict[Any, list[Method]] = {}
    for method in found:
        known = method.numbers.get("valid mean", (NAN, 0))[0]
        if known == known:  # not NaN
            around = (i for i in method.axes.items() if i[0] in _SURROUNDINGS)
            key = (method.data, method.metric, tuple(around))
            groups.setdefault(key, []).append(method)
    return [
        (dict(around), max(some, key=_worth))
        for (*_, around), some in groups.items()
        if len(some) > 1
    ]


def _worth(method: Method) -> float:
    mean = method.numbers["valid mean"][0]
    return mean if method.metric == "accuracy" else -mean


def write(runs: Sequence[Run], labels: Sequence[str], file: str | Path) -> Path:
    """Write the table of a grid as CSV, Markdown or LaTeX; return the path.

    A `.csv` file has one row per method, with every mean and half width in full
    precision. A `.md` or `.tex` file has the pivot table if two or more axes vary, and
    otherwise one row per method.

    Args:
        runs: Finished runs.
        labels: One label per run.
        file: Path that ends in `.csv`, `.md` or `.tex`.

    Raises:
        Refusal: If there are no runs, or the file has another ending.
    """
    path = Path(file)
    if path.suffix[1:] not in _FORMS:
        raise Refusal(f"{path} must end in .csv, .md or .tex")
    made = text(runs, labels, path.suffix[1:])
    with files.refused(path, "give another file with --table"):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, made)
    return path


def text(runs: Sequence[Run], labels: Sequence[str], form: str) -> str:
    """Return the table of a grid as text; raise Refusal if there are no runs.

    Args:
        runs: Finished runs.
        labels: One label per run.
        form: "csv", "md" or "tex".
    """
    found = methods(runs, labels)
    if not found:
        raise Refusal("there is no finished run to write a table of; finish one first")
    return _FORMS[form](found)


def _csv(found: Sequence[Method]) -> str:
    axes = [*dict.fromkeys(axis for method in found for axis in method.axes)]
    columns = [*dict.fromkeys((*_NUMBERS, *(c for m in found for c in m.numbers)))]
    heads = [name for column in columns for name in (column, column + _HALF)]
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow([*axes, "metric", "seeds", *heads])
    for m in found:
        pairs = (m.numbers.get(column, ("", "")) for column in columns)
        numbers = ("" if v != v else v for pair in pairs for v in pair)
        out.writerow([*(m.axes.get(a, "") for a in axes), m.metric, m.seeds, *numbers])
    return file.getvalue()


def _flat(found: Sequence[Method]) -> Pivot:
    """Return a table with one row per method, for grids without a pivot table."""
    heads = ["run", "seeds", *_NUMBERS]
    names = (_named(m, m.axes) for m in found)
    rows = [
        [name, str(m.seeds), *(cell(m, column) for column in _NUMBERS)]
        for name, m in zip(names, found, strict=True)
    ]
    return Pivot(heads, rows, 1)


def _markdown(found: Sequence[Method]) -> str:
    made = pivot(found) or _flat(found)
    rows = [made.heads, ["---"] * len(made.heads), *made.rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


_ESCAPES = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "±": r"$\pm$",
    "–": "--",
    "λ": "$\\lambda$",
}


def _latex(found: Sequence[Method]) -> str:
    """Return a LaTeX `tabular`, which needs the package booktabs."""
    made = pivot(found) or _flat(found)

    def line(row: Sequence[str]) -> str:
        escaped = ("".join(_ESCAPES.get(c, c) for c in text) for text in row)
        return " & ".join(escaped) + r" \\"

    numbers = "r" * (len(made.heads) - made.sides)
    lines = [
        rf"\begin{{tabular}}{{{'l' * made.sides}{numbers}}}",
        r"\toprule",
        line(made.heads),
        r"\midrule",
        *map(line, made.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


_FORMS = {"csv": _csv, "md": _markdown, "tex": _latex}


def choice(found: Sequence[Method]) -> list[str]:
    """Return one sentence per setting: its best method by validation data."""
    lines = []
    for around, method in best(found):
        chosen = {k: v for k, v in method.axes.items() if k not in around}
        name, where = _named(method, chosen), _named(method, around)
        valid, test = (cell(method, column) for column in ("valid mean", "mean"))
        lines.append(
            f"Best by validation{f' under {where}' if where else ''}: {name} "
            f"({method.metric} {valid} on validation data, {test} on test data)"
        )
    return lines
