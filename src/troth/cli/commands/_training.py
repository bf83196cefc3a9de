"""What `troth run` and `troth resume` share: training watched, and shown."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from troth.cli.commands._words import STOPPED, complain

if TYPE_CHECKING:
    from troth.runs.load import Run


def watched(
    train: Callable[..., list[Run]], root: Path, name: str, quiet: bool
) -> list[Run]:
    """Train with progress; Ctrl-C says what is saved and how to go on."""
    from troth import files
    from troth import progress as notice
    from troth.cli import progress
    from troth.runs import train as runs

    again = f"go on with: troth resume {shlex.quote(str(root))}"
    intro = f"Writing to {root}. Ctrl-C saves and stops; then {again}"
    watch = progress.Watcher(name, intro, quiet)
    try:
        with watch, notice.watching(watch.heard):
            return train(watch=watch)
    except runs.Interrupted as stop:
        last, saved = watch.last, (Path(stop.args[0]) / files.CHECKPOINT).exists()
        at = f" after round {last.done} of {last.total}" if last else ""
        state = f"saved in {root}" if saved else "not saved (output.checkpoint = false)"
        text = f"stopped{at}, {state}; {again}"
    except KeyboardInterrupt:
        text = f"stopped; {again if root.exists() else 'nothing was written'}"
    raise typer.Exit(complain(text, STOPPED))


def show(
    found: list[Run],
    root: Path,
    name: str,
    as_json: bool,
    quiet: bool,
    in_words: bool = False,
) -> None:
    """What came out: tables for people, one object for programs."""
    from troth.cli import outcome, tables

    single = found[0].path == root
    labels = [(r.experiment.name or name) if single else r.path.name for r in found]
    compared = outcome.compare(found, labels)
    if not (as_json and quiet):
        tables.outcome(found, labels, compared, in_words)
        tables.onward(found, root)
    if as_json:
        tables.print_json({"runs": outcome.entries(found), "comparisons": compared})
