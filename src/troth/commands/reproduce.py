"""`troth reproduce`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit
from typer import Option as Flag

from troth.commands._flags import DataDir, Device, Json, Quiet
from troth.commands._opening import absolute
from troth.commands._words import STOPPED, complain

if TYPE_CHECKING:
    from troth.reproduce.entry import Cell, Entry
    from troth.reproduce.judging import Judged
    from troth.reproduce.kept import Shelf

OUT = Path("runs") / "reproduce"


def reproduce(
    target: Annotated[
        str | None, Argument(metavar="TARGET", help="Such as ditto/table8.")
    ] = None,
    list_: Annotated[bool, Flag("--list", help="What there is, all of it.")] = False,
    cells: Annotated[
        list[str] | None,
        Flag(help="'ROW / COLUMN', a row or a column; * is anything; repeatable."),
    ] = None,
    scale: Annotated[str, Flag(help="full, or small: without data, a try.")] = "full",
    seeds: Annotated[int, Flag(help="Runs of each cell.")] = 3,
    out: Annotated[Path, Flag(help="Where results are kept.")] = OUT,
    show: Annotated[bool, Flag("--show", help="Only what has been run.")] = False,
    keep: Annotated[
        bool, Flag("--keep", help="Results of other code count as done.")
    ] = False,
    apart: Annotated[
        bool, Flag("--apart", help="One run after another, never as one matrix.")
    ] = False,
    page: Annotated[
        Path | None, Flag(help="Write docs/results.md anew, from committed results.")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """A table or figure of the papers, ours beside theirs; without one, the list."""
    from troth.types import Refusal

    if scale not in ("full", "small"):
        raise Refusal(f"--scale {scale} must be full or small")
    if not 1 <= seeds <= 100:
        raise Refusal(f"--seeds {seeds} must be 1 to 100")
    if page is not None:
        _page(page)
    elif target is None or list_:
        _list(target, out, absolute(data_dir), as_json)
    else:
        told: dict[str, Any] = {"device": device, "data_dir": absolute(data_dir)}
        told |= {"apart": apart, "keep": keep, "scale": scale, "seeds": seeds}
        _one(target, cells or [], out, show, told, as_json, quiet)


def _page(file: Path) -> None:
    from troth import display, folder
    from troth.reproduce import kept, page
    from troth.types import Refusal

    root = kept.experiments()
    if root is None or not file.parent.is_dir():
        raise Refusal(
            f"--page {file} needs a checkout with experiments/ beside the source, and "
            "a folder that exists"
        )
    folder.write(file, page.page(root))
    display.say(f"{file} is written")


def _list(target: str | None, out: Path, data_dir: str | None, as_json: bool) -> None:
    """Every entry, or one: what it needs, takes, and has."""
    from troth import display
    from troth.progress import duration
    from troth.reproduce import kept, listing, overview

    shelf = kept.Shelf(out, kept.experiments())
    chosen = [listing.find(target)] if target else [*listing.entries().values()]
    found = [overview.of(entry, shelf, data_dir) for entry in chosen]
    if as_json:
        display.print_json({"entries": found})
        return
    rows = []
    for one in found:
        time = duration(one["seconds"]) if one["seconds"] else "–"
        ran = f"{one['run']} of {one['cells']}" if one["cells"] else one["results"]
        steps = f"{one['client_steps']:,}" if one["client_steps"] else "–"
        last = (one["last"] or "–").partition("T")[0]
        row = [one["name"], one["title"], one["data_words"], steps, time]
        rows.append([*row, str(ran or "–"), last])
    heads = ["name", "what", "data", "client-steps a seed", "time here, about", "run"]
    heads += ["last"]
    title = "Tables and figures; time by measured speed where there is one, else rough"
    display.console().print(display.table(title, heads, rows, 3))


def _one(
    target: str,
    patterns: list[str],
    out: Path,
    show: bool,
    told: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    from troth.reproduce import judging, kept, outputs
    from troth.reproduce.listing import find

    entry, scale, seeds = find(target), told.pop("scale"), told.pop("seeds")
    if entry.cells is None:
        _whole(entry, patterns, scale)
        _script(entry, out, show, told, as_json, quiet)
        return
    cells = entry.at(scale, told["data_dir"], patterns, needed=not show)
    _writable(out)
    shelf = kept.Shelf(out, kept.experiments())
    if not show:
        _train(cells, shelf, seeds, told, quiet)
    judged = judging.table(entry, cells, shelf, seeds)
    took = kept.spent(shelf, cells, seeds)
    whole = judged
    if patterns:  # the files have all cells
        every = entry.at(scale, told["data_dir"], needed=False)
        whole = judging.table(entry, every, shelf, seeds)
    files = outputs.write(entry, whole, out, scale)
    _tell(entry, judged, files, took, as_json, quiet)


def _whole(entry: Entry, patterns: list[str], scale: str) -> None:
    """Refuse what a script that makes an entry cannot be told."""
    from troth.types import Refusal

    if patterns:
        raise Refusal(
            f"{entry.name} has no cells to choose from: --cells {patterns[0]!r} names "
            "none; leave --cells out"
        )
    if scale != "full":
        raise Refusal(
            f"{entry.name} is made by experiments/{entry.script[0]}, which has no "
            f"--scale {scale}; leave --scale out"
        )


def _writable(out: Path) -> None:
    """Refuse a folder that nothing can be put into, before anything is trained."""
    import tempfile

    from troth.types import Refusal

    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()  # its name is nobody else's
    except OSError as error:
        raise Refusal(
            f"--out {out} cannot be written ({error.strerror}); give another folder"
        ) from None


def _train(
    cells: list[Cell], shelf: Shelf, seeds: int, told: dict[str, Any], quiet: bool
) -> None:
    """What is missing, with progress; Ctrl-C says what is kept and how to go on."""
    from troth import display, notice, progress, runs
    from troth.reproduce import running

    if not quiet and not told["keep"] and (old := running.older(cells, shelf, seeds)):
        display.say(
            f"{old} of the runs that this needs are there, but of other code, and are "
            "trained again; --keep takes them as they are, --show trains nothing"
        )
    again = f"the same command goes on: {shlex.join(['troth', *sys.argv[1:]])}"
    intro = f"Results go to {shelf.out}. Ctrl-C keeps what is done; then {again}"
    watch = progress.Watcher("cells", intro, quiet)
    try:
        with watch, notice.watching(watch.heard):
            running.run(cells, shelf, seeds, watch=watch, **told)
    except (KeyboardInterrupt, runs.Interrupted):
        text = f"stopped; finished cells are kept in {shelf.out}, {again}"
        raise Exit(complain(text, STOPPED)) from None


def _tell(
    entry: Entry,
    judged: list[Judged],
    files: list[Path],
    took: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Files, a table for people, one object for programs."""
    from troth import display, progress
    from troth.reproduce import judging, tables

    good, all_ = judging.share(judged)
    if not (as_json and quiet):
        for title, columns, rows in tables.layout(judged):
            display.console().print(display.table(title, ["", *columns], rows))
        display.say(tables.LEGEND)
        display.say(f"Reproduced: {good} of {all_} cells judged. {tables.where(entry)}")
        display.say(f"Its runs took {progress.duration(took)} in all")
        display.say(f"Files: {', '.join(map(str, files))}")
    if as_json:
        told: dict[str, Any] = {"name": entry.name, "title": entry.title}
        told |= {
            "note": entry.note,
            "reproduced": good,
            "judged": all_,
            "order": judging.order(judged),
            "seconds": took,
        }
        rows_ = [one.plain() for one in judged]
        display.print_json({**told, "cells": rows_, "files": [*map(str, files)]})


def _script(
    entry: Entry,
    out: Path,
    show: bool,
    told: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    """An entry that a script under experiments/ makes."""
    from troth import display
    from troth.reproduce import judging, kept, outputs, running, scripts

    _writable(out)
    if not show:
        running.script(entry, told["device"], told["data_dir"])
    root = kept.experiments()
    lines = scripts.lines(entry, root) if root else []
    files = outputs.of_script(entry, root, out) if root and lines else []
    if root and (judged := judging.of_script(entry, root)):
        took = sum(scripts.seconds(entry, root))
        _tell(entry, judged, files, took, as_json, quiet)
        return
    if not (as_json and quiet):
        heads, rows = scripts.layout(lines)
        display.console().print(display.table(entry.title, ["", *heads], rows))
        display.say(
            f"Files: {', '.join(map(str, files)) or 'none, for nothing was run'}"
        )
    if as_json:
        said: dict[str, Any] = {"name": entry.name, "title": entry.title}
        said["results"] = [{"label": label, **found} for label, found in lines]
        display.print_json({**said, "files": [*map(str, files)]})
