"""The command `troth data`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import DataDir, Json, Quiet, Settings
from troth.cli.commands._words import complain, refuse, stoppable

if TYPE_CHECKING:
    from troth.data.catalogue import Entry
    from troth.data.datasets._files import Source


def data(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Data set. Default: list them all.")
    ] = None,
    get: Annotated[bool, Flag("--get", help="Download the data set.")] = False,
    check: Annotated[
        bool, Flag("--check", help="Compare the files with the published digests.")
    ] = False,
    show: Annotated[
        bool,
        Flag(
            "--show",
            help="Write a picture of some examples and of the split among clients.",
        ),
    ] = False,
    experiment: Annotated[
        Path | None,
        Flag(
            metavar="EXPERIMENT.toml",
            help="With --show: draw the data and the clients of this experiment.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Flag(help="With --show: new .png file for the picture.")
    ] = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List data sets, or describe, download, check or draw one."""
    from troth.cli import tables
    from troth.data import catalogue

    if name is None and experiment is None and (get or show):
        flag = "--get" if get else "--show"
        refuse(f"{flag} needs the name of a data set, as in: troth data mnist")
    if not show and (out or experiment or settings):
        flag = "--out" if out else "--experiment" if experiment else "--set"
        refuse(f"{flag} only changes the picture of --show; add --show")
    facts: dict[str, Any] = {}
    if get:
        facts["got"] = _got(str(name), data_dir, quiet)
    if show:
        facts |= _drawn(name, settings or [], experiment, data_dir, out, quiet)
        name = facts["shown"]
    entries = [catalogue.entry(name, data_dir)] if name else catalogue.entries(data_dir)
    bad: list[str] = []
    if check:
        facts["checked"], bad = _checked(entries, quiet)
    if as_json:
        rows = [_plain(entry, whole=name is not None) for entry in entries]
        tables.print_json({"data": rows, **facts})
    elif name and not (get or check or show):
        _describe(entries[0])
    elif not (get or check or show):
        _table(entries)
    if bad:
        raise typer.Exit(complain(bad[0]))


def _got(name: str, root: str | None, quiet: bool) -> str:
    """Download a data set with progress, and return its folder."""
    from troth.cli import progress, tables
    from troth.data import catalogue

    text = "stopped; complete files are kept; repeat the command to get the others"
    with stoppable(lambda: text), progress.Watcher(name, "", quiet):
        place = catalogue.get(name, root)
    if not quiet:
        tables.say(f"{name} is in {place}")
    return str(place)


