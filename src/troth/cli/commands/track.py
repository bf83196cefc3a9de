"""The command `troth track`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._words import refuse, stoppable

if TYPE_CHECKING:
    from collections.abc import Sequence


def track(
    paths: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders of runs or grids.")
    ],
    to: Annotated[
        str,
        Flag(metavar="TRACKER", help="Tracker: tensorboard, mlflow or wandb."),
    ],
    settings: Annotated[
        list[str] | None,
        Flag(
            "--set",
            metavar="OPTION=VALUE",
            help="Set an option of the tracker. Repeat this option for more. "
            "`troth list tracker` prints all options.",
        ),
    ] = None,
    follow: Annotated[
        bool, Flag("--follow", help="Wait for new rounds until the runs have finished.")
    ] = False,
    live: Annotated[bool, Flag("--live", hidden=True)] = False,
) -> None:
    """Show runs in TensorBoard, MLflow or Weights & Biases."""
    from troth import files
    from troth.cli import tables
    from troth.config import grid
    from troth.config.schema import Part
    from troth.runs import track as tracking

    for path in () if live else paths:
        if not any((path / name).exists() for name in (files.EXPERIMENT, files.GRID)):
            refuse(f"{path} is not the folder of a run or grid; give one that is")
    for text in settings or []:
        if "=" not in text:
            refuse(f"--set {text} must be OPTION=VALUE, such as --set folder=events")
    options: dict[str, Any] = grid.override({}, [f"track.{s}" for s in settings or []])
    part = Part(to, options.get("track", {}))
    over = tracking.until_closed(paths[0]) if live else None
    with stoppable(lambda: "stopped before all values were sent"):
        sent = tracking.track(paths, part, follow=follow, over=over, extra=_report)
    if not live:
        runs = f"{sent.runs} run{'' if sent.runs == 1 else 's'}"
        tables.say(f"Tracked with {to}: {runs}")
        for place in sent.places:
            tables.say(f"Values are in {place}")


def _report(path: Path, folder: Path) -> Sequence[Path]:
    """Write the report and the trust cards of a run into a folder."""
    from troth import reports

    made = reports.report([path], folder / reports.page.NAME)
    return made.page, made.cards
