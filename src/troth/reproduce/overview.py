"""Facts about entries for the list: their data, their cost, and the results so far.

A client-step is one training step of one client.
"""

import json
import math
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from troth import build
from troth.data import catalogue
from troth.reproduce import SEEDS, scripts
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.kept import Shelf
from troth.reproduce.settings import Federation, Setting, Tree

ROUGH: dict[str, dict[str, float]] = {
    "cpu": {"linear": 5e-5, "svm": 5e-5, "mlp": 3e-4, "cnn": 2e-2, "celeba_cnn": 1e-2},
    "cuda": {"linear": 2e-5, "svm": 2e-5, "mlp": 5e-5, "cnn": 3e-4, "celeba_cnn": 5e-4},
}
"""Device → model → approximate seconds per client-step, on two CPU cores and on an
H200. They are doubled if there is a personal model in addition to the shared one."""
ROUND = 5e-3
"""Additional seconds per round, for sampling, gathering and aggregating."""


class Cost(NamedTuple):
    """The estimated cost of one seed."""

    client_steps: int
    seconds: float
    measured: bool  # whether the speed was measured on such a device; else `ROUGH`


def steps(tree: Tree, federation: Federation) -> int:
    """Estimate the client-steps of a run, with training after the last round."""
    train, part = tree["train"], tree.get("personalizer", {})
    n, m = federation.clients, federation.examples
    epoch = max(1, math.ceil(m / train["batch"])) if train.get("batch") else 1
    each = train.get("steps") or train.get("epochs", 1) * epoch
    whole = train["rounds"] * (train.get("cohort") or n) * each
    own = part if isinstance(part, dict) else {}
    if own.get("name") in ("finetune", "ewc", "skl", "upweight", "transfer"):
        whole += n * (own.get("steps") or own.get("epochs", 50) * epoch)
    return int(whole)


def speed(shelf: Shelf, cells: Sequence[Cell], device: str) -> dict[str, float]:
    """Return federation → seconds per client-step, from results on a kind of device."""
    seen: dict[str, list[float]] = {}
    for cell in cells:
        result = shelf.find(cell, 0, 0)
        if result and str(result.record.get("device", "")).startswith(device):
            took, count = (result.summary[k] for k in ("seconds", "client_steps"))
            seen.setdefault(cell.federation.name, []).append(took / max(1, count))
    return {name: median(paces) for name, paces in seen.items()}


def cost(cells: Sequence[Cell], shelf: Shelf) -> Cost:
    """Estimate the cost of cells for one seed.

    It includes all choices of a cell. Cells with the same experiment cost one run.
    """
    device = build.device("auto").type
    known, seen = speed(shelf, cells, device), set[str]()
    rough = ROUGH.get(device, ROUGH["cpu"])
    whole, seconds = 0, 0.0
    for cell in cells:
        for tree in cell.choices:
            named = json.dumps(tree, sort_keys=True)
            if named in seen:
                continue
            seen.add(named)
            count = steps(tree, cell.federation)
            own = 1 + ("personalizer" in tree)
            guess = own * rough.get(tree["model"]["name"], 1e-2) * count
            guess += ROUND * tree["train"]["rounds"]
            pace = known.get(cell.federation.name)
            whole += count
            seconds += guess if pace is None else count * pace
    every = {cell.federation.name for cell in cells}
    return Cost(whole, seconds, every <= {*known})


def of(entry: Entry, shelf: Shelf, data_dir: str | None = None) -> dict[str, Any]:
    """Return the facts about an entry, as a dictionary for JSON."""
    needs: list[Setting | str] = [*entry.settings, *entry.data]
    data = [_data(need, data_dir) for need in needs]
    cells = entry.everywhere()
    found = [shelf.settled(cell, SEEDS) for cell in cells]
    spent = cost(cells, shelf) if cells else None
    how = "measured speed" if spent and spent.measured else "rough"
    how = how if spent else "rough, on two CPU cores"
    made = scripts.results(entry, shelf.root) if shelf.root else []
    moments = [r.record["when"] for some in found for r in some if r.record.get("when")]
    if made and not moments and shelf.root:
        moments = [when for when in [scripts.committed(entry, shelf.root)] if when]
    printed = entry.printed
    return {
        "name": entry.name,
        "title": entry.title,
        "where": printed.where if printed else None,
        "form": entry.form,
        "data": data,
        "data_words": "; ".join(one["words"] for one in data) or "–",
        "cells": len(cells),
        "client_steps": spent.client_steps if spent else entry.work[0],
        "seconds": spent.seconds if spent else entry.work[1],
        "time": how,
        "script": " ".join(entry.script) or None,
        "run": sum(bool(some) for some in found),
        "results": len(made),
        "last": max(moments, default=None),
        "note": entry.note or None,
    }


def _data(need: Setting | str, data_dir: str | None) -> dict[str, Any]:
    """Return whether data are on this machine, and which substitute there is.

    Args:
        need: A setting with its data, or the name of a data set.
        data_dir: Folder to search first for data.
    """
    other = None
    if isinstance(need, str):
        name, here = need, catalogue.entry(need, data_dir).place is not None
    else:
        name, here = need.name, need.here(data_dir)
        other = None if here else need.stand_in
    there = bool(other and catalogue.entry(other.data, data_dir).place)
    words = f"{other.name} for {name}" if other else name
    return {
        "name": name,
        "here": here,
        "stand_in": other.name if other else None,
        "stand_in_here": there if other else None,
        "words": words if here or there else f"{words}: not here",
    }
