"""Plan the runs of an experiment, and train those of a grid.

The runs of a grid are trained here, or divided among devices, machines and parts.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from troth import files, lookup
from troth.build import Built, build
from troth.config import reader
from troth.config.schema import Experiment
from troth.engine import plan as plans
from troth.engine.local_training import Plan
from troth.runs import train, train_many
from troth.runs.load import Run, read_experiment
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
        label = reader.label(changed)
        name = ",".join(part for part in (experiment.name, label) if part)
        run = Planned(label, dataclasses.replace(experiment, name=name))
        runs.append(run if device is None else moved(run, device))
    return runs


def moved(run: Planned, device: str) -> Planned:
    """Return a run that trains on another device."""
    engine = dataclasses.replace(run.experiment.engine, device=device)
    return run._replace(experiment=dataclasses.replace(run.experiment, engine=engine))


def tried(one: Planned, root: Path, data_dir: str | None) -> Built:
    """Build a run of a grid; raise Refusal if it cannot be trained."""
    built = build(one.experiment, data_dir=data_dir, plan=train.UNMEASURED)
    place = root / one.label
    state = plans.file(place, one.experiment.engine.state_dir)
    train.check_room(built, state, place)
    return built


class Spread(NamedTuple):
    """How the runs of a grid are divided among devices, machines and parts.

    Attributes:
        devices: Devices that train at the same time, such as ("cuda:0", "cuda:1").
            Empty: all runs train in this process.
        per_device: Number of processes on each device. With `ray`, this many processes
            share one GPU.
        part: "K/N" trains only the K-th of N parts of the grid. Start all N parts with
            the same output folder, at any time and on any machine that shares it.
        ray: "local" starts Ray on this machine; "auto" or an address connects to a
            running Ray cluster, whose machines share the output folder. Empty: no Ray.

    >>> import troth
    >>> troth.Spread(part="2/3").chosen([[0, 2, 4], [1, 3]])
    [2, 4]

    Read on: `docs/how-to/many-devices.md`.
    """

    devices: Sequence[str] = ()
    per_device: int = 1
    part: str = ""
    ray: str = ""

    def check(self, grid: bool = True, in_memory: bool = False) -> None:
        """Refuse settings that contradict each other or the experiment.

        Args:
            grid: Whether the experiment is a grid.
            in_memory: Whether data or a network were given as objects.
        """
        if self == Spread():
            return
        if not grid:
            raise Refusal(
                "a single run is not divided among devices; only the runs of a [grid] "
                "are"
            )
        if isinstance(self.devices, str):
            raise Refusal(
                f"devices = '{self.devices}' must be a list of names, such as "
                f"['{self.devices}']"
            )
        if self.devices and self.ray:
            raise Refusal(
                "devices and ray are both given; Ray chooses the devices, so leave one "
                "of the two out"
            )
        if self.per_device < 1:
            raise Refusal(f"per_device = {self.per_device} must be at least 1")
        if self.per_device > 1 and not (self.devices or self.ray):
            raise Refusal("per_device is given without devices; name them as well")
        if in_memory and (self.devices or self.ray):
            raise Refusal(
                "objects in memory and functions of the main script cannot be passed "
                "to other processes; write data to a file, and networks and functions "
                "to a module that is imported, or train parts (part=)"
            )
        self.chosen([])

    def chosen(self, kinds: Sequence[Sequence[int]]) -> list[int]:
        """Return the numbers of the runs of this part.

        The sizes of parts differ by one at most. The division does not depend on
        devices, so that machines with different devices agree on it. Runs of one kind
        can train together, so they are in the same part as far as possible.

        Args:
            kinds: numbers of the runs of every kind.
        """
        runs = [run for kind in kinds for run in kind]
        if not self.part:
            return runs
        k, _, n = self.part.partition("/")
        if not (k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n)):
            raise Refusal(
                f"part = '{self.part}' must be K/N with 1 ≤ K ≤ N, such as 1/4"
            )
        first, last = (len(runs) * end // int(n) for end in (int(k) - 1, int(k)))
        return runs[first:last]


def begin(root: Path, sections: dict[str, Any], spread: Spread) -> None:
    """Make the folder of a grid, or check that a part may be trained into it."""
    file = root / files.GRID
    if not (spread.part and file.exists()):
        try:
            return files.create(root, files.GRID, reader.dumps(sections))
        except Refusal:
            if not (spread.part and file.exists()):  # made by another part just now
                raise
    found, given = (
        {k: v for k, v in tree.items() if k != "resolved"}
        for tree in (reader.read(file), reader.parse(reader.dumps(sections), ""))
    )
    if found != given:
        raise Refusal(
            f"{root} holds another grid; give all parts of a grid the same experiment "
            "and settings, or another --out"
        )


def run(
    planned: Sequence[Planned],
    root: Path,
    spread: Spread,
    *,
    apart: bool | None = None,
    data_dir: str | None = None,
    watch: train.Watch | None = None,
) -> list[Run]:
    """Train or resume the runs of a grid whose folder exists.

    Returns:
        The runs of the grid; with `spread.part`, only those of the part.
    """
    kinds: dict[str, list[int]] = {}
    for k, one in enumerate(planned):
        kinds.setdefault(train_many.kind(one.experiment), []).append(k)
    some = [planned[k] for k in sorted(spread.chosen([*kinds.values()]))]
    if not (spread.devices or spread.ray):
        return here(some, root, apart, data_dir, watch)
    from troth.runs import spread as processes

    if spread.devices:
        some = [moved(one, spread.devices[0]) for one in some]
    groups = train_many.groups([one.experiment for one in some], apart)
    mine = [[some[k].label for k in group] for group in groups]
    places = (
        processes.on_ray(root, spread.ray, spread.per_device)
        if spread.ray
        else processes.here(root, [*spread.devices] * spread.per_device)
    )
    processes.train(root, mine, [one.label for one in planned], places, watch)
    return [Run(root / one.label) for one in some]


def here(
    some: Sequence[Planned],
    root: Path,
    apart: bool | None,
    data_dir: str | None,
    watch: train.Watch | None,
) -> list[Run]:
    """Train runs in this process: those of one kind together, the others one by one.

    Runs that have begun are resumed one by one. The engine's plan, which is measured in
    one run, is reused by runs with the same workload.
    """
    places = ((one.experiment, root / one.label) for one in some)
    new = [(e, place) for e, place in places if not (place / files.EXPERIMENT).exists()]
    train_many.grid(new, apart, watch=watch, data_dir=data_dir)
    measured: dict[str, Plan] = {}
    over = sum((root / one.label / files.SUMMARY).exists() for one in some)
    for k, one in enumerate(some, 1):
        place, e = root / one.label, one.experiment
        seen = train.numbered(watch, k, len(some), over)
        work = workload(e)
        if (place / files.EXPERIMENT).exists():
            train.resume(place, watch=seen)
        else:
            known = measured.get(work)
            train.train(e, place, watch=seen, data_dir=data_dir, plan=known)
        measured[work] = train.plan_of(read_experiment(place))
    return [Run(root / one.label) for one in some]


def workload(e: Experiment) -> str:
    """Return the sections that determine how fast clients are trained, as text."""
    return repr((e.data, e.partition, e.model, e.train, e.personalizer.name, e.engine))


def some(root: Path, labels: Sequence[str], device: str | None) -> list[Run]:
    """Train or resume some runs of a grid, which are one group, in this process.

    Args:
        root: Folder of the grid.
        labels: Labels of the runs. Several runs train together if they fit in memory.
        device: Device; `None`: the grid's own.
    """
    sections = reader.read(root / files.GRID)
    facts = sections.get("resolved", {})
    planned = plan(sections, device or facts.get("device"))
    few = [one for one in planned if one.label in labels]
    return here(few, root, len(few) == 1, facts.get("data_dir"), None)


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
