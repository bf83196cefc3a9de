"""Read the folder of a run, finished or not, even if files are missing or broken.

A file that cannot be read is treated like a missing file, and listed in `troubles` with
a remedy.
"""

import contextlib
import csv
import io
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from troth import files
from troth.certificates.curves import Curves, curves
from troth.certificates.smoothing import Smoothing
from troth.config import reader
from troth.files import METRICS
from troth.runs import load
from troth.runs.load import Run, Table, judged
from troth.types import Refusal

_ENDS = ("", "_low", "_high")
_POINTS = 101  # number of radii for which a curve is computed

_WHOLE = (
    *("client", "malicious", "newcomer", "train", "valid", "test", "asked", "absent"),
    *("cut", "dropped", "clipped", "chosen", "downweighted"),
)


class Certified(NamedTuple):
    """All certificates with the same settings."""

    settings: dict[str, str]  # as text, as in the file
    unit: str  # unit of the radii
    table: dict[str, np.ndarray]  # model, client, y, label, radius, parameters, used
    curves: dict[str, Curves]  # model → certified accuracy of all its certificates
    rows: dict[tuple[str, int], np.ndarray]  # (model, client) → indices of rows


class Audit(NamedTuple):
    """The results of an audit, and its settings."""

    table: Table
    settings: dict[str, Any]
    row: dict[int, int]  # client → row of the table


def experiment(file: Path) -> dict[str, Any]:
    """Read an experiment file; raise ValueError if it is not that of a run."""
    found = reader.read(file)
    if not isinstance(found.get("resolved"), dict):
        raise ValueError("it has no [resolved], which every run writes")
    return found


def summary(file: Path) -> dict[str, Any]:
    """Read `summary.json`; raise ValueError if numbers are missing."""
    found = json.loads(file.read_text("utf-8"))
    kinds = found["personal"], found["shared"]
    known = any(all(f"{m}_mean" in kind for kind in kinds) for m in METRICS)
    if not all(isinstance(kind, dict) for kind in kinds) or not known:
        raise ValueError("it has no means over clients")
    if not isinstance(found["clients"], int):
        raise ValueError("it has no number of clients")
    return found  # type: ignore[no-any-return]


def clients(file: Path) -> Table:
    """Read `clients.csv` as column → one value per client; an empty cell is NaN.

    Raise ValueError if columns or numbers are missing.
    """
    found = files.read_csv(file)
    known = any(metric in found for metric in METRICS)
    if not {"client", "malicious", "test"} <= {*found} or not known:
        raise ValueError("columns are missing")
    _check_whole(found, {*found} & {*_WHOLE})
    if not np.array_equal(found["client"], np.arange(len(found["client"]))):
        raise ValueError("clients are not numbered from 0")
    return found


def _check_whole(table: Table, names: set[str]) -> None:
    if not all(((table[n] >= 0) & (table[n] < 2**53)).all() for n in names):
        raise ValueError("a number is missing")


def audit(file: Path) -> Audit:
    """Read the table of an audit, and its settings from the .json file next to it.

    Raise ValueError if columns are missing or settings out of range.
    """
    table = files.read_csv(file)
    needed = {"client", "examples", "adv_accuracy", "shared_adv_accuracy", "suspect"}
    needed |= {f"change{end}" for end in _ENDS}
    if "disparity" in table:
        needed |= {"conflicting", "biased", *(f"disparity{end}" for end in _ENDS)}
    if not needed <= {*table}:
        raise ValueError("columns are missing")
    _check_whole(table, needed & {"client", "examples", "conflicting"})
    about = json.loads(file.with_suffix(".json").read_text("utf-8"))
    settings = dict(about["settings"])
    settings |= {key: float(settings[key]) for key in ("limit", "confidence")}
    if not 0 < settings["confidence"] < 1 or not 0 <= settings["limit"] < 1:
        raise ValueError("limit or confidence is not between 0 and 1")
    return Audit(table, settings, {int(k): i for i, k in enumerate(table["client"])})


