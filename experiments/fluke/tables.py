"""The table of README.md, from the table of results."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from settings import METHODS, SEEDS, TITLES

from troth.reproduce.store import Store

STORE = Store(Path(__file__).parent)


class Row(NamedTuple):
    """A method of fluke's against ours: means over clients and seeds."""

    method: str
    version: str  # "published" or "repaired"
    ours: float
    theirs: float
    apart: float  # of the models: the largest over clients, parameters and seeds

    @property
    def difference(self) -> float:
        """How much better fluke is."""
        return self.theirs - self.ours


def read(side: str, seed: int) -> dict[str, Any]:
    """One side of one seed."""
    return STORE.records()[f"{side}, seed {seed}"]


def rows() -> list[Row]:
    """All rows, those of a method together."""
    ours = [read("ours", seed) for seed in SEEDS]
    theirs = [read("theirs", seed) for seed in SEEDS]
    found = []
    for name in METHODS:
        own = mean(mean(file["accuracy"][name]) for file in ours)
        for version in ("published", "repaired"):
            if name in theirs[0]["accuracy"][version]:
                each = [mean(file["accuracy"][version][name]) for file in theirs]
                apart = max(file["apart"][version][name] for file in theirs)
                found.append(Row(name, version, own, mean(each), apart))
    return found


def table() -> str:
    """As it stands in README.md."""
    lines = [
        "| method | fluke | Troth's accuracy | fluke's | difference | models apart |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows():
        lines.append(
            f"| {TITLES[row.method]} | {row.version} | {row.ours:.4f} "
            f"| {row.theirs:.4f} | {row.difference:+.4f} | {row.apart:.0e} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
