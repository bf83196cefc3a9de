"""Find, check and write the results of cells."""

import contextlib
import datetime
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troth import build
from troth.reproduce import store
from troth.reproduce.entry import Cell, key
from troth.reproduce.settings import Tree
from troth.reproduce.store import Record, Store
from troth.runs.load import Run

COMMITTED = "reproduce"
"""Folder in experiments/ with the results of cells that are part of the repository."""

SAME = 1e-4
"""Largest difference between a curve, which has five decimals, and a summary."""
_SHARES = ("accuracy_weighted", "accuracy_mean", "accuracy_std")
_COUNTS = ("clients", "malicious", "seconds", "client_steps")


class Result(NamedTuple):
    """The result of a run, with its date, versions and device."""

    record: Record

    @property
    def summary(self) -> dict[str, Any]:
        """Numbers over benign clients, as in a run's `summary.json`."""
        return dict(self.record["summary"])

    def number(self, cell: Cell, metric: str) -> float:
        """Return the number accuracy_<metric> of the models that a cell evaluates."""
        at = self.summary
        for part in cell.whose:
            at = at[part]
        return float(at[f"accuracy_{metric}"])

    def has(self, cell: Cell) -> bool:
        """Return whether the result has the numbers of a cell."""
        try:
            both = self.number(cell, cell.metric), self.number(cell, "std")
        except (KeyError, TypeError, ValueError):
            return False
        return all(map(math.isfinite, both))

    def late(self, cell: Cell) -> tuple[float, float] | None:
        """Return least and largest value in the last fifth of the rounds.

        Return None if there are fewer than three evaluations.
        """
        way = self.way(cell)
        last = [value for r, value in way.items() if r >= late(way)]
        return (min(last), max(last)) if len(last) > 2 else None

    def way(self, cell: Cell) -> dict[int, float]:
        """Return round → value of the cell at every evaluation.

        Return {} if it is unknown, or if training continues after the last round.
        """
        curve = self.record.get("curve", {})
        values = curve.get(f"{cell.whose[0]}_{cell.metric}")
        if len(cell.whose) > 1 or not values:
            return {}
        own = abs(values[-1] - self.number(cell, cell.metric)) < SAME
        return dict(zip(curve["round"], values, strict=True)) if own else {}

    @property
    def valid(self) -> float:
        """The validation accuracy of benign clients, by which experiments are chosen.

        If there are no validation data, it is the test accuracy. The authors of Ditto
        also chose by test accuracy on Fashion-MNIST: each best λ of their Table 4 has
        the best test accuracy in a column of their Table 8.
        """
        if "valid" in self.summary:
            return float(self.summary["valid"]["personal"]["accuracy_mean"])
        return float(self.summary["personal"]["accuracy_weighted"])


def late(way: Mapping[int, float]) -> float:
    """Return the round at which the last fifth of the rounds begins."""
    return 0.8 * max(way, default=1)


def believed(records: Sequence[Record | None], cell: Cell) -> list[Result]:
    """Return the records that are complete and have the numbers of a cell."""
    found = []
    for record in records:
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            if record is not None and _whole(record):
                found.append(Result(record))
    return [one for one in found if one.has(cell)]


def _whole(record: Record) -> bool:
    """Return whether counts, accuracies and curves of a record are valid numbers."""
    summary, curve = record["summary"], record.get("curve", {})
    counts = [summary[name] for name in _COUNTS]
    models = [summary["personal"], summary["shared"]]
    models += [summary["valid"]["personal"]] if "valid" in summary else []
    shares = [model[name] for model in models for name in _SHARES]
    numbers = [*counts, *shares, *chain(*curve.values())]
    return bool(
        isinstance(record.get("when", ""), str)
        and {*map(type, numbers)} <= {int, float}
        and np.isfinite(numbers).all()
        and min(counts + shares) >= 0
        and max(shares) <= 1
        and summary["clients"] > summary["malicious"]
        and len({len(column) for column in curve.values()}) < 2
        and (not curve or "round" in curve)
    )


def experiments() -> Path | None:
    """Return the folder experiments/ of the repository; None if only installed."""
    found = Path(build.__file__).parents[2] / "experiments"
    return found if found.is_dir() else None