def _drawn(
    name: str | None,
    settings: list[str],
    experiment: Path | None,
    root: str | None,
    out: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """Draw a data set and its clients, and return facts for `--json`."""
    import os

    from troth import files
    from troth.cli import progress, tables
    from troth.data import catalogue
    from troth.plot import sheet

    stem = name or experiment.stem  # type: ignore[union-attr]  # one is given
    file = out or Path(f"{stem.split(':')[-1]}.png")
    if file.suffix != ".png" or (out and out.exists()):
        refuse(f"--out {file} must be a new file whose name ends in .png")
    if not os.access(file.parent, os.W_OK):
        refuse(f"{file.parent} cannot be written to; give another --out")
    with progress.Watcher(str(name), "", quiet):
        dealt = catalogue.deal(name, settings, experiment, root)
        words = "labels per example" if dealt.arrays.y.ndim > 1 else "classes"
        kind = f"{dealt.arrays.classes} {words}" if dealt.arrays.classes else "numbers"
        counts = f"{len(dealt.arrays.y):,} examples, {len(dealt.clients):,} clients"
        title = f"{dealt.name}: {counts} ({dealt.partition}), {kind}"
        figure = sheet.draw(dealt.arrays, dealt.clients, title)
        with files.whole(file) as opened:
            figure.savefig(opened, format="png")
    if not quiet:
        tables.say(f"{title}\nPicture: {file}")
    facts = {"examples": len(dealt.arrays.y), "clients": len(dealt.clients)}
    return {"shown": dealt.name, "picture": str(file), **facts}


def _checked(
    entries: list[Entry], quiet: bool
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Compare files with their published digests.

    Returns:
        For each data set, file → "ok" or the problem; and the list of all problems.
    """
    from troth.cli import tables
    from troth.data import catalogue
    from troth.data.datasets._files import again

    here = [entry for entry in entries if entry.source and entry.place]
    if len(entries) == 1 and not here:
        refuse(f"data '{entries[0].about.name}' has no files here to check")
    results, lines, bad = dict[str, dict[str, str]](), list[str](), list[str]()
    for entry in here:
        assert entry.source and entry.place
        name, files = entry.about.name, catalogue.check(entry.source, entry.place)
        results[name] = {file: wrong or "ok" for file, wrong in files.items()}
        lines += [f"{name} {file}: {w or 'as published'}" for file, w in files.items()]
        lines += [] if files else [f"{name}: its publisher gives no digests"]
        bad += [f"{w}: {again(entry.source)}" for w in files.values() if w]
    if not quiet:
        tables.say("\n".join(lines))
    return results, bad


def _table(entries: list[Entry]) -> None:
    """Print one row per data set to stdout."""
    from troth.cli import tables

    rows, kinds = [], {"made": "made here", "yours": "your file"}
    for entry in entries:
        size = _bytes(entry.size) if entry.place else ""
        state = kinds.get(entry.kind, "here" if entry.place else "–")
        row = [entry.about.name, state, size, entry.about.summary]
        licence = entry.source.licence if entry.source else ""
        rows.append([*row, licence, str(entry.place or "")])
    columns = ["data", "here?", "size", "what it is", "license", "where"]
    tables.console(stderr=False).print(tables.table("[data]", columns, rows, 6))
    tables.say("Details of a data set, and how to get it: troth data NAME")


def _describe(entry: Entry) -> None:
    """Print all facts about one data set to stdout."""
    print(f"{entry.about.name}: {entry.about.summary}\n")
    for head, lines in _words(entry):
        for i, line in enumerate(lines):
            print(f"{head if i == 0 else '':<10} {line}")


def _words(entry: Entry) -> list[tuple[str, list[str]]]:
    """Return headings and lines about a data set."""
    source, about = entry.source, entry.about
    texts: list[tuple[str, list[str]]] = []
    if options := ", ".join(f"data.{key}" for key in about.options):
        texts.append(("options", [f"{options} (see: troth list data)"]))
    if source is None:
        made = "needs no files" if entry.kind == "made" else "reads a file of yours"
        texts.append(("source", [made]))
    else:
        here = f"{entry.place} ({_bytes(entry.size)})" if entry.place else "no"
        texts += [("page", [source.page]), ("license", [source.licence])]
        texts += [("here", [here]), ("files", _files(entry))]
        texts.append(("searched", [str(place) for place in entry.looked]))
        if entry.place is None:
            texts.append(("get it", [_how(source, entry.looked[0])]))
    if about.citations:
        texts.append(("cite", "\n".join(about.citations).split("\n")))
    return texts


def _bytes(size: int) -> str:
    from rich import filesize

    return filesize.decimal(size)


def _files(entry: Entry, most: int = 12) -> list[str]:
    """Name up to `most` files, with their sizes if they are here."""
    from troth.data import catalogue

    assert entry.source
    lines = list(entry.source.files)
    if entry.place:
        here = catalogue.files(entry.source, entry.place)
        lines = [f"{name} ({_bytes(size)})" for name, size in here]
    more = len(lines) - most
    return [*lines[:most], f"… and {more:,} more"] if more > 0 else lines


def _how(source: Source, into: Path) -> str:
    if not source.remotes:
        return f"{source.how} (from {source.page}) into {into}"
    total = sum(remote.size for remote in source.remotes)
    return f"troth data {source.name} --get" + (f" ({_bytes(total)})" if total else "")


def _plain(entry: Entry, whole: bool) -> dict[str, Any]:
    """Return facts about a data set for `--json`; if `whole`, all facts."""
    source = entry.source
    facts: dict[str, Any] = {
        "name": entry.about.name,
        "summary": entry.about.summary,
        "kind": entry.kind,
        "here": entry.kind != "files" or entry.place is not None,
        "place": entry.place and str(entry.place),
        "bytes": entry.size,
        "licence": source and source.licence,
        "page": source and source.page,
    }
    if whole:
        facts["files"] = list(source.files) if source else []
        facts["looked"] = [str(place) for place in entry.looked]
        facts["urls"] = [remote.url for remote in source.remotes] if source else []
        facts["citations"] = entry.about.citations
    return facts
