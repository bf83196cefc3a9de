"""Measure the cost of a step of `transfer`, in steps of fine-tuning and against a loop.

    python benchmarks/transfer.py [--device cuda] [--clients 50] [--iterations 10]
        [--models 3] [--repeats 5] [--loop] [--clock cpu] [--out FILE.json]

The last phase alone, after which every client has its own model: `finetune` and
`transfer` (both terms, `keep = "last"`, PGD with so many iterations) take the same
number of steps, by turns in one process, and the ratio is that of the medians. A step
of `transfer` may take 2 + iterations of fine-tuning: a gradient, one of R_adv, and one
in the inputs for each iteration. With `--loop` the same phase one client after another,
without lifting, which on an H200 is to take ten times as long. On a busy machine take
`--clock cpu`: the processor's time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from machine import facts
from troth import build
from troth.config import reader
from troth.engine.local_training import Engine, Plan
from troth.runs import bench
from troth.types import Broadcast

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
LIFTED = 10.0  # at least so many times a loop's speed, on an H200 with 50 clients


def experiment(case: bench.Case, personalizer: dict[str, Any], given: Any) -> Any:
    """A federation of made characters of 28×28 pixels."""
    tree = {
        "data": {
            "name": "characters:characters",
            "clients": given.clients,
            "per_client": 125,
            "alphabets": 1,
        },
        "partition": {"name": "natural", "split": [0.72, 0.08, 0.2]},
        "model": {"name": case.name, **case.options},
        "train": {"rounds": 1, "steps": 1, "batch": 32, "lr": 1e-4},
        "personalizer": personalizer | {"steps": given.steps, "optimizer": "adam"},
        "adversarial": {"name": "pgd", "iterations": given.iterations},
        "engine": {"device": given.device},
    }
    return reader.from_dict(tree)


class Phase:
    """The last phase of one personalizer, by one plan."""

    def __init__(self, case: bench.Case, name: str, plan: Plan, given: Any) -> None:
        options = {"name": name}
        if name == "transfer":
            options["keep"] = "last"
        built = build.build(experiment(case, options, given), plan=plan)
        f = built.federation
        self.engine: Engine = f.engine
        self.parameters: int = built.facts["parameters"]
        w = f.broadcast.w
        self.broadcast = Broadcast(w, w[:0], torch.ones_like(f.broadcast.scale))
        self.ids = np.arange(given.clients)
        self.rows = f.population.read(self.ids)
        self.steps = given.clients * given.steps

    def milliseconds(self, clock: Callable[[], float]) -> float:
        """Of a client-step."""
        sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
        sync()
        began = clock()
        self.engine.run("finish", self.broadcast, self.rows, self.ids, 1)
        sync()
        return 1000 * (clock() - began) / self.steps


def measure(case: bench.Case, given: Any) -> dict[str, Any]:
    """Milliseconds a client-step of each, and the two ratios."""
    together = Plan("vmap", given.clients)
    wanted = {"finetune": ("finetune", together), "transfer": ("transfer", together)}
    if given.loop:
        wanted["transfer, loop"] = ("transfer", Plan("loop", 1))
    made = {
        label: Phase(case, name, plan, given) for label, (name, plan) in wanted.items()
    }
    clock = CLOCKS[given.clock]
    times: dict[str, list[float]] = {label: [] for label in made}
    for _ in range(1 + given.repeats):  # by turns; the first traces, and is left out
        for label, phase in made.items():
            times[label].append(phase.milliseconds(clock))
    each = {label: statistics.median(every[1:]) for label, every in times.items()}
    row = {
        "model": case.label,
        "parameters": made["finetune"].parameters,
        "ms": each,
        "steps_of_finetuning": each["transfer"] / each["finetune"],
        "allowed": 2 + given.iterations,
        "all_ms": times,
    }
    if given.loop:
        row["lifted"] = each["transfer, loop"] / each["transfer"]
    return row


def main() -> None:
    """Measure, print, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", type=int, default=3, help="the first so many")
    parser.add_argument("--loop", action="store_true", help="also measure a plain loop")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    head = f"{'model':<17}{'finetune ms':>12}{'transfer ms':>12}{'steps':>8}{'≤':>4}"
    print(head + (f"{'loop ms':>10}{'lifted':>8}" if given.loop else ""))
    rows = []
    for case in bench.CASES[: given.models]:
        row = measure(case, given)
        ms, ratio = row["ms"], row["steps_of_finetuning"]
        line = f"{row['model']:<17}{ms['finetune']:>12.3f}{ms['transfer']:>12.3f}"
        line += f"{ratio:>8.2f}{row['allowed']:>4}"
        if given.loop:
            line += f"{ms['transfer, loop']:>10.2f}{row['lifted']:>8.1f}"
        print(line, flush=True)
        rows.append(row)
    if given.out:
        told = {
            **facts(given.device),
            "clients": given.clients,
            "clock": given.clock,
            "goal_lifted": LIFTED,
            "rows": rows,
        }
        given.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
