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
        int, Flag(help="Of its work; 0: as many as the average client was asked.")
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
    lines = _words(found, run.experiment.personalizer.name)
    if out is None:
        lines.append("Nothing was written; --out FILE.safetensors keeps the model.")
    else:
        lines.append(f"Next: troth predict {path} --model {out} --data FILE.npz")
    told = {"rounds": found.rounds, "examples": found.examples, "file": out}
    scores = {"personal": found.personal, "shared": found.shared}
    tables.show(None, lines, {**told, **scores}, as_json)


def _words(found: Newcomer, name: str) -> list[str]:
    """Say what was done, and what came of it."""
    from troth.runs.compare import number

    train, valid, test = found.examples.values()
    more = f" and {valid} to choose by" if valid else ""
    plural = "s" if found.rounds > 1 else ""
    times = f"{found.rounds} round{plural} " if found.rounds else ""
    first = f"{name}: {times}on {train} training examples{more}"
    if not test:
        return [first, "No example was held out, so nothing is known of how good it is"]
    head = "accuracy" if "accuracy" in found.personal else "error"
    own, shared = (number(s[head], head) for s in (found.personal, found.shared))
    return [first, f"{head} {own} on {test} test examples, shared model {shared}"]
