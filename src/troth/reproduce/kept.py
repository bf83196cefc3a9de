"""Results on disk: one small file a cell and seed, found by what was trained."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troth import build, folder
from troth.loading import Run
from troth.reproduce import digests
from troth.reproduce.entry import Cell, experiment, key
from troth.reproduce.settings import Tree

COMMITTED = "reproduce"
"""The folder under experiments/ whose results belong to the source."""

SAME = 1e-4
"""Curves are kept with five digits."""


class Result(NamedTuple):
    """What a run found, and when and with what it ran."""

    file: Path
    said: dict[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        """Over benign clients, as a run's `summary.json`."""
        found: dict[str, Any] = self.said["summary"]
        return found

    def number(self, cell: Cell, metric: str) -> float:
        """Of a cell: accuracy_<metric> of the models that it is about."""
        at = self.summary
        for part in cell.whose:
            at = at[part]
        return float(at[f"accuracy_{metric}"])

    def late(self, cell: Cell) -> tuple[float, float] | None:
        """The least and the most of its number in the last fifth of the rounds.

        As far as that was looked at; None where it was not.
        """
        way = self.way(cell)
        last = [value for r, value in way.items() if r >= late(way)]
        return (min(last), max(last)) if len(last) > 2 else None

    def way(self, cell: Cell) -> dict[int, float]:
        """Its number after the rounds at which that was looked at.

        What is trained after the last round (fine-tuning) was not looked at on the way:
        there the last look is not the number.
        """
        curve = self.said.get("curve", {})
        values = curve.get(f"{cell.whose[0]}_{cell.metric}")
        if len(cell.whose) > 1 or not values:
            return {}
        own = abs(values[-1] - self.number(cell, cell.metric)) < SAME
        return dict(zip(curve["round"], values, strict=True)) if own else {}

    @property
    def valid(self) -> float:
        """By which choices are made: benign clients' own models, validation data.

        Where the split has none, test data: so do the Ditto authors with Fashion-MNIST,
        whose best λ in Table 4 is in every column the best of Table 8.
        """
        if "valid" in self.summary:
            return float(self.summary["valid"]["personal"]["accuracy_mean"])
        return float(self.summary["personal"]["accuracy_weighted"])


def late(way: Mapping[int, float]) -> float:
    """The round with which the last fifth begins."""
    return 0.8 * max(way, default=1)


def experiments() -> Path | None:
    """The folder of experiments beside the source; None where it was installed."""
    found = Path(build.__file__).parents[2] / "experiments"
    return found if found.is_dir() else None


class Shelf:
    """Where results are looked for: a folder of the user's, and what is committed."""

    def __init__(self, out: Path | None, root: Path | None) -> None:
        self.out, self.root = out, root
        places = [out, *([root / COMMITTED] if root else [])]
        self._files: dict[str, list[Path]] = {}
        for place in dict.fromkeys(p for p in places if p is not None and p.is_dir()):
            for file in sorted(place.rglob("*~*.json")):
                named = file.stem.rpartition("~")[2]
                self._files.setdefault(named, []).append(file)

    def find(
        self, cell: Cell, choice: int, seed: int, code: str | None = None
    ) -> Result | None:
        """The result of a cell; None where there is none.

        Args:
            cell: which.
            choice: which of its experiments.
            seed: of it.
            code: only what this code computed; None: what any did. What was committed
                before codes were kept counts as computed by any.
        """
        named = key(cell.choices[choice], seed) if self._files else ""
        for file in self._files.get(named, []):
            said = _read(file)
            if said is not None and code in (None, said.get("code")):
                return Result(file, said)
        if cell.kept and self.root is not None:
            file = self.root / cell.kept[choice].format(seed=seed)
            said = _read(file) if file.exists() else None
            if said is not None:
                return Result(file, said if "summary" in said else {"summary": said})
        return None

    def settled(self, cell: Cell, seeds: int, code: bool = False) -> list[Result]:
        """The results of a cell, a seed each, of the experiment that was chosen."""
        at = self.chosen(cell, code)
        if at is None:
            return []
        found = [self.find(cell, at, s, _code(cell, at, s, code)) for s in range(seeds)]
        return [result for result in found if result is not None]

    def chosen(self, cell: Cell, code: bool = False) -> int | None:
        """Which of a cell's experiments counts: by validation data, in seed 0.

        None while one of them has not been run.
        """
        if len(cell.choices) == 1:
            return 0
        tried = [
            self.find(cell, i, 0, _code(cell, i, 0, code))
            for i in range(len(cell.choices))
        ]
        if any(result is None for result in tried):
            return None
        scores = [result.valid for result in tried if result is not None]
        return int(np.argmax(scores))

    def add(self, cell: Cell, choice: int, seed: int, run: Run) -> Result:
        """Write down what a run found, whole or not at all."""
        assert self.out is not None
        said = record(cell, choice, seed, run)
        name = re.sub(r"[^\w .,=%λ()+-]", "-", f"{cell.row}, {cell.column}")
        number = f" ({choice + 1})" if len(cell.choices) > 1 else ""
        place = self.out / re.sub(r"\W+", "-", cell.federation.name).strip("-")
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{name}{number}, seed {seed}~{said['key']}.json"
        folder.write(file, _text(folder.plain(said)))
        self._files.setdefault(said["key"], []).insert(0, file)
        return Result(file, said)


