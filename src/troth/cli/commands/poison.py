"""The command `troth poison`."""

from __future__ import annotations

import contextlib
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import DataDir, Experiment, Json, Quiet, Settings
from troth.cli.commands._words import stoppable

if TYPE_CHECKING:
    from rich.console import Group

    from troth.poison.chain import Reached


def poison(
    experiment: Experiment,
    settings: Settings = None,
    target: Annotated[
        str,
        Flag(
            help="Shared model that the attacker wants: a .npy file with its "
            "parameters, or a corruption of labels, such as shift_labels, on which it "
            "is trained."
        ),
    ] = "shift_labels",
    stage: Annotated[
        str,
        Flag(help="Last stage: gradient, model or data. The stages before it run too."),
    ] = "data",
    examples: Annotated[
        int, Flag(help="Number of poisoned examples per attacker.")
    ] = 2000,
    inputs: Annotated[
        str,
        Flag(
            help="Poisoned inputs: free (any values), box (optimized within the data's "
            "range) or clip (any values, then clipped to the data's range)."
        ),
    ] = "free",
    labels: Annotated[
        str,
        Flag(
            help="Poisoned labels: soft (class probabilities), sampled (one class per "
            "input, drawn from the probabilities) or repeated (copies of each input, "
            "with classes in proportion to the probabilities)."
        ),
    ] = "soft",
    noise: Annotated[
        float,
        Flag(
            help="Standard deviation of the noise that moves inputs off the subspace "
            "on which all classes are equally likely."
        ),
    ] = 0.1,
    weight: Annotated[
        str,
        Flag(
            help="Weight of a poisoned example; a benign one has weight 1. auto: an "
            "estimate of the smallest weight with which the attack succeeds."
        ),
    ] = "auto",
    start: Annotated[
        str,
        Flag(
            help="Initial personal model of the attackers in stage data: shared (the "
            "shared model) or model (the model of stage model)."
        ),
    ] = "shared",
    out: Annotated[
        Path | None, Flag(help="New folder for all stages. Default: one in runs/.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack a federation in three stages, with one run each.

    The attacker sends false gradients, then a false personal model, then the updates of
    an honest client with poisoned data.
    """
    from troth import api
    from troth.cli import progress
    from troth.poison import chain

    sections = api.tree(experiment, settings or [])
    share: float | str = weight  # the chain checks the text
    with contextlib.suppress(ValueError):
        share = float(weight)
    words: dict[str, Any] = {"stage": stage, "inputs": inputs, "labels": labels}
    words |= {"start": start, "weight": share}
    options = chain.Options(target, examples=examples, noise=noise, **words)
    root = out or api.fresh(experiment)
    again = f"repeat the command with --out {shlex.quote(str(root))} to continue"
    intro = f"Writing to {root}. Ctrl-C saves and stops; {again}"
    watch = progress.Watcher(target, intro, quiet)

    def stopped() -> str:
        return f"stopped; {again if root.exists() else 'nothing was written'}"

    with stoppable(stopped), watch:
        stages = chain.chain(sections, root, options, data_dir=data_dir, watch=watch)
    show(stages, root, as_json, quiet)


def show(
    stages: list[Reached], root: Path, as_json: bool = False, quiet: bool = False
) -> None:
    """Print the results of an attack chain."""
    from troth.cli import tables
    from troth.poison import chain

    table = root / chain.FILE
    files = f"{table}, {table.with_suffix('.json')}, one folder per stage"
    lines = [*_words(stages, root), f"Files: {files}"]
    tables.show(_table(stages), lines, chain.told(root, stages), as_json, quiet)


def _table(stages: list[Reached]) -> Group:
    """Return a table with one row per stage."""
    from troth.cli import tables
    from troth.runs.compare import number

    columns = ("stage", "distance", "of start", "true labels", "target labels")
    more = ("own models", "examples", "share", "largest norm", "weight")
    rows = [
        (
            *(r.stage, f"{r.distance:.4g}", f"{r.distance / r.start:.1%}"),
            *(number(v) for v in (r.accuracy, r.aimed, r.personal)),
            *(str(r.examples), f"{r.share:.2%}", f"{r.largest:.4g}"),
            f"{r.weight:.4g}",
        )
        for r in stages
    ]
    title = "Distance and accuracy of the shared model, against the attacker's target"
    return tables.table(title, (*columns, *more), rows)


def _words(stages: list[Reached], root: Path) -> list[str]:
    """Return lines about the last stage, and how to use the poisoned examples."""
    first, last = stages[0], stages[-1]
    way = last.distance / last.start
    moved = f"brings the shared model {1 - way:.0%} of the way to the target"
    if way > 1:
        moved = "does not bring the shared model nearer to the target: its distance is"
        moved += f" {way:.3g} times that of the first model"
    lines = [
        f"Stage {last.stage} {moved}. Its accuracy on the target labels is "
        f"{last.aimed:.3f}; without an attack it is {first.aimed:.3f}"
    ]
    if last.examples and math.isinf(last.enough):
        lines.append(
            f"{last.examples} poisoned examples are too few to hold the attacker's "
            "model with any weight, because they determine too few of its directions. "
            "Give --examples more than there are input features"
        )
    if last.examples:
        lines += [
            f"{last.examples} poisoned examples have a total weight of "
            f"{last.examples * last.weight:.4g}. No attack of this kind can keep the "
            f"shared model at the target with a smaller total weight than "
            f"{last.needed:.4g}",
            "Next: use these examples in any experiment: corruption.name = 'from_file',"
            f" corruption.path = '{root / 'poison.npz'}'",
        ]
    return lines
