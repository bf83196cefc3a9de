"""`troth data`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import DataDir, Json, Quiet, Settings
from troth.cli.commands._words import complain, stoppable

if TYPE_CHECKING:
    from troth.data.catalogue import Entry


def data(
    name: Annotated[str | None, Argument(metavar="NAME")] = None,
    get: Annotated[bool, Flag("--get", help="Download it.")] = False,
    check: Annotated[bool, Flag("--check", help="Compare published digests.")] = False,
    show: Annotated[bool, Flag("--show", help="Draw examples and clients.")] = False,
    experiment: Annotated[
        Path | None, Flag(metavar="EXPERIMENT.toml", help="Show its data and clients.")
    ] = None,
    out: Annotated[Path | None, Flag(help="The picture: a new .png file.")] = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List data sets and which are here; of one: its files, and how to get it."""
    from troth.cli import tables
    from troth.data import catalogue
    from troth.types import Refusal

    if name is None and experiment is None and (get or show):
        flag = "--get" if get else "--show"
        raise Refusal(f"{flag} needs the name of a data set, as in: troth data mnist")
    if not show and (out or experiment or settings):
        flag = "--out" if out else "--experiment" if experiment else "--set"
        raise Refusal(f"{flag} is about the picture that --show draws; add --show")
    facts: dict[str, Any] = {}
    if get:
        facts["got"] = _got(str(name), data_dir, quiet)
    if show:
        facts |= _drawn(name, settings or [], experiment, data_dir, out, quiet)
        name = facts["shown"]
    found = [catalogue.entry(name, data_dir)] if name else catalogue.entries(data_dir)
    bad: list[str] = []
    if check:
        facts["checked"], bad = _checked(found, quiet)
    if as_json:
        rows = [_plain(entry, whole=name is not None) for entry in found]
        tables.print_json({"data": rows, **facts})
    elif name and not (get or check or show):
        _describe(found[0])
    elif not (get or check or show):
        _table(found)
    if bad:
        raise typer.Exit(complain(bad[0]))


def _got(name: str, root: str | None, quiet: bool) -> str:
    """Download with progress; return where it is then."""
    from troth.cli import progress, tables
    from troth.data import catalogue

    text = "stopped; what came so far is kept: the same command goes on with it"
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
    """Draw a data set and its clients; return what was drawn, and where it is."""
    import os

    from troth import files
    from troth.cli import progress, tables
    from troth.data import catalogue
    from troth.plot import sheet
    from troth.types import Refusal

    file = out or Path(f"{(name or experiment.stem).split(':')[-1]}.png")  # type: ignore[union-attr]
    if file.suffix != ".png" or (out and out.exists()):
        raise Refusal(f"--out {file} must be a new file whose name ends in .png")
    if not os.access(file.parent, os.W_OK):
        raise Refusal(f"{file.parent} cannot be written to; give another --out")
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
    found: list[Entry], quiet: bool
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Data set → file → "ok" or what is wrong; and all that is wrong."""
    from troth.cli import tables
    from troth.data import catalogue
    from troth.data.datasets._files import again
    from troth.types import Refusal

    here = [entry for entry in found if entry.source and entry.place]
    if len(found) == 1 and not here:
        raise Refusal(f"data '{found[0].about.name}' has no files here to be checked")
    results: dict[str, dict[str, str]] = {}
    lines, bad = [], []
    for entry in here:
        assert entry.source and entry.place
        name, files = entry.about.name, catalogue.check(entry.source, entry.place)
        results[name] = {file: wrong or "ok" for file, wrong in files.items()}
        lines += [f"{name} {file}: {w or 'as published'}" for file, w in files.items()]
        lines += [] if files else [f"{name}: its publisher states no digests"]
        bad += [f"{w}: {again(entry.source)}" for w in files.values() if w]
    if not quiet:
        tables.say("\n".join(lines))
    return results, bad


_KINDS = {"made": "made here", "yours": "your file"}


def _state(entry: Entry) -> str:
    return _KINDS.get(entry.kind, "here" if entry.place else "–")


def _table(found: list[Entry]) -> None:
    """Print one row per data set on stdout."""
    from rich import filesize

    from troth.cli import tables

    rows = [
        [
            entry.about.name,
            _state(entry),
            filesize.decimal(entry.size) if entry.place else "",
            entry.about.summary,
            entry.source.licence if entry.source else "",
            str(entry.place or ""),
        ]
        for entry in found
    ]
    columns = ["data", "here?", "size", "what it is", "licence", "where"]
    tables.console(stderr=False).print(tables.table("[data]", columns, rows, 6))
    tables.say("More of one, and how to get it: troth data NAME")


def _describe(entry: Entry) -> None:
    """Print all about one data set on stdout."""
    print(f"{entry.about.name}: {entry.about.summary}\n")
    for head, value in _words(entry):
        lines = value if isinstance(value, list) else [value]
        for i, line in enumerate(lines):
            print(f"{head if i == 0 else '':<10} {line}")


def _words(entry: Entry) -> list[tuple[str, str | list[str]]]:
    """Say all about it, head by head."""
    from rich import filesize

    source = entry.source
    said: list[tuple[str, str | list[str]]] = []
    options = [f"data.{key}" for key in entry.about.options]
    if options:
        said.append(("options", f"{', '.join(options)} (see: troth list data)"))
    if source is None:
        made = "needs no files" if entry.kind == "made" else "reads a file of yours"
        said.append(("source", made))
    else:
        said += [("page", source.page), ("licence", source.licence)]
        where = f"{entry.place} ({filesize.decimal(entry.size)})" if entry.place else ""
        said.append(("here", where or "no"))
        said.append(("files", _files(entry)))
        said.append(("looked in", [str(place) for place in entry.looked]))
        if entry.place is None:
            said.append(("get it", _how(entry)))
    if entry.about.citations:
        said.append(
            ("cite", [line for c in entry.about.citations for line in c.split("\n")])
        )
    return said


def _files(entry: Entry, most: int = 12) -> list[str]:
    """Name the files, with their sizes if they are here; of very many only some."""
    from rich import filesize

    from troth.data import catalogue

    assert entry.source
    lines = list(entry.source.files)
    if entry.place:
        here = catalogue.files(entry.source, entry.place)
        lines = [f"{name} ({filesize.decimal(size)})" for name, size in here]
    more = len(lines) - most
    return [*lines[:most], f"… and {more:,} more"] if more > 0 else lines


def _how(entry: Entry) -> list[str]:
    from rich import filesize

    source = entry.source
    assert source
    if not source.remotes:
        return [f"{source.how} (from {source.page}) into {entry.looked[0]}"]
    total = sum(remote.size for remote in source.remotes)
    size = f" ({filesize.decimal(total)})" if total else ""
    return [f"troth data {source.name} --get{size}"]


def _plain(entry: Entry, whole: bool) -> dict[str, Any]:
    """A data set for programs."""
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
