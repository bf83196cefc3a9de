"""Compare our numbers with the paper's: difference, standard error, and verdict.

A cell is judged if we have a number on the paper's data. The verdict is "reproduced",
"better" or "worse". `RULE` has the rule as a text, from `texts.json`.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from troth.reproduce import kept, papers
from troth.reproduce.entry import Cell, Entry, key
from troth.reproduce.kept import Result, Shelf
from troth.reproduce.settings import TEXTS, Federation

CLOSE = 0.02
RULE = TEXTS["rule"]
Verdict = Literal["reproduced", "better", "worse", "not judged", ""]
JUDGED = ("reproduced", "better", "worse")


class Number(NamedTuple):
    """A number that we measured, over seeds."""

    mean: float = math.nan
    spread: float = math.nan  # standard deviation over seeds; NaN for one seed
    error: float = math.nan  # standard error of the mean


class Judged(NamedTuple):
    """A cell with our results and their verdicts."""

    cell: Cell
    theirs: papers.Value | None  # the paper's number
    seeds: int  # number of seeds that were run
    mean: float = math.nan  # mean weighted by test examples, averaged over seeds
    std: float = math.nan  # standard deviation over clients, averaged over seeds
    spread: float = math.nan  # standard deviation over seeds; NaN for one seed
    error: float = math.nan  # standard error of `mean`
    verdict: Verdict = ""
    devices: float = math.nan  # plain mean over clients, averaged over seeds
    devices_verdict: Verdict = ""  # verdict if the paper's numbers are plain means
    std_verdict: Verdict = ""  # of `std`: "better" is larger, "worse" is smaller
    late: tuple[float, float] | None = None  # range in the last fifth of the rounds
    way: Mapping[int, float] = MappingProxyType({})  # round → mean over seeds

    @property
    def missed(self) -> bool:
        """Return whether the cell was judged, and is not reproduced."""
        return self.verdict in ("better", "worse")

    @property
    def difference(self) -> float:
        """Our mean minus the paper's; NaN if one is missing."""
        return self.mean - self.theirs.mean if self.theirs else math.nan

    @property
    def inside(self) -> list[int]:
        """The rounds after which the cell would be reproduced."""
        if self.theirs is None:
            return []
        off = {r: value - self.theirs.mean for r, value in self.way.items()}
        return [r for r, far in off.items() if verdict(far, self.error) == "reproduced"]

    @property
    def draw(self) -> bool:
        """Return whether an evaluation a little earlier gives another verdict.

        Only evaluations in the last fifth of the rounds count. A reproduced cell is a
        draw if it is not reproduced after one of them. A cell that is not reproduced is
        a draw if it is after one of them.
        """
        last = {r for r in self.way if r >= kept.late(self.way)}
        good = last & {*self.inside}
        return bool(good) if self.missed else bool(last - good) and self.judged

    @property
    def judged(self) -> bool:
        """Whether the verdict is "reproduced", "better" or "worse"."""
        return self.verdict in JUDGED

    def plain(self) -> dict[str, Any]:
        """Return the cell as a dictionary for JSON and CSV."""
        theirs = self.theirs
        return {
            "part": self.cell.part,
            "data": self.cell.federation.name,
            "row": self.cell.row,
            "column": self.cell.column,
            "ours": self.mean,
            "ours_devices": self.devices,
            "ours_std": self.std,
            "seeds": self.seeds,
            "spread": self.spread,
            "standard_error": self.error,
            "theirs": theirs.mean if theirs else math.nan,
            "theirs_std": theirs.std if theirs else None,
            "difference": self.difference,
            "verdict": self.verdict,
            "devices_verdict": self.devices_verdict,
            "std_verdict": self.std_verdict,
            "draw": self.draw,
            "late_least": self.late[0] if self.late else None,
            "late_most": self.late[1] if self.late else None,
        }


def verdict(difference: float, error: float) -> Verdict:
    """Judge a difference by `RULE`.

    Args:
        difference: Our number minus the paper's; NaN: there is no verdict.
        error: Standard error of our number; if it is not finite, 0 is used.

    Example:
        >>> verdict(0.03, 0.02), verdict(-0.05, 0.02)
        ('reproduced', 'worse')
    """
    if math.isnan(difference):
        return ""
    allowed = max(CLOSE, 2 * error if math.isfinite(error) else 0.0)
    if abs(difference) <= allowed + 1e-12:
        return "reproduced"
    return "better" if difference > 0 else "worse"


