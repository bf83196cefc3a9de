"""Train the runs of a grid in several processes, on several devices or machines.

The runs are divided into groups. Runs that train together as one batch are one group;
every other run is a group of its own. Each group is trained by one process at a time
(`troth.cli.worker`), and the processes share only the folder of the grid. Progress is
read from the runs' files.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from troth import files
from troth.devices import cores
from troth.runs.load import Tail, read_experiment
from troth.runs.train import Interrupted, Progress, Watch, stoppable
from troth.types import Refusal

PAUSE = 0.2  # seconds between two looks at the processes
STOP = b"stop\n"  # what a worker reads if it is to stop after its round
Group = Sequence[str]
"""The labels of runs that one process trains."""


def train(
    root: Path,
    groups: Sequence[Group],
    runs: Sequence[str],
    places: "Places",
    watch: Watch | None = None,
) -> None:
    """Train groups of runs of a grid in processes; continue those that have begun.

    If a process fails, the others go on. At the end, one error names all runs that did
    not finish.

    Args:
        root: Folder of the grid.
        groups: The runs to train.
        runs: Labels of all runs of the grid.
        places: Where the groups are trained: `here` or `on_ray`.
        watch: Function that is called with the progress of each run.
    """
    seen = _Progress(root, [label for group in groups for label in group], runs, watch)
    with stoppable() as stopped, places as (began, poll):
        waiting = deque(g for g in groups if not all(_finished(root, one) for one in g))
        failed = dict[str, str]()
        while True:
            while waiting and not stopped() and began(waiting[0]):
                waiting.popleft()
            ended, busy = poll(stopped())
            seen.look()
            failed |= ended
            if not busy and (stopped() or not waiting):
                break
            time.sleep(PAUSE)
    seen.look()
    rest = [label for label in seen.labels if not _finished(root, label)]
    if stopped() and rest:
        saved = (one for one in rest if (root / one / files.CHECKPOINT).exists())
        raise Interrupted(root / next(saved, rest[0]))
    if rest:
        why = failed.get(rest[0], "its process was lost")
        raise Refusal(
            f"{len(rest)} of {len(seen.labels)} runs did not finish, such as {rest[0]} "
            f"({why}); continue them with: troth resume {root}"
        )


def _finished(root: Path, label: str) -> bool:
    return (root / label / files.SUMMARY).exists()


def command(root: Path, group: Group, device: str) -> list[str]:
    """Return the command that trains a group of runs of a grid; "": its own device."""
    given = [str(root.absolute()), device, json.dumps(list(group))]
    return [sys.executable, "-m", "troth.cli.worker", *given]


def _begun(
    root: Path, group: Group, device: str, said: IO[bytes], **more: Any
) -> "subprocess.Popen[bytes]":
    """Start the process of a group; what it prints to stderr goes into `said`."""
    return subprocess.Popen(
        command(root, group, device),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
        bufsize=0,  # so that closing stdin writes nothing
        start_new_session=True,  # Ctrl-C reaches it through its stdin alone
        **more,
    )


Starter = Callable[[Group], bool]
"""Starts a group; returns whether a device was free."""
Poll = Callable[[bool], tuple[dict[str, str], bool]]
"""Takes whether to stop; returns what failed (label → reason), and whether any process
is still running."""
Places = contextlib.AbstractContextManager[tuple[Starter, Poll]]


class _Worker(NamedTuple):
    process: "subprocess.Popen[bytes]"
    said: IO[bytes]
    group: Group
    device: str

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.said.close()


@contextlib.contextmanager
def here(root: Path, devices: Sequence[str]) -> Iterator[tuple[Starter, Poll]]:
    """Start groups as processes on this machine, at most one per entry of `devices`."""
    free = deque(devices)
    share = str(max(1, cores() // len(free)))
    environment = {"OMP_NUM_THREADS": share, **os.environ}
    working: list[_Worker] = []

    def start(group: Group) -> bool:
        if not free:
            return False
        device = free.popleft()
        said = tempfile.TemporaryFile()  # noqa: SIM115
        process = _begun(root, group, device, said, env=environment)
        working.append(_Worker(process, said, group, device))
        return True

    asked = False

    def poll(stop: bool) -> tuple[dict[str, str], bool]:
        nonlocal asked
        failed = dict[str, str]()
        for worker in list(working):
            code = worker.process.poll()
            if code is None and stop and not asked:
                _tell(worker.process)
            if code is None:
                continue
            working.remove(worker)
            free.append(worker.device)
            if code and not stop:
                failed |= dict.fromkeys(worker.group, reason(code, worker.said))
            worker.close()
        asked = asked or stop
        return failed, bool(working)

    try:
        yield start, poll
    finally:
        for worker in working:
            worker.process.kill()
            worker.process.wait()
            worker.close()


def _tell(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has just ended
        process.stdin.write(STOP)
        process.stdin.flush()


def reason(code: int, said: IO[bytes]) -> str:
    """Say in one line why a process failed: its last line, or what killed it."""
    if code < 0:
        return f"killed by signal {-code}"
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("troth: ") if lines else f"ended with code {code}"


@contextlib.contextmanager
def on_ray(root: Path, address: str, per_gpu: int) -> Iterator[tuple[Starter, Poll]]:
    """Start every group as a task of Ray, which chooses the machine and the device."""
    try:
        import ray
    except ImportError:
        raise Refusal("Ray is not installed; run: pip install 'troth[ray]'") from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=address, log_to_driver=False, include_dashboard=None)
    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpu = found.get("GPU", 0) > 0
    need: dict[str, Any] = {"num_gpus": 1 / per_gpu} if gpu else {}
    task = ray.remote(max_retries=3, num_cpus=1, **need)(work)
    tasks: dict[Any, Group] = {}
    asked = False

    def start(group: Group) -> bool:
        tasks[task.remote(str(root.absolute()), list(group), gpu)] = group
        return True

    def poll(stop: bool) -> tuple[dict[str, str], bool]:
        nonlocal asked
        failed = dict[str, str]()
        if stop and not asked:
            for one in tasks:
                ray.cancel(one)
        asked = asked or stop
        n = len(tasks)
        for one in ray.wait([*tasks], num_returns=n, timeout=0)[0] if n else ():
            group = tasks.pop(one)
            try:
                ray.get(one)
            except Exception as error:
                text = (str(error).strip() or type(error).__name__).splitlines()[-1]
                failed |= dict.fromkeys(group, text.partition(": ")[2] or text)
        return failed, bool(tasks)

    try:
        yield start, poll
    finally:
        if ours:
            ray.shutdown()


def work(root: str, group: Group, gpu: bool) -> None:
    """Train a group of runs in a process of its own: the task that Ray runs.

    Ray runs a task again if its machine is lost. The runs then continue from their
    checkpoints. The process ends at once if the task is killed.
    """
    if not (Path(root) / files.GRID).exists():
        raise Refusal(f"{root} does not exist on this machine; use a shared folder")
    with tempfile.TemporaryFile() as said:
        device = "cuda" if gpu else ""
        with _begun(Path(root), group, device, said) as process:
            try:
                while process.poll() is None:
                    time.sleep(PAUSE)
            except BaseException:  # cancelled: let it save
                _tell(process)
                process.wait()
                raise
        if process.returncode:
            raise RuntimeError(reason(process.returncode, said))


class _Progress:
    """The progress of runs that other processes train, read from their files."""

    def __init__(
        self, root: Path, labels: list[str], runs: Sequence[str], watch: Watch | None
    ) -> None:
        self.labels, self._watch = labels, watch
        self._number = {label: k for k, label in enumerate(runs, 1)}
        self._open = {
            label: Tail(root / label / files.ROUNDS)
            for label in labels
            if not _finished(root, label)
        }
        self._root, self._total = root, dict[str, int]()
        self._over = sum(_finished(root, label) for label in runs)

    def look(self) -> None:
        """Report the latest new round of every run."""
        if self._watch is None:
            return
        for label, tail in self._open.items():
            if not (rounds := tail.read()):
                continue
            if label not in self._total:
                experiment = read_experiment(self._root / label)
                self._total[label] = experiment.train.rounds
            seen = (r["evaluation"] for r in reversed(rounds) if "evaluation" in r)
            done, which = rounds[-1]["round"] + 1, self._number[label]
            p = Progress(label, done, self._total[label], next(seen, None))
            self._watch(p._replace(run=which, runs=len(self._number), over=self._over))


def obey(stdin: int, stop: Callable[[], None]) -> None:
    """Stop a worker after its round on request, and at once if its parent has ended.

    Args:
        stdin: File descriptor from which the worker reads requests.
        stop: Function that requests a stop after the round.
    """

    def listen() -> None:
        while os.read(stdin, len(STOP)):  # b"" if the parent has ended
            stop()
        os._exit(1)  # the parent has ended: another process may continue these runs

    threading.Thread(target=listen, daemon=True).start()
