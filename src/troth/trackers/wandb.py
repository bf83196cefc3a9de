"""Weights & Biases: runs on its server, or in local files with mode = "offline"."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from troth.types import Refusal, Tracked


def wandb(
    run: Tracked,
    *,
    project: str = "troth",
    entity: str = "",
    mode: str = "",
    folder: str = "",
) -> "_Logged":
    """Log a run to Weights & Biases; the runs of a grid are one group.

    If the run was logged before, the earlier record is continued. Install the package
    by `pip install wandb`. You need an account, or mode = "offline".

    Args:
        run: The run or grid to log.
        project: Name of the project.
        entity: User or team. "" means the default of the account.
        mode: "online", "offline" or "disabled". "" means the value of the environment
            variable WANDB_MODE.
        folder: Folder for local files. "" means `wandb` in the current folder.
    """
    try:
        import wandb as package
    except ImportError:
        raise Refusal(
            "wandb is not installed; install it with: pip install wandb"
        ) from None
    group = run.grid or (run.name if run.is_grid else "")
    opened = package.init(
        project=project,
        entity=entity or None,
        mode=mode or None,
        dir=folder or None,
        id=run.id,
        name=run.name,
        group=group or None,
        job_type="grid" if run.is_grid else "run",
        config=dict(run.settings),
        resume="allow",
        reinit="create_new",
        settings=package.Settings(silent=True, console="off", x_disable_stats=True),
    )
    return _Logged(package, opened, run.id)


class _Logged:
    """The tracker of one run of Weights & Biases."""

    def __init__(self, package: Any, run: Any, id_: str) -> None:
        self._package, self._run, self._id = package, run, id_
        self.where = str(run.dir if run.offline else run.url or run.dir)

    def log(self, rounds: Mapping[int, Mapping[str, float]]) -> None:
        for step, values in rounds.items():
            self._run.log(dict(values), step=step)

    def save(self, files: Sequence[Path]) -> None:
        made = self._package.Artifact(f"run-{self._id}", type="run")
        for file in files:
            made.add_file(str(file))
        self._run.log_artifact(made)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
