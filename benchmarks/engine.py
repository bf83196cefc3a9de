"""Compare the engine with a plain loop on this machine, and print one table.

    python benchmarks/engine.py [--device cuda] [--clients 100] [--out FILE.json]

The loop and the engine take turns in one process, five times each. The ratio is that of
the medians. `troth.runs.bench` defines the loop.
"""

import argparse
import json
import platform
from pathlib import Path

import torch

from troth.runs import bench

GOALS = {
    "cpu": {
        "linear 784→10": 6,
        "MLP-128": 3,
        "CNN(8,16,64)": 1.5,
        "CNN(32,64,1024)": 1.2,
    },
    "cuda": {"linear 784→10": 150, "CNN(32,64,1024)": 15},
}


def main() -> None:
    """Measure, print a table and write the raw numbers to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--clients", type=int, default=0, help="0: 10, or 100 on a GPU")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    head = (
        "model",
        "clients",
        "device",
        "loop µs",
        "engine µs",
        "ratio",
        "goal",
        "plan",
    )
    print("{:<17}{:>8}{:>8}{:>10}{:>11}{:>8}{:>6}  {}".format(*head))
    rows = []
    for case in bench.CASES:
        (row,) = bench.measure(device=given.device, n=given.clients, cases=(case,))
        goal = GOALS.get(row["device"].split(":")[0], {}).get(row["model"], "")
        plan = "{how}, chunk {chunk}, {workers} worker(s)".format(**row["plan"])
        print(
            f"{row['model']:<17}{row['clients']:>8}{row['device']:>8}"
            f"{row['loop_us']:>10.1f}{row['engine_us']:>11.2f}{row['ratio']:>8.1f}"
            f"{goal:>6}  {plan}",
            flush=True,
        )
        rows.append(row)
    if given.out:
        machine = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        facts = {
            "machine": machine
            or f"{platform.machine()}, {torch.get_num_threads()} threads",
            "torch": torch.__version__,
            "rows": rows,
        }
        given.out.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
