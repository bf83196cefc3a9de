"""Print the tables of README.md: does personalization help, whom, and how much?

    python experiments/natural/tables.py

The tables are Markdown, made from the table of results.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

from troth.reproduce.store import Record, Store

ROOT = Path(__file__).parent
DATA = ("mnist_by_writer", "celeba", "vehicle", "heart_disease")
NAMES = {"none": "shared", "local": "local"}
SEEDS = (0, 1, 2)
HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "Long Beach")


def runs(data: str) -> dict[str, list[Record]]:
    """Return personalizer → its runs, one per seed."""
    found: dict[str, list[Record]] = {}
    for seed in SEEDS:
        for run in Store(ROOT).find(f"{data}/seed={seed},*"):
            name = run["name"].partition("personalizer=")[2]
            found.setdefault(name, []).append(run)
    order = sorted(found, key=lambda n: (n.startswith("ditto"), n != "none", n))
    return {name: found[name] for name in order}


def label(name: str) -> str:
    """Return the name of a method in the tables."""
    return NAMES.get(name, name.replace("ditto+lam=", "Ditto, λ = "))


def spread(values: np.ndarray) -> str:
    """Format mean ± half the width of its 95 % interval (Student)."""
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{values.mean():+.3f} ± {half:.3f}"


def accuracies(some: list[Record], column: str = "accuracy") -> np.ndarray:
    """Return accuracies, [seeds, clients]."""
    return np.stack([np.array(run[column]) for run in some])


def summary(data: str) -> list[str]:
    """Return a table of mean and spread of accuracy, one row per method."""
    rows = [
        "| model | mean | sample-weighted | std over clients | worst 10 % |",
        "|---|---|---|---|---|",
    ]
    for name, some in runs(data).items():
        own = [run["summary"]["personal"] for run in some]
        keys = ("mean", "weighted", "std", "worst10")
        cells = [np.mean([s[f"accuracy_{key}"] for s in own]) for key in keys]
        rows.append(
            f"| {label(name)} | " + " | ".join(f"{c:.3f}" for c in cells) + " |"
        )
    return rows


def gains(data: str) -> list[str]:
    """Return a table of the gains of each client's own model over the shared one.

    Clients are divided into halves by the number of their training examples, and by how
    well the shared model serves them. The latter is measured on the test sets of the
    *other* two seeds, so that luck on a test set does not choose them.
    """
    all_runs = runs(data)
    shared = accuracies(all_runs["none"])
    size = np.array(all_runs["none"][0]["train"])
    others = np.stack([np.delete(shared, k, axis=0).mean(0) for k in range(len(SEEDS))])
    rows = [
        "| model − shared | all | better / worse / equal | few examples | many | "
        "served worse | served better |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, some in all_runs.items():
        if name == "none":
            continue
        gain = accuracies(some) - shared
        counts = [
            int((np.sign(gain) == s).sum() / len(SEEDS) + 0.5) for s in (1, -1, 0)
        ]
        few = size <= np.median(size)
        worse = others < np.median(others, axis=1, keepdims=True)
        cells = [
            spread(gain.mean(0)),
            " / ".join(map(str, counts)),
            spread(gain.mean(0)[few]),
            spread(gain.mean(0)[~few]),
            f"{gain[worse].mean():+.3f}",
            f"{gain[~worse].mean():+.3f}",
        ]
        rows.append(f"| {label(name)} | " + " | ".join(cells) + " |")
    return rows


def one_by_one(data: str) -> list[str]:
    """Return the same table for few clients, one column per client."""
    all_runs = runs(data)
    shared = accuracies(all_runs["none"])
    rows = [
        "| model | " + " | ".join(HOSPITALS) + " |",
        "|---" * (len(HOSPITALS) + 1) + "|",
        "| shared | " + " | ".join(f"{a:.3f}" for a in shared.mean(0)) + " |",
    ]
    for name, some in all_runs.items():
        if name != "none":
            gain = (accuracies(some) - shared).mean(0)
            cells = " | ".join(f"{g:+.3f}" for g in gain)
            rows.append(f"| {label(name)} − shared | {cells} |")
    return rows


def page() -> str:
    """Return all tables."""
    parts = []
    for data in DATA:
        whom = one_by_one if data == "heart_disease" else gains
        parts += [f"### {data}", "", *summary(data), "", *whom(data), ""]
    return "\n".join(parts).rstrip()


if __name__ == "__main__":
    print(page())
