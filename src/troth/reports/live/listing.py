"""List the runs in a folder with their progress and results, fast for many runs."""

import json
import math
import os
import re
import threading
from pathlib import Path
from typing import Any, NamedTuple

from troth import files
from troth.files import METRICS
from troth.runs.compare import number
from troth.runs.load import Tail

_DEPTH = 3  # levels of folders that are searched
_SAYS = re.compile(r'^\[(\w+)\]\nname = ("(?:[^"\\\n]|\\.)*")$', re.M)
_ROUNDS = re.compile(r"^\[train\]\n(?:[^\[\n].*\n)*?rounds = (\d+)$", re.M)
_SENSELESS = (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration)
"""Errors that reading a file raises if Troth did not write the file."""
PARTS = ("personalizer", "attack", "aggregator")
NUMBERS = ("mean", "std", "worst10", "shared")


class Entry(NamedTuple):
    """A row of the list; all fields are text."""

    id: str  # path below the folder
    label: str
    state: str  # finished, in progress or stopped
    rounds: str
    metric: str
    mean: str
    std: str
    worst10: str
    shared: str
    personalizer: str
    attack: str
    aggregator: str


class Growing:
    """The rounds and evaluations of one run so far, from its `rounds.jsonl`."""

    def __init__(self, place: Path) -> None:
        self._place, self._tail = place, Tail(place / files.ROUNDS)
        self.rounds, self.metric = 0, ""
        self.points: list[list[Any]] = []  # round, personal mean, shared mean

    def look(self) -> None:
        """Read new lines; if a resume shortened the file, read it from the start."""
        if self._tail.shortened:
            self.__init__(self._place)  # type: ignore[misc]
        for record in self._tail.read():
            self._add(record)

    def _add(self, record: dict[str, Any]) -> None:
        self.rounds = record["round"] + 1
        try:
            own, shared = (record["evaluation"][k] for k in ("personal", "shared"))
            self.metric = next(m for m in METRICS if f"{m}_mean" in own)
            both = [kind.get(f"{self.metric}_mean") for kind in (own, shared)]
            self.points.append([self.rounds, *both])
        except _SENSELESS:
            return  # a round without an evaluation, or not written by Troth


class Listing:
    """The runs in a folder. Links are not followed; only changed files are reread."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._known: dict[Path, tuple[Any, Any]] = {}
        self._growing: dict[Path, Growing] = {}
        self._alone = threading.Lock()  # one thread at a time reads `rounds.jsonl`

    def paths(self) -> dict[str, Path]:
        """Return the folder of every run, by the run's id."""
        found: dict[str, Path] = {}
        ahead = [(self.root, 0)]
        while ahead:
            place, depth = ahead.pop()
            if os.path.isfile(place / files.EXPERIMENT):  # False without permission
                found[place.relative_to(self.root).as_posix()] = place
            elif depth < _DEPTH:
                ahead += [(inside, depth + 1) for inside in _folders(place)]
        return dict(sorted(found.items()))

    def entries(self) -> list[Entry]:
        """Return the rows of all runs."""
        return [self.entry(id_, place) for id_, place in self.paths().items()]

    def entry(self, id_: str, place: Path) -> Entry:
        """Return the row of one run."""
        settings = self._read(place / files.EXPERIMENT, _parts)
        summary = self._read(place / files.SUMMARY, _summary)
        parts = [str(settings.get(kind, "–")) for kind in PARTS]
        if summary:
            done = str(summary.pop("rounds"))
            return Entry(id_, place.name, "finished", done, *summary.values(), *parts)
        state = "in progress" if files.busy(place / files.ROUNDS) else "stopped"
        numbers = ["–"] * (1 + len(NUMBERS))
        rounds = f"{self.growing(place).rounds} of {settings.get('rounds', '–')}"
        return Entry(id_, place.name, state, rounds, *numbers, *parts)

    def growing(self, place: Path) -> Growing:
        """Return the rounds and evaluations of a run so far."""
        with self._alone:
            growing = self._growing.setdefault(place, Growing(place))
            growing.look()
        return growing

    def _read(self, file: Path, read: Any) -> Any:
        """Return the content of a file, or {} if it is missing or unreadable."""
        try:
            now = file.stat()
            stamp = now.st_mtime_ns, now.st_size, now.st_ino
            known = self._known.get(file)
            if known is None or known[0] != stamp:
                self._known[file] = known = (stamp, read(file))
            return known[1].copy() if isinstance(known[1], dict) else known[1]
        except _SENSELESS:
            return {}


def _folders(place: Path) -> list[Path]:
    """Return the folders inside a folder, without hidden ones and links."""
    try:
        with os.scandir(place) as inside:
            found = [e for e in inside if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [Path(e.path) for e in found if not e.name.startswith(".")]


def _parts(file: Path) -> dict[str, str]:
    """Find the names of methods in an experiment file, and the number of rounds.

    The TOML is not parsed, because this is slow for many runs.
    """
    text = file.read_text("utf-8")
    found = {kind: str(json.loads(name)) for kind, name in _SAYS.findall(text)}
    rounds = _ROUNDS.search(text)
    return found | ({"rounds": rounds[1]} if rounds else {})


def _summary(file: Path) -> dict[str, str]:
    summary = json.loads(file.read_text("utf-8"))
    own, shared = summary["personal"], summary["shared"]
    metric = next(m for m in METRICS if f"{m}_mean" in own)
    values = [own[f"{metric}_{what}"] for what in NUMBERS[:3]]
    values.append(shared[f"{metric}_mean"])
    texts = (number(math.nan if v is None else float(v), metric) for v in values)
    found = {"rounds": str(summary["rounds"]), "metric": metric}
    return found | dict(zip(NUMBERS, texts, strict=True))
