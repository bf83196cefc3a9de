"""The command `troth reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import DataDir, Device, Json, Quiet, absolute
from troth.cli.commands._words import again, refuse, stoppable

if TYPE_CHECKING:
    from troth.reproduce.entry import Cell, Entry
    from troth.reproduce.judging import Judged
    from troth.reproduce.kept import Shelf
    from troth.reproduce.scripts import Lines

OUT = Path("runs") / "reproduce"
HEADS = ["name", "what", "data", "client-steps per seed", "time here", "run", "last"]
WIDE = 160
"""Least width of the terminal, in characters, with which the list is a table."""


def reproduce(
    target: Annotated[
        str | None,
        Argument(
            metavar="TARGET",
            help="Table or figure, such as ditto/table8. Default: list all.",
        ),
    ] = None,
    list_: Annotated[
        bool, Flag("--list", help="List tables and figures, and train nothing.")
    ] = False,
    cells: Annotated[
        list[str] | None,
        Flag(
            help="Cells of the table to run: 'ROW / COLUMN', ROW or COLUMN. * matches "
            "any text. Repeat this option for more."
        ),
    ] = None,
    scale: Annotated[
        str,
        Flag(
            help="full: as in the paper. small: a quick trial on data that need no "
            "download."
        ),
    ] = "full",
    seeds: Annotated[
        int | None,
        Flag(
            min=1,
            max=100,
            help="Number of runs for each cell of the table, with different seeds. "
            "Default: 3.",
        ),
    ] = None,
    out: Annotated[Path, Flag(help="Folder for results.")] = OUT,
    show: Annotated[
        bool, Flag("--show", help="Print the results so far, and train nothing.")
    ] = False,
    apart: Annotated[
        bool,
        Flag("--apart", help="Train runs one after another, never several at once."),
    ] = False,
    pack: Annotated[
        bool,
        Flag(
            "--pack",
            help="Move all results in --out from small files into one table, and "
            "train nothing.",
        ),
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or figure of a paper, and compare with its numbers."""
    from troth.cli import tables
    from troth.reproduce.store import TABLE, Store

    _check(scale, device)
    idle: dict[str, Any] = {"--cells": cells, "--seeds": seeds, "--show": show}
    idle |= {"--apart": apart, "--scale": scale != "full"}
    with stoppable(lambda: f"stopped; {again()}"):
        if pack:
            _refuse("--pack", idle | {"TARGET": target, "--list": list_})
            many, table = Store(out).pack(), out / TABLE
            line = f"{many} results are packed into {table}"
            packed = {"packed": many, "table": str(table)}
            tables.show(None, [line], packed, as_json)
        elif target is None or list_:
            _refuse("--list" if list_ else "the list", idle)
            _list(target, out, absolute(data_dir), as_json)
        else:
            how: dict[str, Any] = {"device": device, "data_dir": absolute(data_dir)}
            how |= {"apart": apart, "scale": scale, "seeds": seeds}
            _one(target, cells or [], out, show, how, as_json, quiet)


def _check(scale: str, device: str) -> None:
    """Raise Refusal for invalid options before any file is read or written."""
    from troth import build

    if scale not in ("full", "small"):
        refuse(f"--scale {scale} must be full or small")
    try:
        build.device(device)
    except RuntimeError:
        refuse(f"device '{device}' does not exist; give auto, cpu, cuda, cuda:N or mps")


def _refuse(what: str, flags: dict[str, Any]) -> None:
    """Raise Refusal if options are set that have no effect on `what`."""
    if idle := ", ".join(flag for flag, value in flags.items() if value):
        refuse(f"{idle} would not change {what}; leave {idle} out")


def _list(target: str | None, out: Path, data_dir: str | None, as_json: bool) -> None:
    """Print data, cost and results so far of all entries, or of one.

    An entry is a table or figure of a paper.
    """
    from troth.cli import tables
    from troth.reproduce import kept, listing, overview

    shelf = kept.Shelf(out, kept.experiments())
    chosen = [listing.find(target)] if target else [*listing.entries().values()]
    entries = [overview.of(entry, shelf, data_dir) for entry in chosen]
    if as_json:
        tables.print_json({"entries": entries})
    else:
        _entries(entries)