def judge(entry: Entry, cell: Cell, found: Sequence[Result]) -> Judged:
    """Judge a cell by its results, one per seed."""
    theirs = entry.theirs(cell)
    if not found:
        return Judged(cell, theirs, 0)
    std = spread([result.number(cell, "std") for result in found])
    if len(found) == 1:
        # Standard errors over clients. That of `std` assumes a normal distribution.
        n = found[0].summary["clients"] - found[0].summary["malicious"]
        error = std.mean / math.sqrt(n)
        std = std._replace(error=std.mean / math.sqrt(2 * max(n - 1, 1)))
    metrics = (cell.metric, "mean")
    both = [spread([result.number(cell, name) for result in found]) for name in metrics]
    if len(found) == 1:
        both = [number._replace(error=error) for number in both]
    mean, devices = both
    made = Judged(cell, theirs, len(found), mean.mean, std.mean, mean.spread)
    made = made._replace(error=mean.error, devices=devices.mean)
    seen = [late for result in found if (late := result.late(cell)) is not None]
    if seen:
        made = made._replace(late=(min(seen)[0], max(b for _, b in seen)))
    ways = [result.way(cell) for result in found]
    rounds = [r for r in ways[0] if all(r in way for way in ways)]
    way = {r: float(np.mean([way[r] for way in ways])) for r in rounds}
    made = made._replace(way=way)
    if cell.federation.kind != "original" or theirs is None:
        return made._replace(verdict="not judged" if theirs else "")
    off = math.nan if theirs.std is None else std.mean - theirs.std
    return made._replace(
        verdict=verdict(made.difference, mean.error),
        devices_verdict=verdict(devices.mean - theirs.mean, devices.error),
        std_verdict=verdict(off, std.error),
    )


def table(
    entry: Entry, cells: Sequence[Cell], shelf: Shelf, seeds: int
) -> list[Judged]:
    """Judge cells by the results of `shelf`, for this number of seeds."""
    return [judge(entry, cell, shelf.settled(cell, seeds)) for cell in cells]


def of_script(entry: Entry, root: Path) -> list[Judged]:
    """Judge the results of a script, in the order of the paper's table.

    Rows that are not in the paper come last, without a verdict. Cells that have neither
    our number nor the paper's are left out. If the paper prints no numbers, or there
    are no results, the list is empty.
    """
    found = list[Judged]()
    if entry.numbers is None or (printed := entry.printed) is None:
        return found
    ours, federation = entry.numbers(root), Federation(entry.own, "", 0, 0.0, {})
    for part in printed.parts:
        rows = dict.fromkeys(
            [*part.rows, *(at[1] for at in ours if at[0] == part.data)]
        )
        for row, column in itertools.product(rows, part.columns):
            cell = Cell(part.data, row, column, (), federation)
            one = Judged(cell, part.at(row, column), 0)
            if values := ours.get((part.data, row, column)):
                mean, wide, error = spread(values)
                one = Judged(cell, one.theirs, len(values), mean, math.nan, wide, error)
                one = one._replace(verdict=verdict(one.difference, error))
            found += [one] if one.seeds or one.theirs else []
    return found if ours else []


def order(judged: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Return Spearman's rank correlation between our and the paper's rows, per column.

    If several of our rows are compared with the same row of the paper, the first one
    counts. A column is left out if fewer than three rows have both numbers, or if all
    our numbers are equal, or all of the paper's.

    Returns:
        Name of our data → column → correlation.
    """
    pairs: dict[tuple[str, str], dict[tuple[str, str], tuple[float, float]]] = {}
    for one in judged:
        if one.seeds and one.theirs:
            at = (one.cell.federation.name, one.cell.column)
            both = (one.mean, one.theirs.mean)
            pairs.setdefault(at, {}).setdefault(one.cell.printed, both)
    found: dict[str, dict[str, float]] = {}
    for (ours, column), rows in pairs.items():
        sides = [*zip(*rows.values(), strict=True)]
        if len(rows) > 2 and all(len({*side}) > 1 for side in sides):
            rank = float(stats.spearmanr(*sides).statistic)
            found.setdefault(ours, {})[column] = rank
    return found


def spread(values: Sequence[float]) -> Number:
    """Return mean, standard deviation and standard error of values, one per seed."""
    found = np.array(values)
    wide = float(found.std(ddof=1)) if len(found) > 1 else math.nan
    return Number(float(found.mean()), wide, wide / math.sqrt(len(found)))


def share(
    judged: Sequence[Judged], by: Callable[[Judged], str] = lambda one: one.verdict
) -> tuple[int, int]:
    """Return the number of reproduced cells, and the number of judged cells.

    Args:
        judged: The cells.
        by: Function from a cell to the verdict that counts.
    """
    done = [word for one in judged if (word := by(one)) in JUDGED]
    return done.count("reproduced"), len(done)


def distinct(judged: Sequence[Judged]) -> list[Judged]:
    """Leave out cells that repeat an earlier cell: same runs and same printed number.

    The papers print some results in several tables and figures. Local models, for
    example, are the same under the attacks A1, A2 and A3 of Ditto.
    """
    found: dict[Any, Judged] = {}
    for one in judged:
        runs = tuple(key(tree, 0) for tree in one.cell.choices)
        about = one.cell.whose, one.cell.metric, one.theirs
        name = (one.cell.federation.name, one.cell.label) if not runs else ()
        found.setdefault((runs, about, name), one)
    return [*found.values()]
