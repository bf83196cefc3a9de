"""Results on disk: one small file a cell and seed, found by what was trained."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from troth import build
from troth import files as folder
from troth.reproduce import digests
from troth.reproduce.entry import Cell, experiment, key
from troth.reproduce.result import SAME as SAME
from troth.reproduce.result import Result as Result
from troth.reproduce.result import late as late
from troth.reproduce.result import read
from troth.reproduce.settings import Tree
from troth.runs.load import Run
from troth.types import Refusal

COMMITTED = "reproduce"
"""The folder under experiments/ whose results belong to the source."""


def experiments() -> Path | None:
    """The folder of experiments beside the source; None where it was installed."""
    found = Path(build.__file__).parents[2] / "experiments"
    return found if found.is_dir() else None


class Shelf:
    """Where results are looked for: a folder of the user's, and what is committed."""

    def __init__(self, out: Path | None, root: Path | None) -> None:
        self.out, self.root = out, root
        self._files: dict[str, list[Path]] = {}
        self.look()

    def look(self) -> None:
        """See what lies there now: others may have put results there meanwhile."""
        committed = self.root / COMMITTED if self.root else None
        places = [p for p in (self.out, committed) if p is not None]
        found: dict[str, list[Path]] = {}
        for place in dict.fromkeys(places):
            try:
                files = sorted(place.rglob("*~*.json")) if place.is_dir() else []
            except OSError as error:
                raise Refusal(
                    f"{place} cannot be looked into ({error.strerror}); give another "
                    "folder with --out"
                ) from None
            for file in files:
                found.setdefault(file.stem.rpartition("~")[2], []).append(file)
        self._files = found

    def find(
        self, cell: Cell, choice: int, seed: int, code: str | None = None
    ) -> Result | None:
        """The result of a cell; None where there is none.

        Of several that of today's code, else the newest.

        Args:
            cell: which.
            choice: which of its experiments.
            seed: of it.
            code: only what this code computed; None: what any did. What was committed
                before codes were kept counts as computed by any.
        """
        named = key(cell.choices[choice], seed) if self._files else ""
        every = (read(file, named) for file in self._files.get(named, []))
        found = [one for one in every if one is not None and one.has(cell)]
        if code is not None:
            found = [one for one in found if one.said.get("code") == code]
        if found:
            return found[0] if len(found) == 1 else _best(found, cell, choice, seed)
        if cell.kept and self.root is not None:
            old = read(self.root / cell.kept[choice].format(seed=seed))
            return old if old is not None and old.has(cell) else None
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
        _made(place)
        file = place / f"{name}{number}, seed {seed}~{said['key']}.json"
        folder.write(file, _text(folder.plain(said)))
        self._files.setdefault(said["key"], []).insert(0, file)
        return Result(file, said)


def _made(place: Path) -> None:
    """A folder for results."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"the folder {place} cannot be made ({error.strerror}); give another --out"
        ) from None


def _text(said: dict[str, Any]) -> str:
    """A line a key: there are lists of a number a client."""
    lines = (f" {json.dumps(k)}: {json.dumps(v)}" for k, v in said.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _code(cell: Cell, choice: int, seed: int, asked: bool) -> str | None:
    return digests.code(experiment(cell.choices[choice], seed)) if asked else None


def _best(found: list[Result], cell: Cell, choice: int, seed: int) -> Result:
    """Of several results of one experiment: today's code's, else the newest."""
    today = _code(cell, choice, seed, asked=True)
    said = [one.said for one in found]
    ranks = [(one.get("code") == today, one.get("when", "")) for one in said]
    return found[ranks.index(max(ranks))]


def record(cell: Cell, choice: int, seed: int, run: Run) -> dict[str, Any]:
    """What is kept of a run: numbers over clients and of each, and what made them."""
    tree: Tree = cell.choices[choice]
    e, resolved = experiment(tree, seed), run.experiment.resolved
    said: dict[str, Any] = {
        "label": cell.ours,
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


def other_code(shelf: Shelf, cells: Sequence[Cell], seeds: int) -> list[bool]:
    """Of each cell: whether a result that is shown for it is not of today's code."""
    return [outdated(cell, shelf.settled(cell, seeds)) for cell in cells]


def outdated(cell: Cell, found: Sequence[Result]) -> bool:
    """Whether one of a cell's results is not of today's code.

    So are those from before codes were kept. The seed does not matter to it.
    """
    choices = range(len(cell.choices))
    today = {_code(cell, at, 0, asked=True) for at in choices} if found else set()
    return any(result.said.get("code") not in today for result in found)
