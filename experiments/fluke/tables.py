"""Print the table of README.md, from the table of results."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from settings import METHODS, SEEDS, TITLES

from troth.reproduce.store import Store

STORE = Store(Path(__file__).parent)


class Row(NamedTuple):
    """A method in fluke and in Troth: means over clients and seeds."""

    method: str
    version: str  # "published" or "repaired"
    ours: float
    theirs: float
    apart: float  # of the models: the largest over clients, parameters and seeds

    @property
    def difference(self) -> float:
        """Return fluke's accuracy − Troth's."""
        return self.theirs - self.ours


def read(side: str, seed: int) -> dict[str, Any]:
    """Return the record of one side and one seed."""
    return STORE.records()[f"{side}, seed {seed}"]


def rows() -> list[Row]:
    """Return all rows, those of a method next to each other."""
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
    """Return the table, as README.md has it."""
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
