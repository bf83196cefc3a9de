"""What `troth reproduce` shows: its list, and tables as wide as the screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from troth.reproduce.entry import Entry
    from troth.reproduce.judging import Judged
    from troth.reproduce.scripts import Lines

HEADS = ["name", "what", "data", "client-steps a seed", "time here, about", "run"]
WIDE = 160
"""Columns of a screen on which the list is a table; else it is lines."""


class Shown(NamedTuple):
    """What is said of an entry whose numbers stand beside the paper's."""

    entry: Entry
    judged: Sequence[Judged]
    files: Sequence[Path]  # that were written
    took: float  # seconds, in all


def entries(found: Sequence[dict[str, Any]]) -> None:
    """The list."""
    from troth.cli import tables as display

    title = "Tables and figures; time by measured speed where there is one, else rough"
    console, rows = display.console(), [_entry(one) for one in found]
    if console.width >= WIDE:
        heads = [*HEADS, "last"]
        console.print(display.table(title, heads, rows, texts=3, whole=1))
        return
    display.say(f"\n{title}")
    for name, what, data, steps, time, ran, last in rows:
        console.print(f"\n{name}")
        about = f"{steps} client-steps a seed, about {time} here"
        for line in (what, f"data: {data}", about, f"run: {ran}; last: {last}"):
            console.print(display.indented(line))


def _entry(one: dict[str, Any]) -> list[str]:
    """An entry of the list in words."""
    from troth.cli.progress import duration

    time = duration(one["seconds"]) if one["seconds"] else "–"
    ran = f"{one['run']} of {one['cells']}" if one["cells"] else one["results"]
    steps = f"{one['client_steps']:,}" if one["client_steps"] else "–"
    last = (one["last"] or "–").partition("T")[0]
    row = [one["name"], one["title"], one["data_words"], steps, time]
    return [*row, str(ran or "–"), last]


def people(shown: Shown) -> None:
    """An entry of cells: the table, and what it comes to."""
    from troth.cli import progress
    from troth.cli import tables as display
    from troth.reproduce import judging, tables

    entry, judged, files, took = shown
    for full, brief in zip(
        tables.layout(judged), tables.layout(judged, tables.brief), strict=True
    ):
        _table(*full, brief[2])
    display.say(tables.LEGEND)
    good, all_ = judging.share(judged)
    display.say(f"Reproduced: {good} of {all_} cells judged. {tables.where(entry)}")
    ran, time = sum(one.seeds > 0 for one in judged), progress.duration(took)
    display.say(f"Run: {ran} of the {len(judged)} cells shown; they took {time}")
    display.say(f"Files: {', '.join(map(str, files))}")


def programs(shown: Shown) -> None:
    """The same as one object."""
    from troth.cli import tables as display
    from troth.reproduce import judging

    entry, judged, files, took = shown
    good, all_ = judging.share(judged)
    told: dict[str, Any] = {"name": entry.name, "title": entry.title}
    told |= {
        "note": entry.note,
        "reproduced": good,
        "judged": all_,
        "order": judging.order(judged),
        "seconds": took,
    }
    rows = [one.plain() for one in judged]
    display.print_json({**told, "cells": rows, "files": [*map(str, files)]})


def script(entry: Entry, lines: Lines, files: Sequence[Path]) -> None:
    """An entry that a script makes."""
    from troth.cli import tables as display
    from troth.reproduce import scripts

    _table(entry.title, *scripts.layout(lines))
    display.say(f"Files: {', '.join(map(str, files)) or 'none, for nothing was run'}")


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    brief: Sequence[Sequence[str]] = (),
) -> None:
    """A table; where the screen is too narrow, one of fewer words, or else a list."""
    from troth.cli import tables as display

    console, heads = display.console(), ["", *columns]
    for some, words in ((rows, ""), (brief, "; ours alone, for theirs are too wide")):
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
