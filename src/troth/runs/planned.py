"""Plan the runs of an experiment, check each one, and add runs to a grid."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from troth import files, lookup
from troth.build import Built, build
from troth.config import reader
from troth.config.schema import Experiment
from troth.engine import plan as plans
from troth.runs import train
from troth.runs.load import read_experiment
from troth.types import Refusal


class Planned(NamedTuple):
    """One run of a grid: its label and its experiment."""

    label: str
    experiment: Experiment


def plan(sections: dict[str, Any], device: str | None) -> list[Planned]:
    """Return the runs of an experiment; raise Refusal if one of them is not valid."""
    runs = []
    for changed, one in reader.expand(sections):
        one.pop("resolved", None)  # facts that are recorded in the file of a grid
        experiment = reader.from_dict(one)
        if device is not None:
            engine = dataclasses.replace(experiment.engine, device=device)
            experiment = dataclasses.replace(experiment, engine=engine)
        label = reader.label(changed)
        name = ",".join(part for part in (experiment.name, label) if part)
        experiment = dataclasses.replace(experiment, name=name)
        runs.append(Planned(label, experiment))
    return runs


def tried(one: Planned, root: Path, data_dir: str | None) -> Built:
    """Build a run of a grid; raise Refusal if it cannot be trained."""
    built = build(one.experiment, data_dir=data_dir, plan=train.UNMEASURED)
    place = root / one.label
    state = plans.file(place, one.experiment.engine.state_dir)
    train.check_room(built, state, place)
    return built


def wider(
    root: Path, sections: dict[str, Any], settings: Sequence[str], device: str | None
) -> dict[str, Any]:
    """Change a grid by settings that add values to its axes; return its sections.

    Raise Refusal if a run of the old grid is not in the new one, or if new runs have
    other data than the old ones.
    """
    old = {one.label: one.experiment for one in plan(sections, device)}
    changed = reader.override(sections, list(settings))
    planned = plan(changed, device)
    new = {one.label: reader.fingerprint(one.experiment) for one in planned}
    for label, e in old.items():
        if new.get(label) != reader.fingerprint(e):
            raise Refusal(
                f"these settings would change the run {label} of {root}; resume can "
                "only add values to an axis, such as --set 'grid.seed=[0, 1, 2]', "
                "which must keep the earlier values"
            )
    data_dir = sections.get("resolved", {}).get("data_dir")
    known = [*root.glob(f"*/{files.EXPERIMENT}")]
    before = [read_experiment(file.parent) for file in known]
    for one in planned:
        if one.label not in old:
            digest = tried(one, root, data_dir).facts.get("data_sha256")
            _check_digest(one, digest, before)
    files.write(root / files.GRID, reader.dumps(changed))
    return changed


def _check_digest(one: Planned, digest: str | None, before: list[Experiment]) -> None:
    """Raise Refusal if the user's data have changed since earlier runs of the grid."""
    part = one.experiment.data
    if "seed" in lookup.asks(lookup.find("data", part.name)):
        return  # every seed has other data
    for e in before:
        if e.data == part and e.resolved.get("data_sha256") != digest:
            raise Refusal(
                f"the data '{part.name}' have changed since the run {e.name}; restore "
                "them, or train a new grid in another folder"
            )
