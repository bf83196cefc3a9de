"""The columns of one row of Ditto's Table 8: as one matrix, and one after another.

    python benchmarks/columns.py --device cuda --out FILE.json

Milliseconds a round are those between the first rounds, which trace, and the last,
which evaluates; seconds are those of all. Both ways are then held against each other,
shared models and losses of clients' own; where these are not the same at the end, after
five rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import machine
from troth.config.schema import Experiment
from troth.reproduce import listing
from troth.reproduce.entry import experiment
from troth.runs import train as runs
from troth.runs import train_many
from troth.runs.load import Run

ROWS = ("median", "Ditto, λ=1")
WAYS = ("together", "apart")
FIRST = 20  # rounds that do not count


def columns(row: str, rounds: int, device: str, scale: Any) -> list[Experiment]:
    """Every column of a row, cut to so many rounds."""
    cells = listing.find("ditto/table8").at(scale, patterns=[row])
    found = []
    for cell in cells:
        e = experiment(cell.choices[0], 0)
        train = dataclasses.replace(e.train, rounds=rounds)
        evaluate = dataclasses.replace(e.evaluate, every=rounds)
        engine = dataclasses.replace(e.engine, device=device)
        found.append(
            dataclasses.replace(e, train=train, evaluate=evaluate, engine=engine)
        )
    return found


def trained(every: list[Experiment], place: Path, joint: bool) -> tuple[float, float]:
    """Train them in folders below a place: seconds in all, and a round of all."""
    paths, marks = [place / str(k) for k in range(len(every))], list[float]()
    began, each = time.perf_counter(), 0.0

    def watch(progress: runs.Progress) -> None:
        marks.append(time.perf_counter())

    whole = [partial(train_many.train, every, paths, watch=watch)]
    alone = [
        partial(runs.train, one, path, watch=watch)
        for one, path in zip(every, paths, strict=True)
    ]
    for train in whole if joint else alone:
        marks.clear()
        train()
        middle = marks[FIRST:-1]
        each += (middle[-1] - middle[0]) / (len(middle) - 1) if middle[1:] else 0.0
    return time.perf_counter() - began, each


def apart(place: Path, columns: int) -> float:
    """How far shared models and own losses of both ways lie apart, at most.

    What is no number in one and a number in the other is infinitely far.
    """
    far = 0.0
    for k in range(columns):
        pair = [Run(place / n / str(k)) for n in WAYS]
        ours, theirs = (one.shared().state_dict() for one in pair)
        own = [torch.as_tensor(np.array(one.clients["loss"], float)) for one in pair]
        for one, other in [*((ours[n], theirs[n]) for n in ours), (own[0], own[1])]:
            same = (one == other) | (one.isnan() & other.isnan())
            off = torch.where(same, 0.0, (one - other).abs()).nan_to_num(torch.inf)
            far = max(far, float(off.max()))
    return far


def measured(row: str, rounds: int, device: str, scale: Any) -> Any:
    """Milliseconds a round of all columns, both ways, and whether they are the same."""
    found: dict[str, Any] = {"row": row, "rounds": rounds}
    every = columns(row, rounds, device, scale)
    with tempfile.TemporaryDirectory() as place:
        for name in WAYS:
            whole, each = trained(every, Path(place) / name, name == "together")
            found[name] = {"seconds": whole, "ms_round": 1e3 * each}
            print(row, name, found[name], flush=True)
        found["apart_at_the_end"] = apart(Path(place), len(every))
    both = [found[name]["ms_round"] for name in WAYS]
    found |= {"columns": len(every), "ratio": both[0] / both[1]}
    if found["apart_at_the_end"] == 0:
        return found
    every = columns(row, 5, device, scale)
    with tempfile.TemporaryDirectory() as place:
        for name in WAYS:
            trained(every, Path(place) / name, name == "together")
        return found | {"apart_after_5": apart(Path(place), len(every))}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rows", nargs="*", default=ROWS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=220)
    parser.add_argument("--small", action="store_true", help="8×8 digits: a try")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    scale, found = "small" if given.small else "full", []
    for row in given.rows:
        found.append(measured(row, given.rounds, given.device, scale))
        print(f"{row}: {found[-1]['ratio']:.2f} of the time", flush=True)
    text = json.dumps(machine.facts(given.device) | {"rows": found}, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
