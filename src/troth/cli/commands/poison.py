"""`troth poison`."""

from __future__ import annotations

import contextlib
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
        str, Flag(help="Model to aim for: a corruption of labels, or a model file.")
    ] = "shift_labels",
    stage: Annotated[str, Flag(help="Last stage: gradient, model or data.")] = "data",
    examples: Annotated[int, Flag(help="Poisoned examples per attacker.")] = 2000,
    inputs: Annotated[
        str, Flag(help="Poisoned inputs: free, box (the data's range) or clip.")
    ] = "free",
    labels: Annotated[
        str, Flag(help="Poisoned labels: soft, sampled or repeated.")
    ] = "soft",
    noise: Annotated[
        float, Flag(help="Noise on inputs, orthogonal to the indifference subspace.")
    ] = 0.1,
    weight: Annotated[
        str, Flag(help="Weight of a poisoned example; auto: the least that suffices.")
    ] = "auto",
    start: Annotated[
        str, Flag(help="First model of the attackers at stage data: shared or model.")
    ] = "shared",
    out: Annotated[
        Path | None, Flag(help="New folder for all stages. Default: one in runs/.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack a federation by gradients, by a model and by data, one run each."""
    from troth import api
    from troth.cli import progress, tables
    from troth.poison import chain

    sections = api.tree(experiment, settings or [])
    share: float | str = weight  # a word is for the chain to judge
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
    table = root / chain.FILE
    files = f"{table}, {table.with_suffix('.json')}, one folder per stage"
    lines = [*_words(stages, root), f"Files: {files}"]
    tables.show(_table(stages), lines, chain.told(root, stages), as_json, quiet)


def _table(stages: list[Reached]) -> Group:
    """Lay out one row per stage."""
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
    """Say what it means, and what to do with it."""
    first, last = stages[0], stages[-1]
    way = 1 - last.distance / last.start
    lines = [
        f"Stage {last.stage} brings the shared model {way:.0%} of the way to the "
        f"target. Its accuracy on the target labels is {last.aimed:.3f}; without an "
        f"attack it is {first.aimed:.3f}"
    ]
    if last.examples:
        lines += [
            f"{last.examples} examples count as {last.examples * last.weight:.4g}. Any "
            f"model that keeps the shared one at the target needs {last.needed:.4g} or "
            "more",
            "Next: use these examples in any experiment: corruption.name = 'from_file',"
            f" corruption.path = '{root / 'poison.npz'}'",
        ]
    return lines
