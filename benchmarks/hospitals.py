"""Train four hospitals as real processes on five splits, with and without attack.

    python benchmarks/hospitals.py FOLDER [--out FILE.json]

The example of docs/how-to/deployment.md. In the drill one hospital sends A3 and another
is killed in round 3 and started again; in the clean run nobody is hostile or killed.
Needs `troth[flower]` and the data of heart disease.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import machine

RUN = Path(__file__).parents[1] / "examples" / "hospitals" / "run.py"


def example() -> Any:
    """Import the example that starts the processes."""
    spec = importlib.util.spec_from_file_location("hospitals_run", RUN)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def one(run: Any, folder: Path, seed: int, drill: bool) -> dict[str, Any]:
    """Measure one split."""
    began = time.monotonic()
    out = run.main(folder, seed, drill)
    lines = (out / "rounds.jsonl").read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    found = json.loads((out / "summary.json").read_text())
    return {
        "seed": seed,
        "drill": drill,
        "honest": run.honest(out / "clients.csv", "personal_accuracy"),
        "farthest": found["farthest"],
        "missed": [r["round"] + 1 for r in rounds if r["absent"]],
        "rounds": len(rounds),
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    """Measure all ten runs, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    run, rows = example(), []
    for seed in range(5):
        for drill in (False, True):
            place = given.folder / f"{'drill' if drill else 'clean'}-{seed}"
            rows.append(one(run, place, seed, drill))
            print(json.dumps(rows[-1]), flush=True)
    mean = {
        name: sum(row["honest"] for row in rows if row["drill"] == drill) / 5
        for name, drill in (("clean", False), ("drill", True))
    }
    told = {"mean_honest": mean, "apart": mean["drill"] - mean["clean"]}
    print(json.dumps(told))
    if given.out:
        told |= {"rows": rows, **machine.facts("cpu")}
        given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