def _one(
    target: str,
    patterns: list[str],
    out: Path,
    show: bool,
    how: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    from troth.reproduce import SEEDS, judging, kept, outputs
    from troth.reproduce.listing import find

    entry, scale, seeds = find(target), how.pop("scale"), how.pop("seeds")
    if entry.cells is None:
        if patterns:
            refuse(f"{entry.name} has no cells to choose from; leave --cells out")
        if scale != "full":
            refuse(
                f"{entry.name} is made by experiments/{entry.script[0]}, which has no "
                f"--scale {scale}; leave --scale out"
            )
        _script(entry, out, show, how | {"seeds": seeds}, as_json, quiet)
        return
    seeds = seeds or SEEDS
    cells = entry.at(scale, how["data_dir"], patterns, needed=not show)
    _writable(out)
    shelf = kept.Shelf(out, kept.experiments())
    if not show:
        _train(cells, shelf, seeds, how, quiet)
    judged = judging.table(entry, cells, shelf, seeds)
    took = kept.spent(shelf, cells, seeds)
    whole = judged
    if patterns:  # the written files have all cells
        every = entry.at(scale, how["data_dir"], needed=False)
        whole = judging.table(entry, every, shelf, seeds)
    files = outputs.write(entry, whole, out, scale)
    _show(entry, judged, files, took, as_json=as_json, quiet=quiet)


def _show(*shown: Any, as_json: bool, quiet: bool) -> None:
    """Print a table or, if `as_json`, one JSON object."""
    from troth.cli import tables

    if not (as_json and quiet):
        people(*shown)
    if as_json:
        tables.print_json(programs(*shown))


def _writable(out: Path) -> None:
    """Raise Refusal, before any training, if a folder cannot be written to."""
    import tempfile

    from troth import files

    with files.refused(f"--out {out}", "give another folder"):
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()  # replaces no file


def _train(
    cells: list[Cell], shelf: Shelf, seeds: int, how: dict[str, Any], quiet: bool
) -> None:
    """Train missing cells with progress; on Ctrl-C print where results are stored."""
    from troth.cli import progress
    from troth.reproduce import running

    intro = f"Writing to {shelf.out}. Ctrl-C keeps finished cells; {again()}"
    watch = progress.Watcher("cells", intro, quiet)
    text = f"stopped; finished cells are kept in {shelf.out}; {again()}"
    with stoppable(lambda: text), watch:
        running.run(cells, shelf, seeds, watch=watch, **how)


def _script(
    entry: Entry,
    out: Path,
    show: bool,
    how: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the script in experiments/ that makes an entry, and show its results."""
    from troth.cli import tables
    from troth.reproduce import judging, kept, outputs, scripts

    if not show:
        scripts.check(entry, how["data_dir"])
    _writable(out)
    if how["seeds"] and not quiet:
        tables.say(
            f"{entry.name} is made by a script with fixed seeds; --seeds "
            f"{how['seeds']} changes nothing"
        )
    if not show:
        scripts.run(entry, how["device"], how["data_dir"])
    root = kept.experiments()
    lines = scripts.lines(entry, root) if root else []
    files = outputs.of_script(entry, root, out) if root and lines else []
    if root and (judged := judging.of_script(entry, root)):
        took = scripts.seconds(entry, root)
        _show(entry, judged, files, took, as_json=as_json, quiet=quiet)
        return
    if not (as_json and quiet):
        _lines(entry, lines, files)
    if as_json:
        results = [{"label": label, **numbers} for label, numbers in lines]
        about = {"name": entry.name, "title": entry.title, "results": results}
        tables.print_json({**about, "files": [*map(str, files)]})


def _entries(listed: Sequence[dict[str, Any]]) -> None:
    """Print the list of tables and figures."""
    from troth.cli import tables as display

    title = "Tables and figures. Times are estimates, from measured speed if possible"
    rows = [_entry(one) for one in listed]
    console = display.console(wrap=True)
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
    """Return one row of the list of tables and figures, in the order of `HEADS`."""
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
    """Print the table of an entry, the share of reproduced cells, and the time."""
    from troth.cli import progress
    from troth.cli import tables as display
    from troth.reproduce import tables

    for full, brief in zip(
        tables.layout(judged), tables.layout(judged, tables.brief), strict=True
    ):
        _table(*full, brief[2])
    display.say(tables.LEGEND)
    display.say(f"{tables.shares(judged)}. {tables.where(entry)}")
    ran, time = sum(one.seeds > 0 for one in judged), progress.duration(took)
    display.say(f"Run: {ran} of the {len(judged)} cells shown, in {time}")
    display.say(f"Files: {', '.join(map(str, files))}")


def programs(
    entry: Entry, judged: Sequence[Judged], files: Sequence[Path], took: float
) -> dict[str, Any]:
    """Return the results of an entry as one object for `--json`."""
    from troth.reproduce import judging

    good, all_ = judging.share(judged)
    about = {"name": entry.name, "title": entry.title, "note": entry.note}
    numbers = {"reproduced": good, "judged": all_, "order": judging.order(judged)}
    once = judging.share(judging.distinct(judged))
    numbers |= {"reproduced_distinct": once[0], "judged_distinct": once[1]}
    cells, names = [one.plain() for one in judged], [*map(str, files)]
    more = {"seconds": took, "cells": cells, "files": names}
    return {**about, **numbers, **more}


def _lines(entry: Entry, lines: Lines, files: Sequence[Path]) -> None:
    """Print the results of an entry that is made by a script."""
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
    """Print a table; if the screen is too narrow, print `brief` rows, or a list."""
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
