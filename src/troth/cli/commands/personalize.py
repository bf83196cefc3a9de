"""The command `troth personalize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option as Flag

from troth.cli.commands._flags import Device, Folder, Json, check_free, opened

if TYPE_CHECKING:
    from troth.runs.personalize import Newcomer


def personalize(
    path: Folder,
    data: Annotated[
        Path,
        Flag(
            help=".npz file with arrays x and y in the format of the training data, or "
            "a .csv file with the columns of the run's table. An optional array split "
            "marks examples for training (0), validation (1) and testing (2)."
        ),
    ],
    out: Annotated[
        Path | None, Flag(help="New .safetensors file for the model.")
    ] = None,
    rounds: Annotated[
        int,
        Flag(
            help="Number of training rounds. 0: evaluate.newcomer_rounds of the run, "
            "or if that is 0, the mean number of rounds in which a client was sampled."
        ),
    ] = 0,
    test: Annotated[
        float, Flag(help="Share of the examples that is held out for testing.")
    ] = 0.2,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train a model for a new client, from the shared model and the client's data."""
    from troth.cli import tables
    from troth.runs import personalize

    run = opened(path)
    check_free(out)
    made = personalize.personalize(run, data, rounds=rounds, test=test, device=device)
    lines = _words(made, run.experiment.personalizer.name)
    if out is None:
        lines.append("The model was not saved. Save it with --out FILE.safetensors")
    else:
        made.save(out)
        lines.append(f"Next: troth predict {path} --model {out} --data FILE.npz")
    told = {"rounds": made.rounds, "examples": made.examples, "file": out}
    scores = {"personal": made.personal, "shared": made.shared}
    tables.show(None, lines, {**told, **scores}, as_json)


def _words(made: Newcomer, name: str) -> list[str]:
    """Return lines about how the model was trained, and about its test results."""
    from troth.runs.compare import number

    train, valid, test = made.examples.values()
    more = f" and {valid} validation examples" if valid else ""
    plural = "s" if made.rounds > 1 else ""
    times = f"{made.rounds} round{plural} " if made.rounds else ""
    first = f"{name}: {times}on {train} training examples{more}"
    if not test:
        return [first, "No examples were held out, so its accuracy is not known"]
    head = "accuracy" if "accuracy" in made.personal else "error"
    own, shared = (number(s[head], head) for s in (made.personal, made.shared))
    return [first, f"{head} {own} on {test} test examples; shared model {shared}"]
