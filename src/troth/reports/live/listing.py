"""List the runs in a folder with their progress and results, fast for many runs."""

import contextlib
import json
import math
import os
import re
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from troth import files
from troth.files import METRICS
from troth.runs.compare import number
from troth.runs.load import Tail

_DEPTH = 3  # levels of folders that are searched
_SAYS = re.compile(r'^\[(\w+)\]\nname = ("(?:[^"\\\n]|\\.)*")$', re.M)
_ROUNDS = re.compile(r"^\[train\]\n(?:[^\[\n].*\n)*?rounds = (\d{1,15})$", re.M)
_SENSELESS = (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration)
"""Errors that reading a file raises if Troth did not write the file."""
PARTS = ("personalizer", "attack", "aggregator")
NUMBERS = ("mean", "std", "worst10", "shared")


_WINDOW = 30  # changes of the file of rounds from which the rate is computed


class Entry(NamedTuple):
    """A row of the list; all fields but `begun` are text."""

    id: str  # path below the folder
    group: str  # folder of the run's grid, below the folder; "" if there is none
    label: str
    state: str  # finished, running, interrupted (by Ctrl-C), failed or killed
    why: str = ""  # message of the error with which a failed run ended
    begun: float = 0.0  # time at which the run began, in seconds since 1970
    rounds: str = "–"
    rate: str = "–"  # rounds per time of a running run
    left: str = "–"  # time until the last round of a running run
    metric: str = "–"
    mean: str = "–"
    std: str = "–"
    worst10: str = "–"
    shared: str = "–"
    seconds: str = "–"
    personalizer: str = "–"
    attack: str = "–"
    aggregator: str = "–"


class Growing:
    """The rounds and evaluations of one run so far, from its `rounds.jsonl`."""

    def __init__(self, place: Path) -> None:
        self._place, self._tail = place, Tail(place / files.ROUNDS)
        self.rounds, self.metric = 0, ""
        self.points: list[list[Any]] = []  # round, personal mean, shared mean
        self.last: dict[str, Any] = {}  # record of the last round
        self._seen = deque[tuple[float, int]](maxlen=_WINDOW)  # time, rounds

    def look(self) -> None:
        """Read new lines; if a resume shortened the file, read it from the start."""
        if self._tail.shortened:
            self.__init__(self._place)  # type: ignore[misc]
        new = self._tail.read()
        for record in new:
            self._add(record)
        if new:
            with contextlib.suppress(OSError):  # it is gone already
                changed = (self._place / files.ROUNDS).stat().st_mtime
                self._seen.append((changed, self.rounds))

    def rate(self) -> float:
        """Return the rounds per second while the file grew; NaN if not yet known."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return math.nan
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        return (now - before) / (last - first)

    def left(self, total: int) -> float:
        """Return the seconds until round `total`; NaN if the rate is not known."""
        since = time.time() - self._seen[-1][0] if self._seen else 0.0
        rate = self.rate()
        return max(0.0, (total - self.rounds) / rate - since) if rate > 0 else math.nan

    def pause(self) -> None:
        """Forget the rate, because the run does not train now."""
        self._seen.clear()

    def _add(self, record: dict[str, Any]) -> None:
        self.rounds, self.last = record["round"] + 1, record
        try:
            own, shared = (record["evaluation"][k] for k in ("personal", "shared"))
            self.metric = next(m for m in METRICS if f"{m}_mean" in own)
            both = [kind.get(f"{self.metric}_mean") for kind in (own, shared)]
            known = [v if isinstance(v, int | float) else None for v in both]
            self.points.append([self.rounds, *known])
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
        parts: dict[str, Any] = {kind: settings.get(kind, "–") for kind in PARTS}
        parts["begun"] = settings.get("begun", 0.0)
        entry = Entry(id_, id_.rpartition("/")[0], place.name, "finished")
        if summary:
            return entry._replace(**summary, **parts)
        growing, total = self.growing(place), settings.get("rounds", "–")
        parts |= {"state": "running", "rounds": f"{growing.rounds} of {total}"}
        if files.busy(place / files.ROUNDS):
            parts["rate"] = pace(growing.rate())
            parts["left"] = lasting(growing.left(int(total))) if total != "–" else "–"
        else:
            growing.pause()
            parts["state"] = "killed"
            parts |= self._read(place / files.ENDED, _ended)
        if growing.points:  # results so far
            _, own, shared = growing.points[-1]
            texts = [number(v, growing.metric) for v in (own, shared)]
            parts |= {"metric": growing.metric, "mean": texts[0], "shared": texts[1]}
        return entry._replace(**parts)

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


def _parts(file: Path) -> dict[str, Any]:
    """Find the names of methods in an experiment file, its rounds, and its time.

    The TOML is not parsed, because this is slow for many runs.
    """
    text = file.read_text("utf-8")
    found = {kind: str(json.loads(name)) for kind, name in _SAYS.findall(text)}
    rounds = _ROUNDS.search(text)
    found |= {"rounds": rounds[1]} if rounds else {}
    return found | {"begun": file.stat().st_mtime}


def _summary(file: Path) -> dict[str, str]:
    summary = json.loads(file.read_text("utf-8"))
    own, shared = summary["personal"], summary["shared"]
    metric = next(m for m in METRICS if f"{m}_mean" in own)
    values = [own[f"{metric}_{what}"] for what in NUMBERS[:3]]
    values.append(shared[f"{metric}_mean"])
    texts = (number(math.nan if v is None else float(v), metric) for v in values)
    found = {"rounds": str(summary["rounds"]), "metric": metric}
    if "seconds" in summary:
        found["seconds"] = f"{float(summary['seconds']):.1f}"
    return found | dict(zip(NUMBERS, texts, strict=True))


def _ended(file: Path) -> dict[str, str]:
    """Read how a run that is not finished ended, and the error of a failed one."""
    found = json.loads(file.read_text("utf-8"))
    state = {"interrupted": "interrupted", "failed": "failed"}[found["state"]]
    return {"state": state, "why": str(found["why"])[:500]}


_TIMES = (("s", 1), ("min", 60), ("h", 3600), ("d", 86400))


def pace(rate: float) -> str:
    """Write rounds per second, per minute or per hour; NaN is a dash."""
    if not rate > 0:
        return "–"
    unit, seconds = next((t for t in _TIMES[:2] if rate * t[1] >= 1), _TIMES[2])
    return f"{rate * seconds:.3g} / {unit}"


def lasting(seconds: float) -> str:
    """Write a time with its two largest units; NaN is a dash."""
    if not seconds >= 0:
        return "–"
    fits = [t for t in _TIMES if round(seconds) >= t[1]] or [*_TIMES[:1]]
    unit, size = fits[-1]
    text = f"{round(seconds) // size} {unit}"
    if len(fits) > 1:
        smaller, part = fits[-2]
        text += f" {round(seconds) % size // part} {smaller}"
    return text
