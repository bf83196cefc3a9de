"""What was tried on cells that are off: runs with one thing changed.

Their records are in the table of the experiments that belong to an entry, each with its
`change`; what that is, the script beside the table says.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from troth.reproduce import judging, kept, store, tables
from troth.reproduce.entry import Cell, Entry

HOMES = {"ditto/table8": "fashion_ditto"}
"""Entry → the folder below experiments/ that has its changes."""


class Tried(NamedTuple):
    """A cell with one thing changed."""

    change: str
    rounds: int  # of so many, where these are not the entry's; else 0
    one: judging.Judged

    @property
    def met(self) -> bool:
        """Whether it is reproduced after its last round."""
        return self.one.verdict == "reproduced"

    @property
    def words(self) -> str:
        """In a line, for a table."""
        text = f"{self.change}, {self.rounds:,} rounds" if self.rounds else self.change
        text += f": {tables.number(self.one.mean)}"
        if self.met:
            return f"{text} ="
        of = f" (inside after {tables.looks(self.one)} looks)"
        return text + of if judging.inside(self.one) else text


def tried(entry: Entry, cell: Cell, root: Path) -> list[Tried]:
    """Every change of a cell that was trained, by name.

    Args:
        entry: whose cell it is.
        cell: as the entry has it.
        root: the folder of experiments.
    """
    home, found = HOMES.get(entry.name), list[Tried]()
    pattern = f"*/{cell.row}, {cell.column}, seed 0~*"
    for said in store.named(root, f"{home}/{pattern}") if home else []:
        one = judging.judge(entry, cell, [kept.Result(said)])
        rounds = int(said["experiment"]["train"]["rounds"])
        fewer = rounds != cell.choices[0]["train"]["rounds"]
        found.append(Tried(said["change"], rounds if fewer else 0, one))
    return found
