"""Measure rounds of personalizers, as multiples of a round of FedAvg.

    python benchmarks/personalizers.py [NAME …] [--device cuda] [--how vmap]
        [--rounds 30] [--clock cpu] [--out FILE.json]

Whole rounds of one federation (clients, aggregator, server; no evaluation), each
personalizer with the plan that the engine measures and chooses for it. They are
measured by turns in one process, a round each, and the ratio is that of the medians.
On a busy machine take `--how vmap --clock cpu`: one thread, and the processor's time.
Each client has 90 examples to train on and 10 to choose λ by. What comes once, after
the last round, is not part of a round. `fedbn` is measured where a model normalises.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from machine import facts
from troth import build
from troth.config import reader
from troth.runs import bench

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WARM = 2  # rounds that are not counted: they trace
AUTO = {"name": "ditto", "lam": "auto", "candidates": [0.1, 1.0, 2.0]}
INNER = 5
PERSONALIZERS: dict[str, tuple[dict[str, Any], float | None]] = {
    "fedavg": ({"name": "none"}, None),
    "ditto": ({"name": "ditto", "lam": 1.0}, 2.1),
    "auto, code": (AUTO | {"choose": "code"}, 4.0),
    "auto, side by side": (AUTO | {"choose": "side_by_side"}, 4.0),
    "apfl": ({"name": "apfl"}, 2.5),
    "apfl, adaptive": ({"name": "apfl", "adaptive": True}, 2.5),
    "mapper": ({"name": "mapper"}, 2.5),
    "l2sgd": ({"name": "l2sgd"}, 2.5),
    "l2sgd, randomised": ({"name": "l2sgd", "variant": "randomised"}, 2.5),
    "mixture": ({"name": "mixture"}, 2.5),
    "per_fedavg": ({"name": "per_fedavg"}, 2.5),
    "same batch": ({"name": "per_fedavg", "same_batch": True}, 2.5),
    "Hessian-free": ({"name": "per_fedavg", "variant": "hessian_free"}, 4.3),
    "Hessian-free, same": (
        {"name": "per_fedavg", "variant": "hessian_free", "same_batch": True},
        4.3,
    ),
    "pfedme": ({"name": "pfedme", "inner": INNER}, 1.0 + INNER),
    "fedper": ({"name": "fedper"}, 2.5),
    "fedrep": ({"name": "fedrep"}, 2.5),
    "fedbn": ({"name": "fedbn"}, 2.5),
}
"""What is measured, and at most how many times FedAvg's round it may take."""
NORMALISED = bench.Case(
    "CNN(8,8,8), norm", "celeba_cnn", {"channels": 8, "blocks": 3}, 8
)
CASES = (*bench.CASES[:3], NORMALISED, bench.CASES[3])


def experiment(case: bench.Case, personalizer: dict[str, Any], given: Any) -> Any:
    """A federation of made characters of 28×28 pixels."""
    tree = {
        "data": {
            "name": "characters:characters",
            "clients": 50,
            "per_client": 125,
            "alphabets": 1,
        },
        "partition": {"name": "natural", "split": [0.72, 0.08, 0.2]},
        "model": {"name": case.name, **case.options},
        "train": {
            "rounds": WARM + given.rounds,
            "cohort": given.cohort,
            "steps": 10,
            "batch": 16,
            "lr": 0.05,
        },
        "personalizer": personalizer,
        "engine": {
            "how": given.how,
            "chunk": given.cohort if given.how == "vmap" else 0,
            "device": given.device,
        },
    }
    return reader.from_dict(tree)


def measure(case: bench.Case, given: Any) -> list[dict[str, Any]]:
    """A row a personalizer: milliseconds a round."""
    made = {
        name: build.build(experiment(case, options, given))
        for name, (options, _) in PERSONALIZERS.items()
        if name in ("fedavg", *(given.names or PERSONALIZERS))
        if name != "fedbn" or case is NORMALISED
    }
    runs = {name: one.federation.train() for name, one in made.items()}
    each: dict[str, list[float]] = {name: [] for name in made}
    sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(WARM + given.rounds):  # by turns, so that a busy moment hits all
        for name, rounds in runs.items():
            each[name].append(_ms(rounds, sync, CLOCKS[given.clock]))
    times = {name: every[WARM:] for name, every in each.items()}
    plain = statistics.median(times["fedavg"])
    return [
        {
            "model": case.label,
            "parameters": made[name].facts["parameters"],
            "personalizer": name,
            "plan": made[name].federation.engine.plan._asdict(),
            "round_ms": statistics.median(ms),
            "ratio": statistics.median(ms) / plain,
            "goal": PERSONALIZERS[name][1],
            "all_round_ms": ms,
        }
        for name, ms in times.items()
    ]


def _ms(
    rounds: Iterator[Any], sync: Callable[[], None], clock: Callable[[], float]
) -> float:
    sync()
    began = clock()
    next(rounds)
    sync()
    return 1000 * (clock() - began)


def main() -> None:
    """Measure, print, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(PERSONALIZERS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--how", default="auto")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--models", type=int, default=4, help="the first so many")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    print(f"{'model':<17}{'personalizer':<20}{'ms':>9}{'ratio':>8}{'goal':>6}  plan")
    rows = []
    for case in CASES[: given.models]:
        for row in measure(case, given):
            plan = "{how}, chunk {chunk}, {workers} worker(s)".format(**row["plan"])
            print(
                f"{row['model']:<17}{row['personalizer']:<20}{row['round_ms']:>9.2f}"
                f"{row['ratio']:>8.2f}{row['goal'] or '':>6}  {plan}",
                flush=True,
            )
            rows.append(row)
    if given.out:
        told = {
            **facts(given.device),
            "cohort": given.cohort,
            "clock": given.clock,
            "rows": rows,
        }
        given.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
