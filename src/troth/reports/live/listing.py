"""Which runs lie in a folder, how far each has come and how it went; quick for many."""

import json
import math
import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from troth import files
from troth.files import METRICS
from troth.runs.compare import number

_DEPTH = 3  # folders below the one that is shown
_TAIL = 2**16  # bytes of a journal that are read for its last round
_SAYS = re.compile(r'^\[(\w+)\]\nname = ("(?:[^"\\\n]|\\.)*")$', re.M)
_ROUNDS = re.compile(r"^\[train\]\n(?:[^\[\n].*\n)*?rounds = (\d+)$", re.M)
_SENSELESS = (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration)
"""What reading a file may raise that is none of ours."""
PARTS = ("personalizer", "attack", "aggregator")
NUMBERS = ("mean", "std", "worst10", "shared")


class Entry(NamedTuple):
    """A run, as a list shows it: texts."""

    id: str  # its path below the folder
    label: str
    state: str  # finished, going on or stopped
    rounds: str
    metric: str
    mean: str
    std: str
    worst10: str
    shared: str
    personalizer: str
    attack: str
    aggregator: str


class Listing:
    """The runs in a folder; files that did not change are not read again.

    Args:
        root: the folder. What is not really inside it, such as behind a link, is not
            there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._known: dict[Path, tuple[Any, Any]] = {}

    def paths(self) -> dict[str, Path]:
        """Id → folder of every run there is now."""
        found: dict[str, Path] = {}
        ahead = [(self.root, 0)]
        while ahead:
            place, depth = ahead.pop()
            if os.path.isfile(place / files.EXPERIMENT):  # False where we may not look
                found[place.relative_to(self.root).as_posix()] = place
            elif depth < _DEPTH:
                ahead += [(inside, depth + 1) for inside in _folders(place)]
        return dict(sorted(found.items()))

    def entries(self) -> list[Entry]:
        """Every run."""
        return [self.entry(id_, place) for id_, place in self.paths().items()]

    def entry(self, id_: str, place: Path) -> Entry:
        """One run."""
        said = self._read(place / files.EXPERIMENT, _parts)
        summary = self._read(place / files.SUMMARY, _summary)
        total = said.get("rounds", "–")
        parts = [str(said.get(kind, "–")) for kind in PARTS]
        if summary:
            done = str(summary.pop("rounds"))
            return Entry(id_, place.name, "finished", done, *summary.values(), *parts)
        state, far = self.progress(place)
        numbers = ["–"] * (1 + len(NUMBERS))
        rounds = f"{far} of {total}"
        return Entry(id_, place.name, state, rounds, *numbers, *parts)

    def progress(self, place: Path) -> tuple[str, int]:
        """How an unfinished run stands, and after how many rounds."""
        journal = place / files.ROUNDS
        state = "going on" if files.busy(journal) else "stopped"
        return state, self._read(journal, _last) or 0

    def _read(self, file: Path, read: Any) -> Any:
        """What a file says; {} where it is not there or says nothing sensible."""
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
    """Real folders inside one; a link may lead anywhere."""
    try:
        with os.scandir(place) as inside:
            found = [e for e in inside if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [Path(e.path) for e in found if not e.name.startswith(".")]


def _parts(file: Path) -> dict[str, str]:
    """Names of parts, without reading all of the TOML: there may be very many."""
    text = file.read_text("utf-8")
    found = {kind: str(json.loads(name)) for kind, name in _SAYS.findall(text)}
    rounds = _ROUNDS.search(text)
    return found | ({"rounds": rounds[1]} if rounds else {})


def _summary(file: Path) -> dict[str, str]:
    said = json.loads(file.read_text("utf-8"))
    own, shared = said["personal"], said["shared"]
    metric = next(m for m in METRICS if f"{m}_mean" in own)
    values = [own[f"{metric}_{what}"] for what in NUMBERS[:3]]
    values.append(shared[f"{metric}_mean"])
    texts = (number(math.nan if v is None else float(v), metric) for v in values)
    found = {"rounds": str(said["rounds"]), "metric": metric}
    return found | dict(zip(NUMBERS, texts, strict=True))


def _last(file: Path) -> int:
    """Rounds that a journal holds, by its last whole line."""
    size, far = file.stat().st_size, _TAIL
    with file.open("rb") as journal:
        while True:
            journal.seek(max(0, size - far))
            lines = journal.read(min(size, far)).split(b"\n")
            if len(lines) > 2 or far >= size:
                break
            far *= 4
    whole = [line for line in lines[:-1] if line]
    return int(json.loads(whole[-1])["round"]) + 1 if whole else 0


def resume(place: Path) -> str:
    """How to go on with a run."""
    return f"troth resume {shlex.quote(str(place))}"


class Growing:
    """The evaluations of one run so far."""

    def __init__(self, place: Path) -> None:
        self._file = place / files.ROUNDS
        self._read, self._at = b"", 0
        self.rounds = 0
        self.metric = ""
        self.points: list[list[Any]] = []  # round, own mean, shared mean

    def look(self) -> None:
        """Read on; a journal that was cut back, by a resume, is read anew."""
        try:
            size = self._file.stat().st_size
            if size < self._at:
                self.__init__(self._file.parent)  # type: ignore[misc]
            with self._file.open("rb") as journal:
                journal.seek(self._at)
                new = journal.read(size - self._at)
        except OSError:
            return
        self._at += len(new)
        *lines, self._read = (self._read + new).split(b"\n")
        for line in lines:
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            self.rounds = int(said["round"]) + 1
            own, shared = (said["evaluation"][kind] for kind in ("personal", "shared"))
            self.metric = next(m for m in METRICS if f"{m}_mean" in own)
            both = [kind.get(f"{self.metric}_mean") for kind in (own, shared)]
            self.points.append([self.rounds, *both])
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            return  # no evaluation, or no line of ours
