"""What a run's folder says, whole or half-written: nothing in it stops the reader.

A file that is missing is missing; one that cannot be read is named among `troubles`,
with what to do about it, and then counts as missing.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from troth import auditing, chain, config, folder
from troth.certificates.ledger import NAME as CERTIFICATES
from troth.certificates.smoothing import Smoothing
from troth.loading import Run, judged
from troth.types import Refusal

Table = dict[str, np.ndarray]
METRICS = ("accuracy", "error")
_RULES = ("dropped", "clipped", "downweighted", "chosen")


@dataclass
class Certified:
    """The certificates of one setting."""

    settings: dict[str, str]  # as the file has them
    unit: str  # of radii
    table: dict[str, np.ndarray]  # model, client, y, label, radius, parameters
    curves: dict[str, Any] = field(default_factory=dict)  # model → what JSON has of it


@dataclass
class Audit:
    """What an audit found, and how."""

    table: Table
    settings: dict[str, Any]
    rough: list[str]


@dataclass
class Dossier:
    """All that the files of one run say."""

    path: Path
    label: str
    sections: dict[str, Any] = field(default_factory=dict)  # experiment.toml, plain
    run: Run | None = None  # None: its experiment is not one that this Troth knows
    rounds: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    clients: Table | None = None
    certified: list[Certified] = field(default_factory=list)
    audit: Audit | None = None
    troubles: list[str] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether its last files are there and can be read."""
        return self.summary is not None and self.clients is not None

    @property
    def metric(self) -> str:
        """What clients are judged by; "" where no evaluation says it."""
        said = [self.summary or {}, *(r["evaluation"] for r in self.evaluated[-1:])]
        own = [each.get("personal", {}) for each in said]
        return next((m for m in METRICS for s in own if f"{m}_mean" in s), "")

    @property
    def evaluated(self) -> list[dict[str, Any]]:
        """The rounds that have an evaluation."""
        return [r for r in self.rounds if isinstance(r.get("evaluation"), dict)]

    @property
    def judged(self) -> np.ndarray:
        """[n] whom a summary is about."""
        assert self.clients is not None
        return judged(self.clients)

    def part(self, kind: str) -> str:
        """The name of a member, such as that of the aggregator."""
        value = self.sections.get(kind, {})
        name = value.get("name", "none") if isinstance(value, dict) else value
        return str(name)

    @property
    def resolved(self) -> dict[str, Any]:
        """What the run wrote about itself."""
        found = self.sections.get("resolved", {})
        return found if isinstance(found, dict) else {}

    @property
    def total(self) -> int:
        """Rounds that were asked for."""
        train = self.sections.get("train")
        rounds = train.get("rounds", 0) if isinstance(train, dict) else 0
        return rounds if isinstance(rounds, int) else 0

    @property
    def attacked(self) -> bool:
        """Whether hostile clients do something."""
        hostile = self.resolved.get("malicious", 0)
        ways = self.part("attack"), self.part("corruption")
        return bool(hostile) and ways != ("none", "none")

    def mean(self, kind: str = "personal", what: str = "mean") -> float:
        """A number of the summary; NaN where there is none."""
        table = (self.summary or {}).get(kind, {})
        value = table.get(f"{self.metric}_{what}")
        return float(value) if isinstance(value, int | float) else float("nan")

    def column(self, name: str) -> np.ndarray:
        """A column of `clients.csv`, NaN where there is none."""
        assert self.clients is not None
        n = len(self.clients["client"])
        return self.clients.get(name, np.full(n, np.nan)).astype(np.float64)


def opened(paths: Sequence[str | Path]) -> list[Dossier]:
    """The runs in these folders; a grid, or a chain of attacks, is all of its runs.

    Raises:
        Refusal: a folder that is none of these.
    """
    found: dict[Path, Dossier] = {}
    for given in paths:
        root = Path(given)
        for place in _runs(root):
            name = place.name if place != root else ""
            found.setdefault(place.resolve(), _dossier(place, name))
    every = list(found.values())
    for each in every:  # the same name twice says nothing
        if sum(other.label == each.label for other in every) > 1:
            each.label = f"{each.path.parent.name}/{each.path.name}"
    return every


def _runs(root: Path) -> list[Path]:
    if (root / folder.EXPERIMENT).exists():
        return [root]
    files = [root / folder.GRID, root / chain.SETTINGS]
    inside = sorted(p.parent for p in root.glob(f"*/{folder.EXPERIMENT}"))
    if any(file.exists() for file in files):
        if not inside:
            raise Refusal(
                f"{root} is a grid of which no run has begun; go on with it by: "
                f"troth resume {shlex.quote(str(root))}"
            )
        return _ordered(root, inside)
    names = ", ".join(place.name for place in inside[:3])
    more = f" (it holds runs: give them, such as {names})" if inside else ""
    raise Refusal(
        f"{root} is not the folder of a run{more}; give the folder that troth run wrote"
    )


