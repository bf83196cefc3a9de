"""`troth reproduce`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Exit
from typer import Option as Flag

from troth.cli.commands._flags import DataDir, Device, Json, Quiet
from troth.cli.commands._opening import absolute
from troth.cli.commands._reproduced import Shown
from troth.cli.commands._words import STOPPED, complain

if TYPE_CHECKING:
    from troth.reproduce.entry import Cell, Entry
    from troth.reproduce.kept import Shelf

OUT = Path("runs") / "reproduce"


def _count(text: str) -> int:
    """A number of seeds."""
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"'{text}' is no whole number") from None


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
    seeds: Annotated[
        int | None,
        Flag(metavar="N", parser=_count, help="Runs of each cell; else 3."),
    ] = None,
    out: Annotated[Path, Flag(help="Where results are kept.")] = OUT,
    show: Annotated[bool, Flag("--show", help="Only what has been run.")] = False,
    apart: Annotated[
        bool, Flag("--apart", help="One run after another, never as one matrix.")
    ] = False,
    page: Annotated[
        Path | None,
        Flag(help="Write docs/reference/results.md anew, from committed results."),
    ] = None,
    pack: Annotated[
        bool, Flag("--pack", help="Pack the results in --out into one table.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """A table or figure of the papers, ours beside theirs; without one, the list."""
    _checked(scale, seeds, device)
    told: dict[str, Any] = {"--cells": cells, "--seeds": seeds, "--show": show}
    told |= {"--apart": apart, "--scale": scale != "full"}
    try:
        if page is not None:
            _alone("--page", told | {"TARGET": target, "--list": list_})
            _page(page, as_json)
        elif pack:
            _alone("--pack", told | {"TARGET": target, "--list": list_})
            _pack(out, as_json)
        elif target is None or list_:
            _alone("--list" if list_ else "the list", told)
            _list(target, out, absolute(data_dir), as_json)
        else:
            how: dict[str, Any] = {"device": device, "data_dir": absolute(data_dir)}
            how |= {"apart": apart, "scale": scale, "seeds": seeds}
            _one(target, cells or [], out, show, how, as_json, quiet)
    except KeyboardInterrupt:
        raise Exit(complain(f"stopped; {_again()}", STOPPED)) from None


def _again() -> str:
    return f"the same command goes on: {shlex.join(['troth', *sys.argv[1:]])}"


def _checked(scale: str, seeds: int | None, device: str) -> None:
    """Refuse bad values before anything is read or made."""
    from troth import build
    from troth.types import Refusal

    if scale not in ("full", "small"):
        raise Refusal(f"--scale {scale} must be full or small")
    if seeds is not None and not 1 <= seeds <= 100:
        raise Refusal(f"--seeds {seeds} must be 1 to 100")
    try:
        build.device(device)
    except RuntimeError:
        raise Refusal(
            f"device '{device}' is none; give auto, cpu, cuda, cuda:N or mps"
        ) from None


def _alone(what: str, told: dict[str, Any]) -> None:
    """Refuse flags that would change nothing."""
    from troth.types import Refusal

    idle = [flag for flag, given in told.items() if given]
    if idle:
        names = ", ".join(idle)
        raise Refusal(f"{what} is not changed by {names}; leave {names} out")


def _page(file: Path, as_json: bool) -> None:
    from troth import files as folder
    from troth.cli import tables
    from troth.reproduce import kept, page
    from troth.types import Refusal

    root = kept.experiments()
    if root is None or os.path.isdir(file) or not os.path.isdir(file.parent):
        raise Refusal(
            f"--page {file} needs a checkout with experiments/ beside the source, and "
            "a file to write in a folder that exists"
        )
    if len(os.fsencode(file.name)) > 255 or not os.access(file.parent, os.W_OK):
        raise Refusal(f"--page {file} cannot be written; give another file")
    folder.write(file, page.page(root))
    tables.say(f"{file} is written")
    if as_json:
        tables.print_json({"page": str(file)})


def _pack(out: Path, as_json: bool) -> None:
    from troth.cli import tables
    from troth.reproduce.store import TABLE, Store

    many = Store(out).pack()
    tables.say(f"{many} results are packed into {out / TABLE}")
    if as_json:
        tables.print_json({"packed": many, "table": str(out / TABLE)})


def _list(target: str | None, out: Path, data_dir: str | None, as_json: bool) -> None:
    """Every entry, or one: what it needs, takes, and has."""
    from troth.cli import tables
    from troth.cli.commands import _reproduced
    from troth.reproduce import kept, listing, overview

    shelf = kept.Shelf(out, kept.experiments())
    chosen = [listing.find(target)] if target else [*listing.entries().values()]
    found = [overview.of(entry, shelf, data_dir) for entry in chosen]
    if as_json:
        tables.print_json({"entries": found})
    else:
        _reproduced.entries(found)


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
        _whole(entry, patterns, scale)
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
    _tell(Shown(entry, judged, files, took), as_json, quiet)


def _tell(shown: Shown, as_json: bool, quiet: bool) -> None:
    """A table for people, one object for programs."""
    from troth.cli.commands import _reproduced

    if not (as_json and quiet):
        _reproduced.people(shown)
    if as_json:
        _reproduced.programs(shown)


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
    from troth import progress as notice
    from troth.cli import progress
    from troth.reproduce import running
    from troth.runs import train

    intro = f"Results go to {shelf.out}. Ctrl-C keeps what is done; then {_again()}"
    watch = progress.Watcher("cells", intro, quiet)
    try:
        with watch, notice.watching(watch.heard):
            running.run(cells, shelf, seeds, watch=watch, **told)
    except (KeyboardInterrupt, train.Interrupted):
        text = f"stopped; finished cells are kept in {shelf.out}, {_again()}"
        raise Exit(complain(text, STOPPED)) from None


def _script(
    entry: Entry,
    out: Path,
    show: bool,
    told: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> None:
    """An entry that a script under experiments/ makes."""
    from troth.cli import tables
    from troth.cli.commands import _reproduced
    from troth.reproduce import judging, kept, outputs, scripts, starting

    if not show:
        starting.check(entry, told["data_dir"])
    _writable(out)
    if told["seeds"] and not quiet:
        tables.say(
            f"{entry.name} is made by a script with seeds of its own: --seeds "
            f"{told['seeds']} changes nothing"
        )
    if not show:
        starting.script(entry, told["device"], told["data_dir"])
    root = kept.experiments()
    lines = scripts.lines(entry, root) if root else []
    files = outputs.of_script(entry, root, out) if root and lines else []
    if root and (judged := judging.of_script(entry, root)):
        took = sum(scripts.seconds(entry, root))
        _tell(Shown(entry, judged, files, took), as_json, quiet)
        return
    if not (as_json and quiet):
        _reproduced.script(entry, lines, files)
    if as_json:
        said: dict[str, Any] = {"name": entry.name, "title": entry.title}
        said["results"] = [{"label": label, **found} for label, found in lines]
        tables.print_json({**said, "files": [*map(str, files)]})
