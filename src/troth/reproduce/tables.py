"""A table as the paper lays it out, ours beside theirs: Markdown and CSV."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from troth.reproduce.entry import Entry
from troth.reproduce.judging import RULE, Judged, share
from troth.reproduce.settings import TEXTS

MARKS = {"reproduced": "=", "better": "↑", "worse": "↓", "not judged": "~", "": ""}
LEGEND = TEXTS["legend"]


def number(value: float | None, sign: bool = False) -> str:
    """Three decimals without the leading zero; – for what is not known."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{value:+.3f}" if sign else f"{value:.3f}"
    return text.replace("0.", ".", 1).replace("-", "−")


def short(value: float | None) -> str:
    """Two decimals, as the papers print standard deviations."""
    known = value is not None and not math.isnan(value)
    return f"{value:.2f}".replace("0.", ".", 1) if known else "–"


def words(one: Judged) -> str:
    """All of a cell in a line; "" where there is neither ours nor theirs."""
    theirs = one.theirs
    printed = "" if theirs is None else number(theirs.mean)
    if theirs is not None and theirs.std is not None:
        printed += f" ({short(theirs.std)})"
    if not one.seeds:
        return f"[{printed}]" if printed else ""
    text = number(one.mean)
    text += f" ({short(one.std)})" if not math.isnan(one.std) else ""
    if one.seeds > 1:
        text += f" ±{number(one.spread)}"
    if printed:
        text += f" [{printed}, {number(one.difference, sign=True)}]"
    return f"{text} {MARKS[one.verdict]}".rstrip()


def brief(one: Judged) -> str:
    """Ours alone, and the mark; "" where nothing was run."""
    return f"{number(one.mean)} {MARKS[one.verdict]}".rstrip() if one.seeds else ""


Layout = tuple[str, list[str], list[list[str]]]
"""A part's title, its columns, and its rows with their names first."""


def layout(
    judged: Sequence[Judged], text: Callable[[Judged], str] = words
) -> Iterator[Layout]:
    """Part by part, rows and columns in the paper's order."""
    for mine in parts(judged):
        columns = list(dict.fromkeys(one.cell.column for one in mine))
        at = {(one.cell.row, one.cell.column): text(one) for one in mine}
        rows = [
            [row, *(at.get((row, column), "") for column in columns)]
            for row in dict.fromkeys(one.cell.row for one in mine)
        ]
        yield title(mine), columns, rows


def parts(judged: Sequence[Judged]) -> list[list[Judged]]:
    """Return the cells of each of the paper's data sets."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.cell.part, []).append(one)
    return [*found.values()]


def title(mine: Sequence[Judged], nothing: str = "") -> str:
    """Return the paper's data of a part, and ours, which may stand in for them.

    `nothing` stands in the place of the paper's where it prints no number of it.
    """
    names = "; ".join(dict.fromkeys(one.cell.federation.name for one in mine))
    printed = any(one.theirs for one in mine)
    theirs = f"theirs: {mine[0].cell.part}; " if printed else nothing
    return f"{theirs}ours: {names}"


def where(entry: Entry) -> str:
    """Return the place of the paper's numbers."""
    printed = entry.printed
    return printed.where if printed else "the paper prints no numbers"


def markdown(entry: Entry, judged: Sequence[Judged]) -> str:
    """Return the whole table, with the rule and the share of cells that meet it."""
    lines = [f"# {entry.name}: {entry.title}", "", f"Theirs: {where(entry)}."]
    lines += [f"Note: {entry.note}."] if entry.note else []
    for title, columns, rows in layout(judged):
        lines += ["", f"## {title}", "", *grid(columns, rows)]
    good, all_ = share(judged)
    lines += ["", LEGEND, "", RULE, "", f"Reproduced: {good} of {all_} cells judged."]
    return "\n".join(lines) + "\n"


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown."""
    lines = ["| | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def as_csv(judged: Sequence[Judged]) -> str:
    """Format one line per cell, with all its numbers in full precision."""
    return plain_csv([one.plain() for one in judged])


def plain_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Format one line per row; what is missing or NaN is left empty."""
    text = io.StringIO()
    out = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    out.writeheader()
    for row in rows:
        out.writerow({k: "" if v is None or v != v else v for k, v in row.items()})
    return text.getvalue()
