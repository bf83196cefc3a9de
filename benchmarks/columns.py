"""The columns of one row of Ditto's Table 8: as one matrix, and one after another.

    python benchmarks/columns.py --device cuda --out FILE.json

Seconds a round come from runs of two lengths, so that loading data, building and
tracing do not count; both ways are then held against each other after five rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
from troth import runs, together
from troth.loading import Run
from troth.reproduce import listing
from troth.reproduce.entry import experiment
from troth.sections import Experiment

ROWS = ("median", "Ditto, λ=1")
FULL = 5000  # rounds of the table


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


def seconds(every: list[Experiment], place: Path, joint: bool) -> float:
    """Train them in folders below a place."""
    paths = [place / str(k) for k in range(len(every))]
    began = time.perf_counter()
    if joint:
        together.train(every, paths)
    else:
        for one, path in zip(every, paths, strict=True):
            runs.train(one, path)
    return time.perf_counter() - began


def measured(row: str, lengths: tuple[int, int], device: str, scale: Any) -> Any:
    """Milliseconds a round of all columns, both ways."""
    found: dict[str, Any] = {"row": row, "rounds": lengths}
    with tempfile.TemporaryDirectory() as place:  # what is slow but once
        seconds(columns(row, 2, device, scale), Path(place), joint=True)
    for name, joint in (("together", True), ("apart", False)):
        spent = []
        for rounds in lengths:
            with tempfile.TemporaryDirectory() as place:
                every = columns(row, rounds, device, scale)
                spent.append(seconds(every, Path(place), joint))
        each = (spent[1] - spent[0]) / (lengths[1] - lengths[0])
        whole = spent[0] + each * (FULL - lengths[0])
        found[name] = {"seconds": spent, "ms_round": 1e3 * each, "whole": whole}
        print(row, name, found[name], flush=True)
    both = [found[name]["whole"] for name in ("together", "apart")]
    return found | {"columns": len(every), "ratio": both[0] / both[1]}


def apart(row: str, device: str, scale: Any) -> float:
    """How far shared models lie apart after five rounds, at most."""
    with tempfile.TemporaryDirectory() as place:
        every = columns(row, 5, device, scale)
        for name, joint in (("a", True), ("b", False)):
            seconds(every, Path(place) / name, joint)
        far = 0.0
        for k in range(len(every)):
            pair = [Run(Path(place) / n / str(k)).shared() for n in ("a", "b")]
            ours, theirs = (one.state_dict() for one in pair)
            each = [float((ours[n] - theirs[n]).abs().max()) for n in ours]
            far = max(far, *each)
    return far


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rows", nargs="*", default=ROWS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, nargs=2, default=(50, 350))
    parser.add_argument("--small", action="store_true", help="8×8 digits: a try")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    scale, found = "small" if given.small else "full", []
    for row in given.rows:
        said = measured(row, tuple(given.rounds), given.device, scale)
        found.append(said | {"apart_after_5": apart(row, given.device, scale)})
        print(f"{row}: {said['ratio']:.2f} of the time", flush=True)
    text = json.dumps(machine.facts(given.device) | {"rows": found}, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
