"""`troth poison`."""

from __future__ import annotations

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
        str, Flag(help="A corruption of labels, or a file with a model.")
    ] = "shift_labels",
    stage: Annotated[str, Flag(help="How far: gradient, model or data.")] = "data",
    examples: Annotated[int, Flag(help="Poisoned examples of an attacker.")] = 2000,
    inputs: Annotated[
        str, Flag(help="free, box (in the data's range) or clip.")
    ] = "free",
    labels: Annotated[str, Flag(help="soft, sampled or repeated.")] = "soft",
    noise: Annotated[float, Flag(help="Off the indifference subspace.")] = 0.1,
    weight: Annotated[
        str, Flag(help="As how many examples one counts; auto: as many as needed.")
    ] = "auto",
    start: Annotated[
        str, Flag(help="Of the attackers' own models with data: shared or model.")
    ] = "shared",
    out: Annotated[Path | None, Flag(help="A folder; else one in runs/.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bend a federation by reports, by a model, by data; train each to see it."""
    from troth import api
    from troth.cli import progress, tables
    from troth.poison import chain

    sections = api.tree(experiment, settings or [])
    words: dict[str, Any] = {"stage": stage, "inputs": inputs, "labels": labels}
    words |= {"start": start, "weight": _weight(weight)}
    options = chain.Options(target, examples=examples, noise=noise, **words)
    root = out or api.fresh(experiment)
    again = f"the same command with --out {shlex.quote(str(root))} goes on"
    intro = f"Writing to {root}. Ctrl-C saves and stops; then {again}"
    watch = progress.Watcher(target, intro, quiet)

    def stopped() -> str:
        return f"stopped; {again if root.exists() else 'nothing was written'}"

    with stoppable(stopped), watch:
        found = chain.chain(sections, root, options, data_dir=data_dir, watch=watch)
    table = root / chain.FILE
    files = f"{table}, {table.with_suffix('.json')}, one folder per stage"
    lines = [*_words(found, root), f"Files: {files}"]
    tables.show(_table(found), lines, chain.told(root, found), as_json, quiet)


def _weight(said: str) -> float | str:
    """A number, or a word for the chain to judge."""
    try:
        return float(said)
    except ValueError:
        return said


def _table(found: list[Reached]) -> Group:
    """One row per stage."""
    from troth.cli import tables
    from troth.runs.compare import number

    columns = ("stage", "distance", "of start", "by true labels", "by wanted labels")
    more = ("clients' own", "examples", "share", "largest norm", "weight")
    rows = [
        (
            *(r.stage, f"{r.distance:.4g}", f"{r.distance / r.start:.1%}"),
            *(number(v) for v in (r.accuracy, r.aimed, r.personal)),
            *(str(r.examples), f"{r.share:.2%}", f"{r.largest:.4g}"),
            f"{r.weight:.4g}",
        )
        for r in found
    ]
    title = "The shared model beside the one that the attacker wants"
    return tables.table(title, (*columns, *more), rows)


def _words(found: list[Reached], root: Path) -> list[str]:
    """Say what it means, and what can be done with it."""
    first, last = found[0], found[-1]
    way = 1 - last.distance / last.start
    lines = [
        f"By {last.stage} the attacker brings the shared model {way:.0%} of the way: "
        f"{last.aimed:.3f} of its answers are the wanted ones, {first.aimed:.3f} "
        "without an attack"
    ]
    if last.examples:
        counted = last.examples * last.weight
        lines.append(
            f"{last.examples} examples count as {counted:.4g}; to hold a model that "
            f"keeps the shared one at the target takes at least {last.needed:.4g}"
        )
        lines.append(
            "Next: the same examples in any experiment: corruption.name = 'from_file', "
            f"corruption.path = '{root / 'poison.npz'}'"
        )
    return lines
