"""`troth personalize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option as Flag

from troth.cli.commands._flags import Device, Folder, Json
from troth.cli.commands._opening import check_free, opened

if TYPE_CHECKING:
    from troth.runs.personalize import Newcomer


def personalize(
    path: Folder,
    data: Annotated[Path, Flag(help=".npz with x and y, as trained (and split).")],
    out: Annotated[Path | None, Flag(help="Write a new .safetensors file.")] = None,
    rounds: Annotated[
        int, Flag(help="That it works; 0: as many as the average client was asked.")
    ] = 0,
    test: Annotated[
        float, Flag(help="Share of the examples that is held out to test on.")
    ] = 0.2,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Make a model for a newcomer, of the shared one and its own data."""
    from troth import api
    from troth.cli import tables

    run = opened(path)
    check_free(out)
    found = api.personalize(run, data, rounds=rounds, test=test, device=device)
    if out is not None:
        found.save(out)
    for line in _words(found, run.experiment.personalizer.name):
        tables.say(line)
    if out is None:
        tables.say("Nothing was written; --out FILE.safetensors keeps the model.")
    else:
        tables.say(f"Next: troth predict {path} --model {out} --data FILE.npz")
    if as_json:
        told = {"rounds": found.rounds, "examples": found.examples, "file": out}
        scores = {"personal": found.personal, "shared": found.shared}
        tables.print_json({**told, **scores})


def _words(found: Newcomer, name: str) -> list[str]:
    """What was done, and what came of it."""
    from troth.cli import tables

    train, valid, test = found.examples.values()
    more = f" and {valid} to choose by" if valid else ""
    times = f"{found.rounds} round{'s' if found.rounds > 1 else ''} "
    times = times if found.rounds else ""
    lines = [f"{name}: {times}on {train} training examples{more}"]
    if not test:
        return [
            *lines,
            "No example was held out, so nothing is known of how good it is",
        ]
    head = "accuracy" if "accuracy" in found.personal else "error"
    own, shared = (tables.number(s[head], head) for s in (found.personal, found.shared))
    return [*lines, f"{head} {own} on {test} test examples, shared model {shared}"]
