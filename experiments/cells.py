"""Train the cells of tables and figures: one base experiment, some keys changed.

A script gives its cells to `main`. A finished cell is a file under its `results/`; what
is there already is not trained again, so a stopped script goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import troth
from troth import config, folder
from troth.loading import Run

Changes = dict[str, Any]
Look = Callable[[Run], Changes]
"""What else a row says of a run, from its folder, before that is thrown away."""


class Cell(NamedTuple):
    """One run of a table or figure."""

    figure: str
    label: str
    changes: Changes


def merged(base: Changes, changes: Changes) -> Changes:
    """The base with some keys changed; sections are merged, all else replaced."""
    tree = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(tree.get(key), dict)
        tree[key] = merged(tree[key], value) if both else value
    return tree


def train(base: Changes, changes: Changes, seed: int, device: str) -> Run:
    """One run in a folder of its own, which the caller removes."""
    tree = {**merged(base, changes), "seed": seed}
    place = Path(tempfile.mkdtemp(prefix="cell"))
    return troth.run(tree, out=place / "run", device=device)[0]


def row(run: Run) -> Changes:
    """What a table needs of a run: clients' accuracies, and how they came to be."""
    clients, resolved = run.clients, run.experiment.resolved
    said = {
        "fingerprint": resolved["fingerprint"],
        "f": resolved.get("f"),
        "device": resolved["device"],
        "torch": resolved["versions"]["torch"],
        "summary": run.summary,
        "malicious": [int(m) for m in clients["malicious"]],
    }
    for name in ("accuracy", "shared_accuracy", "lam"):
        if name in clients:
            said[name] = [round(float(a), 6) for a in clients[name]]
    return said


def curve(run: Run) -> Changes:
    """Benign clients' accuracy at every evaluation on the way."""
    seen = [(r["round"] + 1, r["evaluation"]) for r in run.rounds if "evaluation" in r]
    points: Changes = {"round": [r for r, _ in seen]}
    for whose in ("personal", "shared"):
        for what in ("weighted", "mean", "std"):
            values = [found[whose][f"accuracy_{what}"] for _, found in seen]
            points[f"{whose}_{what}"] = [round(v, 5) for v in values]
    return {"curve": points}


def no_more(run: Run) -> Changes:
    """Nothing beside the row."""
    return {}


def as_it_is(cell: Cell, seed: int) -> Changes | None:
    """The cell's own changes, whatever the seed."""
    return cell.changes


def main(
    script: str,
    base: Path,
    cells: Iterable[Cell],
    look: Look = no_more,
    seeds: int = 3,
    *,
    first: int = 0,
    given_seed: Callable[[Cell, int], Changes | None] = as_it_is,
) -> None:
    """The command line of a script.

    Args:
        script: its docstring.
        base: the experiment that all cells change, its grid left out; the results
            lie beside it.
        cells: what it can train.
        look: what else a row says.
        seeds: how many each cell has unless told.
        first: the first of them.
        given_seed: cell, seed → its changes together with what only that seed has,
            such as the model that it starts from; None: that is not there yet.
    """
    cells = list(cells)
    figures = list(dict.fromkeys(cell.figure for cell in cells))
    parser = argparse.ArgumentParser(description=script.split("\n")[0])
    parser.add_argument("figures", nargs="*", help=", ".join(figures))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--only", default="", help="labels that contain this")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th, from the i-th")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=base.parent / "results")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    wanted = given.figures or figures
    chosen = [c for c in cells if c.figure in wanted and given.only in c.label]
    every = [
        (cell, seed) for seed in range(first, first + given.seeds) for cell in chosen
    ]
    plain = {k: v for k, v in config.read(base).items() if k != "grid"}
    for cell, seed in every[part::parts]:
        file = given.out / cell.figure / f"{cell.label}, seed {seed}.json"
        if file.exists():
            continue
        changes = given_seed(cell, seed)
        if changes is None:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        run = train(plain, changes, seed, given.device)
        said = {"label": cell.label, "changes": cell.changes, "seed": seed}
        said |= row(run) | look(run)
        shutil.rmtree(run.path.parent)
        folder.write(file, json.dumps(folder.plain(said), indent=1) + "\n")
        print(file.relative_to(given.out), flush=True)
