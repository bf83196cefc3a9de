"""Show runs in a tracker, such as TensorBoard or MLflow, from the files of the runs.

`live` starts a process that reads the files of a run in training. Training itself is
the same as without a tracker: it neither waits for trackers nor fails with them.
"""

import contextlib
import hashlib
import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from troth import files, lookup, progress
from troth.config import reader
from troth.config.schema import Part
from troth.runs.load import Run, Tail, read_experiment
from troth.types import Notice, Refusal, Tracked, Tracker

Extra = Callable[[Path, Path], Sequence[Path]]
"""Function (folder of a run or grid, empty folder) → further files to save."""

PAUSE = 1.0  # seconds between two readings of the files
PATIENCE = 10.0  # seconds that a finished run waits for its trackers
LIMIT = 600.0  # seconds from the end of training until a live tracker is ended
RESERVE = 2**28  # bytes: with less free disk space, a live tracker is ended
_SAVED = (files.EXPERIMENT, files.SUMMARY, files.CLIENTS)
_log = logging.getLogger("troth.track")


class Sent(NamedTuple):
    """Result of `track`: the number of runs, and where their values are shown."""

    runs: int
    places: tuple[str, ...]


def track(
    paths: Sequence[Path],
    tracker: Part,
    *,
    follow: bool = False,
    over: threading.Event | None = None,
    extra: Extra | None = None,
) -> Sent:
    """Send the values and files of runs to a tracker.

    If the tracker fails, raise Refusal with its error.

    Args:
        paths: Folders of runs or grids. With `over`, they need not exist yet.
        tracker: Name and options of the tracker.
        follow: Whether to wait for new rounds until all runs have finished.
        over: Event that ends the waiting for new rounds, or `None`.
        extra: Function that makes further files to save with a run or grid.
    """
    function = lookup.find("tracker", tracker.name)
    options = lookup.check("tracker", tracker.name, tracker.options)
    places: dict[str, None] = {}  # in the order in which they were opened

    def begin(run: Tracked, parent: Tracker | None) -> Tracker:
        made: Tracker = lookup.call(function, options, run=run, parent=parent)
        places.setdefault(str(getattr(made, "where", "")))
        return made

    shown = [_Shown(Path(path), begin, extra) for path in paths]
    try:
        while True:
            last = not follow or (over is not None and over.is_set())
            for one in shown:
                one.look()
            if last or all(one.done for one in shown):
                break
            over.wait(PAUSE) if over else time.sleep(PAUSE)
    except Refusal:
        raise
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        again = ["troth", "track", *map(str, paths), "--to", tracker.name]
        raise Refusal(
            f"the tracker '{tracker.name}' failed ({text}); the runs are not affected, "
            f"and can be sent again: {shlex.join(again)}"
        ) from error
    finally:
        with contextlib.suppress(Exception):
            for one in shown:
                one.close()
    return Sent(sum(one.count for one in shown), tuple(filter(None, places)))