class Shelf:
    """The results of cells: new ones, and those that are part of the repository.

    Args:
        out: Folder of new results; None: there is none.
        root: Folder experiments/ of the repository; None: there is none.
        change: Name of a setting that was changed in all cells; "": none was changed.
            Only results with the same change are used.
    """

    def __init__(self, out: Path | None, root: Path | None, change: str = "") -> None:
        self.out, self.root, self.change = out, root, change
        self._found: dict[str, list[Record]] = {}
        self.look()

    def look(self) -> None:
        """Read the results again, in case other processes added some."""
        committed = self.root / COMMITTED if self.root else None
        places = [p for p in (self.out, committed) if p is not None]
        found: dict[str, list[Record]] = {}
        for place in dict.fromkeys(places):
            for one in Store(place).records().values():
                if one.get("change", "") == self.change:
                    found.setdefault(str(one.get("key")), []).append(one)
        self._found = found

    def find(self, cell: Cell, choice: int, seed: int) -> Result | None:
        """Return the newest result of a cell; None if there is none.

        Args:
            cell: The cell.
            choice: Index of the experiment in the cell's choices.
            seed: Seed of the run.
        """
        named = key(cell.choices[choice], seed) if self._found else ""
        own = believed(self._found.get(named, []), cell)
        if not own and cell.kept and self.root is not None:
            home, _, name = cell.kept[choice].format(seed=seed).partition("/")
            own = believed([Store(self.root / home).get(name)], cell)
        return max(own, key=lambda one: str(one.record.get("when", "")), default=None)

    def settled(self, cell: Cell, seeds: int) -> list[Result]:
        """Return the existing results of a cell's chosen experiment, one per seed."""
        at = self.chosen(cell)
        found = (None if at is None else self.find(cell, at, s) for s in range(seeds))
        return [result for result in found if result is not None]

    def chosen(self, cell: Cell) -> int | None:
        """Return the index of the experiment with the best validation accuracy.

        The accuracy is that of seed 0. Return None if an experiment was not run yet.
        """
        if len(cell.choices) == 1:
            return 0
        tried = [self.find(cell, i, 0) for i in range(len(cell.choices))]
        scores = [result.valid for result in tried if result is not None]
        return int(np.argmax(scores)) if len(scores) == len(tried) else None

    def add(self, cell: Cell, choice: int, seed: int, run: Run) -> Result:
        """Write the result of a run to a file, atomically, and return it."""
        assert self.out is not None
        record = written(cell, choice, seed, run)
        record |= {"change": self.change} if self.change else {}
        place = self.change or re.sub(r"\W+", "-", cell.federation.name).strip("-")
        number = f" ({choice + 1})" if len(cell.choices) > 1 else ""
        name = f"{cell.row}, {cell.column}{number}, seed {seed}~{record['key']}"
        Store(self.out).put(f"{place}/{name}", record)
        self._found.setdefault(record["key"], []).insert(0, record)
        return Result(record)


def written(cell: Cell, choice: int, seed: int, run: Run) -> dict[str, Any]:
    """Return the record of a run: its numbers and its experiment."""
    tree: Tree = cell.choices[choice]
    resolved = run.experiment.resolved
    return {
        "label": cell.ours,
        "data": cell.federation.name,
        "kind": cell.federation.kind,
        "seed": seed,
        "key": key(tree, seed),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "git": resolved.get("git"),
        "torch": resolved["versions"]["torch"],
        "device": resolved["device"],
        "experiment": tree,
        "summary": store.brief(run.summary),
        **each(run, "accuracy", "shared_accuracy", "test", "lam"),
        "curve": curve(run),
    }


def each(run: Run, *columns: str) -> dict[str, Any]:
    """Return values per client: the mask of malicious clients, and existing columns."""
    clients = run.clients
    own = {k: [round(float(a), 6) for a in clients[k]] for k in columns if k in clients}
    return {"malicious": [int(m) for m in clients["malicious"]], **own}


def curve(run: Run, *numbers: str) -> dict[str, list[float]]:
    """Return the accuracy of benign clients at every evaluation, as columns.

    Args:
        run: The run.
        *numbers: Statistics over clients, such as "mean"; if there are none,
            "weighted".
    """
    seen = [(r["round"] + 1, r["evaluation"]) for r in run.rounds if "evaluation" in r]
    points: dict[str, list[float]] = {"round": [r for r, _ in seen]}
    for whose in ("personal", "shared"):
        for what in numbers or ("weighted",):
            values = [found[whose][f"accuracy_{what}"] for _, found in seen]
            points[f"{whose}_{what}"] = [round(float(v), 5) for v in values]
    return points


def spent(shelf: Shelf, cells: Sequence[Cell], seeds: int) -> float:
    """Return the seconds of all runs of some cells; a run of two cells counts once."""
    every = [
        shelf.find(cell, choice, seed)
        for cell in cells
        for choice in range(len(cell.choices))
        for seed in range(seeds)
    ]
    return sum({id(r.record): float(r.summary["seconds"]) for r in every if r}.values())