def certified(file: Path) -> list[Certified]:
    """Read a file of certificates, grouped by their settings.

    The last line may be incomplete, and is then left out. Raise ValueError if a number
    is out of range.
    """
    text = file.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        return []
    lines = pd.read_csv(io.StringIO(whole), dtype=str, keep_default_na=False)
    if "lattice" not in lines:  # file of a version without lattices
        lines["lattice"] = ""
    names, found = [*Smoothing().record()], []
    for key, mine in lines.groupby(names, sort=False):
        settings = dict(zip(names, key, strict=True))
        kinds = {"model": str, "parameters": str, "client": int, "y": int}
        kinds |= {"label": int, "radius": float, "used": int}
        table = {n: np.array([k(v) for v in mine[n]]) for n, k in kinds.items()}
        if not (np.isfinite(table["radius"]) & (table["radius"] >= 0)).all():
            raise ValueError("a radius is not a number of at least 0")
        if not 0 < float(settings["alpha"]) < 1 or not float(settings["sigma"]) > 0:
            raise ValueError("α or σ is out of range")
        words: dict[str, Any] = {"transform": settings["transform"]}
        words |= {"units": settings["units"] or "normalised"}
        unit = Smoothing(**words).unit
        whose = {"model": table["model"], "client": table["client"]}
        rows = pd.DataFrame(whose).groupby([*whose]).indices
        found.append(Certified(settings, unit, table, _curves(table), rows))
    return found


def _curves(table: dict[str, np.ndarray]) -> dict[str, Curves]:
    """Return certified accuracies up to the largest radius, for every kind of model."""
    radii = np.linspace(0, float(table["radius"].max()), _POINTS)
    found = {}
    for model in ("personal", "shared", "local"):
        mine = table["model"] == model
        if mine.any():
            t = {name: column[mine] for name, column in table.items()}
            client, y, label = t["client"], t["y"], t["label"]
            found[model] = curves(client, y, label, t["radius"], t["used"], radii)
    return found


@dataclass(repr=False)
class Dossier:
    """The contents of the files of one run."""

    path: Path
    label: str
    sections: dict[str, Any] = field(default_factory=dict)  # experiment.toml
    run: Run | None = None  # None if this version cannot read the experiment
    rounds: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    clients: Table | None = None
    certified: list[Certified] = field(default_factory=list)
    audit: Audit | None = None
    troubles: list[str] = field(default_factory=list)
    kept: dict[Any, Any] = field(default_factory=dict)  # cached values

    def __repr__(self) -> str:
        return f"Dossier({str(self.path)!r})"

    @property
    def finished(self) -> bool:
        """Whether the run is finished, and its results can be read."""
        return self.summary is not None and self.clients is not None

    @property
    def alive(self) -> bool:
        """Whether a process is training the run now."""
        return files.busy(self.path / files.ROUNDS)

    @property
    def metric(self) -> str:
        """Main score of the clients (accuracy or error); "" without an evaluation."""
        every = [self.summary or {}, *(r["evaluation"] for r in self.evaluated[-1:])]
        own = [each.get("personal", {}) for each in every]
        return next((m for m in METRICS for s in own if f"{m}_mean" in s), "")

    @property
    def evaluated(self) -> list[dict[str, Any]]:
        """The rounds that have an evaluation."""
        return [r for r in self.rounds if isinstance(r.get("evaluation"), dict)]

    @property
    def judged(self) -> np.ndarray:
        """[n] mask of the clients that the summary averages over."""
        assert self.clients is not None
        return judged(self.clients)

    def part(self, kind: str) -> str:
        """Return the name of the method in a section, such as the aggregator."""
        value = self.sections.get(kind, {})
        name = value.get("name", "none") if isinstance(value, dict) else value
        return str(name)

    @property
    def resolved(self) -> dict[str, Any]:
        """The section `[resolved]`, which the run added to its experiment."""
        found = self.sections.get("resolved", {})
        return found if isinstance(found, dict) else {}

    @property
    def total(self) -> int:
        """Number of rounds of the experiment."""
        train = self.sections.get("train")
        rounds = train.get("rounds", 0) if isinstance(train, dict) else 0
        return rounds if isinstance(rounds, int) else 0

    @property
    def attacked(self) -> bool:
        """Whether there are malicious clients that poison data or attack messages."""
        ways = self.part("attack"), self.part("corruption")
        return bool(self.resolved.get("malicious", 0)) and ways != ("none", "none")

    def mean(
        self, kind: str = "personal", what: str = "mean", on: str = "test"
    ) -> float:
        """Return a number of the summary, on "test" or "valid" data; NaN if absent.

        `kind` is "personal" or "shared", and `what` is the name of a metric. To choose
        between models, use validation data: a score on the data that were used for the
        choice is biased.
        """
        whole = self.summary or {}
        table = (whole if on == "test" else whole.get(on) or {}).get(kind, {})
        value = table.get(f"{self.metric}_{what}")
        return float(value) if isinstance(value, int | float) else float("nan")

    def column(self, name: str) -> np.ndarray:
        """Return a column of `clients.csv`; all NaN if the file does not have it."""
        assert self.clients is not None
        if name not in self.kept:  # many reports need the same column
            none = np.full(len(self.clients["client"]), np.nan)
            self.kept[name] = self.clients.get(name, none).astype(np.float64)
        found: np.ndarray = self.kept[name]
        return found