class _Shown:
    """A run or a grid that is tracked, from the moment when its folder exists."""

    def __init__(
        self,
        path: Path,
        begin: Callable[[Tracked, Tracker | None], Tracker],
        extra: Extra | None,
        grid: "_Shown | None" = None,
    ) -> None:
        self.path, self._begin, self._extra, self._grid = path, begin, extra, grid
        self.done = False
        self._tail = Tail(path / files.ROUNDS)
        self._next = 0  # first round that is not logged yet
        self._tracker: Tracker | None = None
        self._runs: list[_Shown] | None = None  # of a grid

    @property
    def count(self) -> int:
        """Number of runs that have been tracked."""
        own = int(self._tracker is not None and self._runs is None)
        return own + sum(run.count for run in self._runs or [])

    def look(self) -> None:
        """Send new values and files."""
        if self.done or not self._begun():
            return
        assert self._tracker is not None
        if self._runs is not None:
            for run in self._runs:
                run.look()
            self.done = all(run.done for run in self._runs)
            names: Sequence[str] = (files.GRID,)
        else:
            finished = (self.path / files.SUMMARY).exists()  # before the rounds
            self._log(finished)
            self.done, names = finished, _SAVED
        if self.done:
            self._save(names)
            self._tracker.close(True)

    def _begun(self) -> bool:
        """Open the tracker if the folder exists; return whether it is open."""
        if self._tracker is not None:
            return True
        grid, root = self.path / files.GRID, self.path
        parent = self._grid._tracker if self._grid else None
        if grid.exists():
            sections = reader.read(grid)
            labels = [reader.label(changed) for changed, _ in reader.expand(sections)]
            settings = flat({k: v for k, v in sections.items() if k != "resolved"})
            self._runs = [
                _Shown(self.path / label, self._begin, self._extra, self)
                for label in labels
            ]
        elif (self.path / files.EXPERIMENT).exists():
            experiment = read_experiment(self.path)
            tree = reader.to_dict(experiment)
            facts = tree.pop("resolved", {})
            settings = flat(tree | {"fingerprint": facts.get("fingerprint", "")})
            root = self._grid.path if self._grid else root
        else:
            return False
        place = root.resolve()
        name = "/".join([place.name, *self.path.parts[len(root.parts) :]])
        id_ = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:16]
        above = place.name if self._grid else ""
        run = Tracked(id_, name, self.path, root, above, settings, grid.exists())
        self._tracker = self._begin(run, parent)
        return True

    def _log(self, finished: bool) -> None:
        """Send new rounds and, if the run is finished, its summary."""
        new = {}
        for record in self._tail.read():
            if record["round"] >= self._next:
                new[record["round"] + 1] = numbers(record)
                self._next = record["round"] + 1
        if finished:
            summary = Run(self.path).summary
            last = new.setdefault(summary["rounds"], {})
            last |= {f"final/{name}": value for name, value in values(summary).items()}
        if new:
            assert self._tracker is not None
            self._tracker.log(new)

    def _save(self, names: Sequence[str]) -> None:
        """Send the named files of the run, and the files that `extra` makes."""
        assert self._tracker is not None
        with tempfile.TemporaryDirectory() as folder:
            more = self._extra(self.path, Path(folder)) if self._extra else ()
            self._tracker.save([*(self.path / name for name in names), *more])

    def close(self) -> None:
        """Close all trackers that are still open."""
        if self._tracker is not None and not self.done:
            for run in self._runs or []:
                run.close()
            self._tracker.close(False)
            self.done = True


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a round by name, such as `personal/accuracy_mean`.

    For a list of clients, the value is its length: `round/asked` is the size of the
    cohort.
    """
    found: dict[str, float] = {}
    for key, value in record.items():
        if key == "dropped":
            found["round/dropped"] = float(sum(map(len, value.values())))
        elif isinstance(value, list):
            name = "asked" if key == "cohort" else key
            found[f"round/{name}"] = float(len(value))
        elif key not in ("round", "evaluation"):
            found |= values({key: value}, "round/")
    return found | values(record.get("evaluation") or {})


def values(tree: Mapping[str, Any], above: str = "") -> dict[str, float]:
    """Return numbers of nested dictionaries by path, such as `personal/loss_mean`."""
    found: dict[str, float] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= values(value, f"{above}{key}/")
        elif isinstance(value, int | float):
            found[f"{above}{key}"] = float(value)
    return found


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Return the settings of an experiment by path, such as `train.lr`, as text."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            found[f"{above}{key}"] = text
    return found


@contextlib.contextmanager
def live(trackers: Sequence[Part], root: Path) -> Iterator[None]:
    """Within the block, track a run or grid by a separate process per tracker.

    The processes end by themselves: they read end of file from their input when the
    block, or the process that trains, ends. At the end, the block waits for them for a
    few seconds. Failures are logged as warnings. If nothing handles the log, they are
    issued as warnings of Python at the end of the block.
    """
    failed: list[str] = []

    def fail(text: str) -> None:
        _log.warning(text)
        failed.append(text)

    watched = [_start(tracker, root, fail) for tracker in trackers]
    try:
        yield
    finally:
        until = time.monotonic() + PATIENCE
        for process, watcher, name in filter(None, watched):
            with contextlib.suppress(OSError):
                process.stdin.close()
            if not root.exists():  # the run was refused: there is nothing to track
                process.kill()
            watcher.join(max(0.0, until - time.monotonic()))
            if watcher.is_alive():
                fail(f"{name} is still sending values of {root}")
        for text in [] if _heard() else failed:
            with contextlib.suppress(Notice):  # also if warnings are errors
                progress.warn(text, Notice)


def _heard() -> bool:
    """Return whether a handler prints or stores the warnings of this module's log."""
    log: logging.Logger | None = _log
    while log is not None:
        if any(not isinstance(h, logging.NullHandler) for h in log.handlers):
            return True
        log = log.parent if log.propagate else None
    return False


def _start(tracker: Part, root: Path, fail: Callable[[str], None]) -> Any:
    """Start the process of a tracker, and a thread that reports its failure."""
    given = (f"{k}={json.dumps(v)}" for k, v in tracker.options.items())
    command = [sys.executable, "-m", "troth", "track", str(root)]
    command += ["--to", tracker.name, "--follow", "--live"]
    command += [word for setting in given for word in ("--set", setting)]
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    alone = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **alone},
            start_new_session=True,  # Ctrl-C stops training only, which ends tracking
        )
    except OSError as error:
        fail(f"{tracker.name} cannot be started ({error})")
        return None

    def watch() -> None:
        if process.wait() and root.exists():
            errors.seek(0)
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
            why = lines[-1] if lines else f"exit code {process.returncode}"
            why = why.removeprefix("troth: ")
            fail(f"{tracker.name} does not track {root}: {why}")
        errors.close()

    watcher = threading.Thread(target=watch, name="troth-track", daemon=True)
    watcher.start()
    return process, watcher, tracker.name


def until_closed(root: Path) -> threading.Event:
    """Return an event that is set when the standard input of this process is closed.

    `LIMIT` seconds later, the process is ended. It is ended at once if the disk with
    the runs has less than `RESERVE` bytes of free space, because a tracker must not use
    up the space that training needs.
    """
    if hasattr(os, "nice"):
        os.nice(10)
    over = threading.Event()

    def wait() -> None:
        while os.read(0, 1):  # sys.stdin has a lock that Python needs when it ends
            pass
        over.set()
        time.sleep(LIMIT)
        _give_up(f"it took longer than {LIMIT:.0f} s after the end of training")

    def guard() -> None:
        while True:
            if shutil.disk_usage(files.above(root / "run")).free < RESERVE:
                _give_up("the disk is almost full")
            time.sleep(PAUSE)

    for work in (wait, guard):
        threading.Thread(target=work, daemon=True).start()
    return over


def _give_up(why: str) -> None:
    """End this process at once, with a message."""
    os.write(2, f"troth: tracking stopped: {why}\n".encode())
    os._exit(1)