def _text(said: dict[str, Any]) -> str:
    """A line a key: there are lists of a number a client."""
    lines = (f" {json.dumps(k)}: {json.dumps(v)}" for k, v in said.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _code(cell: Cell, choice: int, seed: int, asked: bool) -> str | None:
    return digests.code(experiment(cell.choices[choice], seed)) if asked else None


def _read(file: Path) -> dict[str, Any] | None:
    """A result; None for a file that is none, which nobody wrote whole."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def record(cell: Cell, choice: int, seed: int, run: Run) -> dict[str, Any]:
    """What is kept of a run: numbers over clients and of each, and what made them."""
    tree: Tree = cell.choices[choice]
    e, resolved = experiment(tree, seed), run.experiment.resolved
    said: dict[str, Any] = {
        "label": cell.label,
        "data": cell.federation.name,
        "kind": cell.federation.kind,
        "seed": seed,
        "key": key(tree, seed),
        "code": digests.code(e),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "git": resolved.get("git"),
        "versions": resolved["versions"],
        "device": resolved["device"],
        "experiment": tree,
        "summary": run.summary,
        **each(run, "accuracy", "shared_accuracy", "test", "lam"),
    }
    return {**said, "curve": curve(run)}


def each(run: Run, *columns: str) -> dict[str, Any]:
    """Who is hostile, and some columns of all clients, where the run has them."""
    clients = run.clients
    said: dict[str, Any] = {"malicious": [int(m) for m in clients["malicious"]]}
    for name in columns:
        if name in clients:
            said[name] = [round(float(a), 6) for a in clients[name]]
    return said


def curve(run: Run, *numbers: str) -> dict[str, list[float]]:
    """Benign clients' accuracy at every evaluation on the way.

    Args:
        run: finished.
        numbers: of all clients' accuracies: weighted, mean, std …; none: weighted.
    """
    seen = [(r["round"] + 1, r["evaluation"]) for r in run.rounds if "evaluation" in r]
    points: dict[str, list[float]] = {"round": [r for r, _ in seen]}
    for whose in ("personal", "shared"):
        for what in numbers or ("weighted",):
            values = [found[whose][f"accuracy_{what}"] for _, found in seen]
            points[f"{whose}_{what}"] = [round(float(v), 5) for v in values]
    return points


def spent(shelf: Shelf, cells: Sequence[Cell], seeds: int) -> float:
    """Seconds that all runs behind some cells took, each once, as they say."""
    every: dict[Path, float] = {}
    for cell in cells:
        for choice in range(len(cell.choices)):
            for seed in range(seeds):
                result = shelf.find(cell, choice, seed)
                if result is not None:
                    every[result.file] = float(result.summary["seconds"])
    return sum(every.values())


def complete(shelf: Shelf, cells: Sequence[Cell], seeds: int) -> int:
    """How many cells have all their seeds."""
    return sum(len(shelf.settled(cell, seeds)) == seeds for cell in cells)
