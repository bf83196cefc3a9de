"""Ours beside theirs: the difference, how sure it is, and a verdict by one rule."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from troth.reproduce import papers
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.kept import Result, Shelf
from troth.reproduce.settings import TEXTS, Federation

CLOSE = 0.02
RULE = TEXTS["rule"]
Verdict = Literal["reproduced", "better", "worse", "not judged", ""]
JUDGED = ("reproduced", "better", "worse")


class Judged(NamedTuple):
    """A cell with what was found for it."""

    cell: Cell
    theirs: papers.Value | None
    seeds: int  # how many were run
    mean: float = math.nan  # over seeds
    std: float = math.nan  # over clients, its mean over seeds
    spread: float = math.nan  # over seeds: the standard deviation; nan for one
    error: float = math.nan  # standard error of the mean
    verdict: Verdict = ""
    late: tuple[float, float] | None = None  # within, in the last fifth of the rounds
    way: Mapping[int, float] = MappingProxyType({})  # round → the mean over seeds

    @property
    def missed(self) -> bool:
        """Whether it was judged, and found to be off."""
        return self.verdict in ("better", "worse")

    @property
    def difference(self) -> float:
        """Ours − theirs; nan where one is missing."""
        return self.mean - self.theirs.mean if self.theirs else math.nan

    def plain(self) -> dict[str, Any]:
        """For programs."""
        theirs = self.theirs
        return {
            "part": self.cell.part,
            "data": self.cell.federation.name,
            "row": self.cell.row,
            "column": self.cell.column,
            "ours": self.mean,
            "ours_std": self.std,
            "seeds": self.seeds,
            "spread": self.spread,
            "standard_error": self.error,
            "theirs": theirs.mean if theirs else math.nan,
            "theirs_std": theirs.std if theirs else None,
            "difference": self.difference,
            "verdict": self.verdict,
            "late_least": self.late[0] if self.late else None,
            "late_most": self.late[1] if self.late else None,
        }


def verdict(difference: float, error: float) -> Verdict:
    """By `RULE`; an error that is not known counts as none."""
    if math.isnan(difference):
        return ""
    allowed = max(CLOSE, 2 * error if math.isfinite(error) else 0.0)
    if abs(difference) <= allowed + 1e-12:
        return "reproduced"
    return "better" if difference > 0 else "worse"


def judge(entry: Entry, cell: Cell, found: Sequence[Result]) -> Judged:
    """Return a cell with its results, a seed each."""
    theirs = entry.theirs(cell)
    if not found:
        return Judged(cell, theirs, 0)
    values = [result.number(cell, cell.metric) for result in found]
    std = float(np.mean([result.number(cell, "std") for result in found]))
    mean, wide, error = spread(values)
    if len(values) == 1:
        n = found[0].summary["clients"] - found[0].summary["malicious"]
        error = std / math.sqrt(n)
    made = Judged(cell, theirs, len(values), mean, std, wide, error)
    seen = [late for result in found if (late := result.late(cell)) is not None]
    if seen:
        made = made._replace(late=(min(seen)[0], max(b for _, b in seen)))
    ways = [result.way(cell) for result in found]
    rounds = [r for r in ways[0] if all(r in way for way in ways)]
    way = {r: float(np.mean([way[r] for way in ways])) for r in rounds}
    made = made._replace(way=way)
    if cell.federation.kind == "original":
        return made._replace(verdict=verdict(made.difference, error))
    return made._replace(verdict="not judged" if theirs else "")


def table(
    entry: Entry, cells: Sequence[Cell], shelf: Shelf, seeds: int
) -> list[Judged]:
    """Every cell with what is there for it."""
    return [judge(entry, cell, shelf.settled(cell, seeds)) for cell in cells]


def of_script(entry: Entry, root: Path) -> list[Judged]:
    """Return what a script found beside what the paper prints, in the paper's order.

    Cells for which there is neither are left out; empty where the paper prints nothing.
    """
    found = list[Judged]()
    if entry.numbers is None or (printed := entry.printed) is None:
        return found
    ours, federation = entry.numbers(root), Federation(entry.own, "", 0, 0.0, {})
    for part in printed.parts:
        for row, column in itertools.product(part.rows, part.columns):
            cell = Cell(part.data, row, column, (), federation)
            one = Judged(cell, part.at(row, column), 0)
            if values := ours.get((part.data, row, column)):
                mean, wide, error = spread(values)
                one = Judged(cell, one.theirs, len(values), mean, math.nan, wide, error)
                one = one._replace(verdict=verdict(one.difference, error))
            found += [one] if one.seeds or one.theirs else []
    return found if ours else []


def order(judged: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Correlate ours with theirs by Spearman: data of ours → column → over its rows.

    Columns with fewer than three rows in both, or one number for all, are left out.
    """
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in judged:
        if one.seeds and one.theirs:
            at = (one.cell.federation.name, one.cell.column)
            pairs.setdefault(at, []).append((one.mean, one.theirs.mean))
    found: dict[str, dict[str, float]] = {}
    for (ours, column), both in pairs.items():
        if len(both) > 2 and all(len({*side}) > 1 for side in zip(*both, strict=True)):
            rank = float(stats.spearmanr(*zip(*both, strict=True)).statistic)
            found.setdefault(ours, {})[column] = rank
    return found


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, deviation and standard error of one value a seed; NaN where one is all."""
    found = np.array(values)
    wide = float(found.std(ddof=1)) if len(found) > 1 else math.nan
    return float(found.mean()), wide, wide / math.sqrt(len(found))


def share(judged: Sequence[Judged]) -> tuple[int, int]:
    """How many cells are reproduced, of how many that were judged."""
    done = [one.verdict for one in judged if one.verdict in JUDGED]
    return done.count("reproduced"), len(done)
