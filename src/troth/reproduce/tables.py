"""Write tables in the layout of the paper, with our numbers and the paper's."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from troth.reproduce.entry import Entry
from troth.reproduce.judging import RULE, Judged, distinct, share
from troth.reproduce.settings import TEXTS

MARKS = {"reproduced": "=", "better": "↑", "worse": "↓", "not judged": "~", "": ""}
"""Verdict → mark. For standard deviations, "better" is larger, and "worse" smaller."""
LEGEND = TEXTS["legend"]
VERDICTS: dict[str, Callable[[Judged], str]] = {
    "by the mean over devices": lambda one: one.devices_verdict,
    "standard deviations": lambda one: one.std_verdict,
}
"""Name → verdict of a cell, for verdicts other than that on the weighted mean."""


def number(value: float | None, sign: bool = False) -> str:
    """Return a number with three decimals, without the leading zero; – if missing."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{value:+.3f}" if sign else f"{value:.3f}"
    return text.replace("0.", ".", 1).replace("-", "−")


def short(value: float | None) -> str:
    """Return a number with two decimals, like standard deviations in the papers."""
    known = value is not None and not math.isnan(value)
    return f"{value:.2f}".replace("0.", ".", 1) if known else "–"


def words(one: Judged) -> str:
    """Return all numbers of a cell as one line; "" if it has none.

    `LEGEND` explains the format.
    """
    theirs = one.theirs
    printed = "" if theirs is None else number(theirs.mean)
    if theirs is not None and theirs.std is not None:
        printed += f" ({short(theirs.std)})"
    if not one.seeds:
        return f"[{printed}]" if printed else ""
    text = number(one.mean)
    if not math.isnan(one.devices):
        text += f"/{number(one.devices)}"
    if not math.isnan(one.std):
        text += f" ({short(one.std)} {MARKS[one.std_verdict]}".rstrip() + ")"
    if one.seeds > 1:
        text += f" ±{number(one.spread)}"
    if printed:
        text += f" [{printed}, {number(one.difference, sign=True)}]"
    return f"{text} {MARKS[one.verdict]}".rstrip()


def brief(one: Judged) -> str:
    """Return our mean and the mark of the verdict; "" if nothing was run."""
    return f"{number(one.mean)} {MARKS[one.verdict]}".rstrip() if one.seeds else ""


Layout = tuple[str, list[str], list[list[str]]]
"""Title of a part, names of columns, and rows of texts, which begin with their name."""


def layout(
    judged: Sequence[Judged], text: Callable[[Judged], str] = words
) -> Iterator[Layout]:
    """Yield the layout of each part, with rows and columns in the paper's order.

    Args:
        judged: The cells.
        text: Function that formats a cell.
    """
    for mine in parts(judged):
        columns = list(dict.fromkeys(one.cell.column for one in mine))
        at = {(one.cell.row, one.cell.column): text(one) for one in mine}
        rows = [
            [row, *(at.get((row, column), "") for column in columns)]
            for row in dict.fromkeys(one.cell.row for one in mine)
        ]
        yield title(mine), columns, rows


def parts(judged: Sequence[Judged]) -> list[list[Judged]]:
    """Group cells by the data sets of the paper."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.cell.part, []).append(one)
    return [*found.values()]


def title(mine: Sequence[Judged], nothing: str = "") -> str:
    """Return a title for a part, with the name of the paper's data and of our data.

    Args:
        mine: The cells of the part.
        nothing: Text in place of the paper's data, if the paper prints no number for
            the part.
    """
    names = "; ".join(dict.fromkeys(one.cell.federation.name for one in mine))
    printed = any(one.theirs for one in mine)
    theirs = f"the paper: {mine[0].cell.part}; " if printed else nothing
    return f"{theirs}ours: {names}"


def where(entry: Entry) -> str:
    """Return the table and section of the paper from which the numbers are taken."""
    printed = entry.printed
    return printed.where if printed else "the paper prints no numbers"


def markdown(entry: Entry, judged: Sequence[Judged]) -> str:
    """Return the whole table in Markdown, with the rule and the reproduced share."""
    lines = [f"# {entry.name}: {entry.title}", "", f"The paper: {where(entry)}."]
    lines += [f"Note: {entry.note}."] if entry.note else []
    for title, columns, rows in layout(judged):
        lines += ["", f"## {title}", "", *grid(columns, rows)]
    lines += ["", LEGEND, "", RULE, "", f"{shares(judged)}."]
    return "\n".join(lines) + "\n"


def shares(judged: Sequence[Judged]) -> str:
    """Return a text with the number of reproduced cells, by each kind of verdict."""
    mean = share(judged)
    text = "Reproduced: {} of {} judged cells".format(*mean)
    once = share(distinct(judged))
    if once[1] < mean[1]:
        text += " ({} of {} without repeated ones)".format(*once)
    for name, by in VERDICTS.items():
        both = share(judged, by)
        if both[1]:
            text += "; {}: {} of {}".format(name, *both)
    return text


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def as_csv(judged: Sequence[Judged]) -> str:
    """Return CSV with one line per cell, and all its numbers in full precision."""
    return plain_csv([one.plain() for one in judged])


def plain_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return CSV with one line per row; None and NaN become empty."""
    text = io.StringIO()
    out = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    out.writeheader()
    for row in rows:
        out.writerow({k: "" if v is None or v != v else v for k, v in row.items()})
    return text.getvalue()
