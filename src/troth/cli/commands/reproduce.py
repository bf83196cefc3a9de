"""`troth reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit
from typer import Option as Flag

from troth.cli.commands import _reproduced
from troth.cli.commands._flags import DataDir, Device, Json, Quiet
from troth.cli.commands._opening import absolute
from troth.cli.commands._words import STOPPED, again, complain, refuse

if TYPE_CHECKING:
    from troth.reproduce.entry import Cell, Entry
    from troth.reproduce.kept import Shelf

OUT = Path("runs") / "reproduce"


def reproduce(
    target: Annotated[
        str | None,
        Argument(metavar="TARGET", help="Such as ditto/table8. Default: list all."),
    ] = None,
    list_: Annotated[
        bool, Flag("--list", help="List what there is, train nothing.")
    ] = False,
    cells: Annotated[
        list[str] | None,
        Flag(help="Cells to run: 'ROW / COLUMN', ROW or COLUMN; * is any. Repeatable."),
    ] = None,
    scale: Annotated[
        str, Flag(help="full, or small: a quick trial on data that need no download.")
    ] = "full",
    seeds: Annotated[
        int | None, Flag(min=1, max=100, help="Runs per cell. Default: 3.")
    ] = None,
    out: Annotated[Path, Flag(help="Folder for results.")] = OUT,
    show: Annotated[
        bool, Flag("--show", help="Show finished results, train nothing.")
    ] = False,
    apart: Annotated[
        bool, Flag("--apart", help="Train runs one after another, never stacked.")
    ] = False,
    pack: Annotated[
        bool, Flag("--pack", help="Pack the results in --out into one table.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or figure of a paper, and compare the numbers."""
    from troth.cli import tables
    from troth.reproduce.store import TABLE, Store

    _check(scale, device)
    idle: dict[str, Any] = {"--cells": cells, "--seeds": seeds, "--show": show}
    idle |= {"--apart": apart, "--scale": scale != "full"}
    try:
        if pack:
            _refuse("--pack", idle | {"TARGET": target, "--list": list_})
            store = Store(out)
            many, table = store.pack(), out / TABLE
            packed = {"packed": many, "table": str(table)}
            line = f"{many} results are packed into {table}"
            tables.show(None, [line], packed, as_json)
        elif target is None or list_:
            _refuse("--list" if list_ else "the list", idle)
            _list(target, out, absolute(data_dir), as_json)
        else:
            how: dict[str, Any] = {"device": device, "data_dir": absolute(data_dir)}
            how |= {"apart": apart, "scale": scale, "seeds": seeds}
            _one(target, cells or [], out, show, how, as_json, quiet)
    except KeyboardInterrupt:
        raise Exit(complain(f"stopped; {again()}", STOPPED)) from None


def _check(scale: str, device: str) -> None:
    """Refuse bad values before anything is read or made."""
    from troth import build

    if scale not in ("full", "small"):
        refuse(f"--scale {scale} must be full or small")
    try:
        build.device(device)
    except RuntimeError:
        refuse(f"device '{device}' does not exist; give auto, cpu, cuda, cuda:N or mps")


def _refuse(what: str, flags: dict[str, Any]) -> None:
    """Refuse flags that would change nothing."""
    if idle := ", ".join(flag for flag, value in flags.items() if value):
        refuse(f"{idle} would not change {what}; leave {idle} out")


def _list(target: str | None, out: Path, data_dir: str | None, as_json: bool) -> None:
    """List all entries or one: its data, its cost, its results so far."""
    from troth.cli import tables
    from troth.reproduce import kept, listing, overview

    shelf = kept.Shelf(out, kept.experiments())
    chosen = [listing.find(target)] if target else [*listing.entries().values()]
    entries = [overview.of(entry, shelf, data_dir) for entry in chosen]
    if as_json:
        tables.print_json({"entries": entries})
    else:
        _reproduced.entries(entries)


def _one(
    target: str,
    patterns: list[str],
    out: Path,
    show: bool,
    told: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    from troth.reproduce import SEEDS, judging, kept, outputs
    from troth.reproduce.listing import find

    entry, scale, seeds = find(target), told.pop("scale"), told.pop("seeds")
    if entry.cells is None:
        if patterns:
            refuse(f"{entry.name} has no cells to choose from; leave --cells out")
        if scale != "full":
            refuse(
                f"{entry.name} is made by experiments/{entry.script[0]}, which has no "
                f"--scale {scale}; leave --scale out"
            )
        _script(entry, out, show, told | {"seeds": seeds}, as_json, quiet)
        return
    seeds = seeds or SEEDS
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
    _show(entry, judged, files, took, as_json=as_json, quiet=quiet)


def _show(*shown: Any, as_json: bool, quiet: bool) -> None:
    """Print a table for people, one object for programs."""
    from troth.cli import tables

    if not (as_json and quiet):
        _reproduced.people(*shown)
    if as_json:
        tables.print_json(_reproduced.programs(*shown))


def _writable(out: Path) -> None:
    """Refuse, before any training, a folder that cannot be written."""
    import tempfile

    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()  # under a name of its own
    except OSError as error:
        refuse(f"--out {out} cannot be written ({error.strerror}); give another folder")


def _train(
    cells: list[Cell], shelf: Shelf, seeds: int, told: dict[str, Any], quiet: bool
) -> None:
    """Train missing cells with progress; on Ctrl-C say what is kept."""
    from troth import progress as notice
    from troth.cli import progress
    from troth.reproduce import running
    from troth.runs import train

    intro = f"Writing to {shelf.out}. Ctrl-C keeps finished cells; {again()}"
    watch = progress.Watcher("cells", intro, quiet)
    try:
        with watch, notice.watching(watch.heard):
            running.run(cells, shelf, seeds, watch=watch, **told)
    except (KeyboardInterrupt, train.Interrupted):
        text = f"stopped; finished cells are kept in {shelf.out}; {again()}"
        raise Exit(complain(text, STOPPED)) from None


def _script(
    entry: Entry,
    out: Path,
    show: bool,
    told: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the script of an entry under experiments/, and show its results."""
    from troth.cli import tables
    from troth.reproduce import judging, kept, outputs, scripts, starting

    if not show:
        starting.check(entry, told["data_dir"])
    _writable(out)
    if told["seeds"] and not quiet:
        tables.say(
            f"{entry.name} is made by a script that sets its own seeds; --seeds "
            f"{told['seeds']} changes nothing"
        )
    if not show:
        starting.script(entry, told["device"], told["data_dir"])
    root = kept.experiments()
    lines = scripts.lines(entry, root) if root else []
    files = outputs.of_script(entry, root, out) if root and lines else []
    if root and (judged := judging.of_script(entry, root)):
        took = sum(scripts.seconds(entry, root))
        _show(entry, judged, files, took, as_json=as_json, quiet=quiet)
        return
    if not (as_json and quiet):
        _reproduced.script(entry, lines, files)
    if as_json:
        results = [{"label": label, **numbers} for label, numbers in lines]
        about = {"name": entry.name, "title": entry.title, "results": results}
        tables.print_json({**about, "files": [*map(str, files)]})
