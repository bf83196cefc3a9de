"""Show what `troth reproduce` listed: its list, and tables as wide as the screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from troth.reproduce.entry import Entry
    from troth.reproduce.judging import Judged
    from troth.reproduce.scripts import Lines

HEADS = ["name", "what", "data", "client-steps per seed", "time here", "run", "last"]
WIDE = 160
"""Columns that a screen needs to show the list as a table instead of lines."""


def entries(listed: Sequence[dict[str, Any]]) -> None:
    """Print the list."""
    from troth.cli import tables as display

    title = "Tables and figures. Times are estimates, from measured speed if possible"
    console, rows = display.console(), [_entry(one) for one in listed]
    if console.width >= WIDE:
        console.print(display.table(title, HEADS, rows, texts=3, whole=1))
        return
    display.say(f"\n{title}")
    for name, what, data, steps, time, ran, last in rows:
        console.print(f"\n{name}")
        about = f"{steps} client-steps per seed, about {time} here"
        for line in (what, f"data: {data}", about, f"run: {ran}; last: {last}"):
            console.print(display.indented(line))


def _entry(one: dict[str, Any]) -> list[str]:
    """Return the row of an entry."""
    from troth.cli.progress import duration

    time = duration(one["seconds"]) if one["seconds"] else "–"
    ran = f"{one['run']} of {one['cells']}" if one["cells"] else one["results"]
    steps = f"{one['client_steps']:,}" if one["client_steps"] else "–"
    last = (one["last"] or "–").partition("T")[0]
    about = one["name"], one["title"], one["data_words"]
    return [*about, steps, time, str(ran or "–"), last]


def people(
    entry: Entry, judged: Sequence[Judged], files: Sequence[Path], took: float
) -> None:
    """Print the table of an entry, and how much of it is reproduced in how long."""
    from troth.cli import progress
    from troth.cli import tables as display
    from troth.reproduce import judging, tables

    for full, brief in zip(
        tables.layout(judged), tables.layout(judged, tables.brief), strict=True
    ):
        _table(*full, brief[2])
    display.say(tables.LEGEND)
    good, all_ = judging.share(judged)
    display.say(f"Reproduced: {good} of {all_} judged cells. {tables.where(entry)}")
    ran, time = sum(one.seeds > 0 for one in judged), progress.duration(took)
    display.say(f"Run: {ran} of the {len(judged)} cells shown, in {time}")
    display.say(f"Files: {', '.join(map(str, files))}")


def programs(
    entry: Entry, judged: Sequence[Judged], files: Sequence[Path], took: float
) -> dict[str, Any]:
    """Return the same as one object."""
    from troth.reproduce import judging

    good, all_ = judging.share(judged)
    about = {"name": entry.name, "title": entry.title, "note": entry.note}
    numbers = {"reproduced": good, "judged": all_, "order": judging.order(judged)}
    cells, names = [one.plain() for one in judged], [*map(str, files)]
    more = {"seconds": took, "cells": cells, "files": names}
    return {**about, **numbers, **more}


def script(entry: Entry, lines: Lines, files: Sequence[Path]) -> None:
    """Print the results of an entry that a script makes."""
    from troth.cli import tables as display
    from troth.reproduce import scripts

    _table(entry.title, *scripts.layout(lines))
    display.say(
        f"Files: {', '.join(map(str, files)) or 'none, because nothing was run'}"
    )


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    brief: Sequence[Sequence[str]] = (),
) -> None:
    """Print a table, a shorter one on a narrow screen, or else a list."""
    from troth.cli import tables as display

    console, heads = display.console(), ["", *columns]
    for some, words in (
        (rows, ""),
        (brief, "; ours only, because the screen is narrow"),
    ):
        made = display.table(f"{title}{words}", heads, some)
        if some and display.width(made) <= console.width:
            console.print(made)
            return
    display.say(f"\n{title}")
    wide = max(map(len, columns), default=0)
    for name, *cells in rows:
        console.print(f"\n{name}")
        for column, text in zip(columns, cells, strict=True):
            if text:
                console.print(display.indented(f"{column:{wide}}  {text}"))
    display.say("")