def opened(paths: Sequence[str | Path]) -> list[Dossier]:
    """Read the runs in these folders.

    For the folder of a grid or of a chain of attacks, all runs in it are read. For a
    folder of such folders, all of them are read. Runs with the same name get longer
    labels.
    """
    runs: dict[Path, Dossier] = {}
    for path in paths:
        for place in _runs(Path(path)):
            runs.setdefault(place.resolve(), _dossier(place))
    for longer in (lambda p: f"{p.parent.name}/{p.name}", str):
        labels = [run.label for run in runs.values()]
        for place, run in runs.items():  # use longer labels for those that occur twice
            if labels.count(run.label) > 1:
                run.label = longer(place)
    return list(runs.values())


def _runs(root: Path) -> list[Path]:
    """Return the folders of runs in `root`, in the order of the grid or chain."""
    if (root / files.EXPERIMENT).exists():
        return [root]
    inside = sorted(p.parent for p in root.glob(f"*/{files.EXPERIMENT}"))
    if (root / files.GRID).exists() or (root / files.CHAIN).exists():
        if not inside:
            raise Refusal(
                f"no run of the grid {root} has begun; start them by: "
                f"troth resume {shlex.quote(str(root))}"
            )
        names = ["none", *files.STAGES]
        if (root / files.GRID).exists():
            with contextlib.suppress(Refusal):
                grid = reader.expand(reader.read(root / files.GRID))
                names = [reader.label(changed) for changed, _ in grid]
        order = {name: i for i, name in enumerate(names)}
        return sorted(inside, key=lambda p: (order.get(p.name, len(order)), p.name))
    known = files.EXPERIMENT, files.GRID, files.CHAIN
    below = sorted({file.parent for name in known for file in root.glob(f"*/{name}")})
    found: list[Path] = []
    for folder in below:
        with contextlib.suppress(Refusal):  # a grid that has not begun
            found += _runs(folder)
    if not found:
        raise Refusal(
            f"{root} is not the folder of a run; give the folder that troth run wrote"
        )
    return found


def _dossier(path: Path) -> Dossier:
    one = Dossier(path, path.resolve().name)
    one.sections = _tried(one, files.EXPERIMENT, experiment) or {}
    try:
        one.run = Run(path)
    except Refusal as refusal:
        if one.sections:
            one.troubles.append(f"{path / files.EXPERIMENT}: {refusal}")
    one.rounds = _tried(one, files.ROUNDS, load.rounds) or []
    one.summary = _tried(one, files.SUMMARY, summary)
    one.clients = _tried(one, files.CLIENTS, clients)
    if one.summary is not None and one.clients is not None:
        rows = len(one.clients["client"])
        if rows != one.summary["clients"] or not one.metric:  # from different runs
            one.troubles.append(
                f"{path / files.CLIENTS} has {rows} clients, and {files.SUMMARY} says "
                f"{one.summary['clients']}; train the run again"
            )
            one.summary = one.clients = None
    one.audit = _tried(one, files.AUDIT, audit)
    one.certified = _tried(one, files.CERTIFICATES, certified) or []
    return one


def _tried(run: Dossier, name: str, read: Callable[[Path], Any]) -> Any:
    """Read a file; return None if it is missing or invalid."""
    file = run.path / name
    if not file.exists():
        return None
    try:
        return read(file)
    except (OSError, ValueError, KeyError, IndexError, TypeError, csv.Error) as error:
        why = " ".join(str(error).split())[:120]
    except Refusal as refusal:
        why = str(refusal)
    run.troubles.append(
        f"{file} cannot be read ({why}); put the file back as Troth wrote it, or train "
        "the run again"
    )
    return None