def _ordered(root: Path, inside: list[Path]) -> list[Path]:
    """As the grid, or the chain, has them."""
    names = ["none", *chain.STAGES]
    if (root / folder.GRID).exists():
        with contextlib.suppress(Refusal):
            tree = config.read(root / folder.GRID)
            tree.pop("resolved", None)
            names = [config.label(changed) for changed, _ in config.expand(tree)]
    order = {name: i for i, name in enumerate(names)}
    return sorted(inside, key=lambda p: (order.get(p.name, len(order)), p.name))


def _dossier(path: Path, label: str) -> Dossier:
    found = Dossier(path, label)
    found.sections = _tried(found, folder.EXPERIMENT, _experiment) or {}
    name = str(found.sections.get("name", "") or path.resolve().name)
    found.label = label or name
    try:
        found.run = Run(path)
    except Refusal as refusal:
        if found.sections:
            found.troubles.append(f"{path / folder.EXPERIMENT}: {refusal}")
    found.rounds = _tried(found, folder.ROUNDS, _rounds) or []
    found.summary = _tried(found, folder.SUMMARY, _summary)
    found.clients = _tried(found, folder.CLIENTS, _clients)
    if found.finished:
        _agree(found)
    found.audit = _tried(found, auditing.FILE, _audit)
    found.certified = _tried(found, CERTIFICATES, _certified) or []
    return found


def _tried(found: Dossier, name: str, read: Callable[[Path], Any]) -> Any:
    """What a file says; None where it is missing or says nothing sensible."""
    file = found.path / name
    if not file.exists():
        return None
    try:
        return read(file)
    except (OSError, ValueError, KeyError, IndexError, TypeError, csv.Error) as error:
        why = " ".join(str(error).split())[:120]
    except Refusal as refusal:
        why = str(refusal)
    found.troubles.append(
        f"{file} cannot be read ({why}); put the file back as Troth wrote it, or make "
        "the run again"
    )
    return None


def _experiment(file: Path) -> dict[str, Any]:
    return config.read(file)


def _rounds(file: Path) -> list[dict[str, Any]]:
    """Every whole line; the last one may still be on its way."""
    lines = file.read_text("utf-8").split("\n")
    found = [json.loads(line) for line in lines[:-1]]
    if not all(isinstance(r, dict) and isinstance(r["round"], int) for r in found):
        raise ValueError("a line is no round")
    return found


def _summary(file: Path) -> dict[str, Any]:
    found = json.loads(file.read_text("utf-8"))
    if not isinstance(found["personal"], dict) or not isinstance(found["shared"], dict):
        raise ValueError("it holds no means over clients")
    if not isinstance(found["clients"], int):
        raise ValueError("it does not say how many clients there are")
    return found  # type: ignore[no-any-return]


def _clients(file: Path) -> Table:
    found = folder.read_csv(file)
    known = any(metric in found for metric in METRICS)
    if not {"client", "malicious", "test"} <= {*found} or not known:
        raise ValueError("columns are missing")
    return found


def _agree(found: Dossier) -> None:
    """Refuse to believe files that are not of one run."""
    assert found.summary is not None and found.clients is not None
    rows = len(found.clients["client"])
    if rows != found.summary["clients"] or not found.metric:
        found.troubles.append(
            f"{found.path / folder.CLIENTS} has {rows} clients, and "
            f"{folder.SUMMARY} says {found.summary['clients']}; make the run again"
        )
        found.summary = found.clients = None


def _audit(file: Path) -> Audit:
    table = folder.read_csv(file)
    needed = {"client", "adv_accuracy", "shared_adv_accuracy", "change", "suspect"}
    if not needed <= {*table}:
        raise ValueError("columns are missing")
    said = json.loads(file.with_suffix(".json").read_text("utf-8"))
    return Audit(table, dict(said["settings"]), list(said["rough"]))


def _certified(file: Path) -> list[Certified]:
    """The whole lines of the file, apart by their settings."""
    text = file.read_text("utf-8")
    lines = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))
    apart: dict[tuple[str, ...], list[dict[str, str]]] = {}
    names = [*Smoothing().record()]
    for line in lines:
        apart.setdefault(tuple(line[name] for name in names), []).append(line)
    found = []
    for key, mine in apart.items():
        settings = dict(zip(names, key, strict=True))
        kinds = {"model": str, "parameters": str, "client": int, "y": int}
        kinds |= {"label": int, "radius": float}
        table = {n: np.array([k(row[n]) for row in mine]) for n, k in kinds.items()}
        words: dict[str, Any] = {"transform": settings["transform"]}
        words |= {"units": settings["units"] or "normalised"}
        found.append(Certified(settings, Smoothing(**words).unit, table))
    for said in sorted(file.parent.glob("certificates_*.json")):
        curves = json.loads(said.read_text("utf-8"))
        asked = {k: str(v) for k, v in curves["settings"].items()}
        for each in found:
            if each.settings == asked:
                each.curves = dict(curves["models"])
    return found
