"""Measure rounds with few and with very many clients, and state on disk.

    python benchmarks/scale.py [--quick] [--only clients|disk] [--rounds N] [--ulimit]
        [--place FOLDER] [--out FILE.json]

Every run is a process of its own, a whole `troth.run` with its files. Runs that are
compared take turns, a block of rounds each, so that a busy moment of the machine hits
all of them; a run that waits does nothing. Times are medians over rounds.

`clients`: MLP-128 on made digits, 1,000, 100,000 and 1,000,000 clients, Ditto, so that
each client that was ever asked keeps a model; state on disk for the last.
`disk`: 10,000 clients × 222,078 parameters, state in memory and, under a limit of
4 GB, on disk. The limit is a control group's, which counts cached pages of files too;
where none may be made, or with `--ulimit`, it is that on the data of the process
(`ulimit -d`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE, LIMIT = Path(__file__).resolve().parent, 4 * 10**9


def clients(n: int, rounds: int, store: str) -> dict[str, Any]:
    """A million clients or fewer."""
    data = {"name": "made_digits", "clients": n, "per_client": 10}
    return {
        "data": data,
        "partition": "natural",
        "model": {"name": "mlp", "widths": [128]},
        "train": {"rounds": rounds, "cohort": 100, "batch": 16, "lr": 0.1},
        "evaluate": {"clients": 100},
        "personalizer": {"name": "ditto", "lam": 0.5},
        "engine": {"store": store},
        "checkpoint": {"every": 100},
    }


def disk(n: int, rounds: int, store: str) -> dict[str, Any]:
    """A population of 8.9 GB."""
    model = {"name": "cnn", "channels": [16, 32], "widths": [128]}
    train = {"rounds": rounds, "cohort": 100, "steps": 2, "batch": 16, "lr": 0.05}
    return {
        "data": {"name": "characters:characters", "clients": n},
        "partition": "natural",
        "model": model,
        "train": train,
        "evaluate": {"clients": 100, "every": rounds},
        "personalizer": {"name": "ditto", "lam": 0.5},
        "engine": {"store": store},
        "checkpoint": {"every": 20},
        "output": {"checkpoint": store == "disk", "personal": store == "disk"},
    }


# --- a run: the child ---


def child(file: str, out: str, limit: str) -> None:
    """Train, waiting after every block of rounds; say what it took at the end."""
    held = _limited(limit)
    import torch

    import troth

    marks: list[float] = []
    block, waited = int(os.environ["BLOCK"]), 0.0

    def turn(p: Any) -> None:
        nonlocal waited
        if p.state is None:
            marks.append(time.perf_counter() - waited)
            if p.done % block == 0 and p.done < p.total:
                waited += _turn(p.done)

    _turn(0)
    began = time.perf_counter()
    [run] = troth.run(file, out=out, watch=turn)
    whole = time.perf_counter() - waited - began
    each = [b - a for a, b in zip(marks, marks[1:], strict=False)]
    facts, kept = run.experiment.resolved, Path(out) / "personal.safetensors"
    _say(
        limit=held,
        clients=facts["clients"],
        parameters=facts["parameters"],
        store=facts["store"],
        plan=facts["plan"],
        threads=torch.get_num_threads(),
        visited=int((run.clients["asked"] > 0).sum()),
        seconds_before_the_second_round=marks[0] - began,
        seconds_in_all=whole,
        round_ms=[1000 * s for s in each],
        peak_memory_bytes=_status("VmHWM"),
        state_bytes_at_most=facts.get("state_bytes", 0),
        models_bytes=kept.stat().st_size if kept.exists() else 0,
        accuracy=run.summary["personal"]["accuracy_mean"],
    )


def _turn(done: int) -> float:
    """Let the others have theirs; the seconds that took."""
    began = time.perf_counter()
    _say(done=done)
    if not sys.stdin.readline():
        raise SystemExit("nobody is there any more")
    return time.perf_counter() - began


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(s for s in lines if s.startswith(key)).split()[1]) * 1024


def _limited(limit: str) -> str:
    """Go into the control group of that name, or under a limit on data."""
    if limit == "ulimit":
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
        return f"ulimit -d, {LIMIT:,} bytes"
    if limit:
        (Path(limit) / "cgroup.procs").write_text(str(os.getpid()))
        return f"memory control group, {LIMIT:,} bytes, file pages counted"
    return "none"


# --- many runs: the parent ---


@contextlib.contextmanager
def group(ulimit: bool) -> Iterator[str]:
    """A control group with the limit, below our own; `ulimit` where none is allowed."""
    own = ""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            own = f"/sys/fs/cgroup/memory{path}"
    place = Path(own) / f"troth-scale-{os.getpid()}"
    try:
        if ulimit or not own:
            raise OSError
        place.mkdir()
        (place / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError:
        yield "ulimit"
        return
    try:
        yield str(place)
    finally:
        place.rmdir()


def take_turns(
    runs: dict[str, tuple[dict[str, Any], str]], block: int, place: Path
) -> dict[str, dict[str, Any]]:
    """All runs, a block of rounds each in turn; the first chooses everyone's plan."""
    going: dict[str, subprocess.Popen[str]] = {}
    found: dict[str, dict[str, Any]] = {}
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"BLOCK": str(block), "PYTHONPATH": path}
    for name, (tree, limit) in runs.items():
        file = place / f"{name}.toml"
        file.write_text(_toml(tree))
        arguments = [sys.executable, __file__, "--child", str(file)]
        arguments += [str(place / name), limit]
        going[name] = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        _wait(going[name], name)
    while going:
        for name, process in [*going.items()]:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            told = _wait(process, name)
            if "done" not in told:
                found[name] = told | _summed(told.pop("round_ms"))
                process.wait()
                del going[name]
                shutil.rmtree(place / name)
            print(f"{name}: {told.get('done', 'finished')}", file=sys.stderr)
    return found


def _wait(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{name} failed with exit code {process.wait()}")
    told: dict[str, Any] = json.loads(line)
    return told


def _toml(tree: dict[str, Any]) -> str:
    from troth.config import reader

    return reader.dumps(tree)


def _summed(each: list[float]) -> dict[str, Any]:
    """Over all rounds but the first, and over the last third, when most rows exist."""
    last = each[-max(1, len(each) // 3) :]
    return {
        "round_ms_median": statistics.median(each),
        "round_ms_mean": statistics.mean(each),
        "last_third_ms_median": statistics.median(last),
        "last_third_ms_mean": statistics.mean(last),
        "round_ms": [round(ms, 2) for ms in each],
    }


def planned(tree: dict[str, Any]) -> dict[str, Any]:
    """The plan that the engine measures for one of the runs that are compared."""
    sys.path.insert(0, str(HERE))
    from troth.build import build
    from troth.config import reader

    plan = build(reader.from_dict(tree)).federation.engine.plan
    return {"how": plan.how, "chunk": plan.chunk, "workers": plan.workers}


def measure_clients(given: argparse.Namespace, place: Path) -> dict[str, Any]:
    """1,000, 100,000 and 1,000,000 clients."""
    rounds = given.rounds or (30 if given.quick else 300)
    block = 10 if given.quick else 20
    sizes = [1000, 10_000, 50_000] if given.quick else [1000, 100_000, 1_000_000]
    plan = planned(clients(sizes[0], rounds, "host"))
    trees = {}
    for n, store in zip(sizes, ("host", "host", "disk"), strict=True):
        tree = clients(n, rounds, store)
        tree["engine"] |= plan
        trees[f"{n} clients"] = (tree, "")
    found = take_turns(trees, block, place)
    first, *others = found.values()
    for each in others:
        each["ratio"] = each["round_ms_median"] / first["round_ms_median"]
    return found


def measure_disk(given: argparse.Namespace, place: Path) -> dict[str, Any]:
    """10,000 clients of a CNN, in memory and on disk."""
    n, rounds, block = (500, 15, 5) if given.quick else (10_000, 300, 20)
    rounds = given.rounds or rounds
    plan = planned(disk(200, rounds, "host"))
    trees = {}
    with group(given.ulimit) as limit:
        for store in ("host", "disk"):
            tree = disk(n, rounds, store)
            tree["engine"] |= plan
            trees[store] = (tree, limit if store == "disk" else "")
        found = take_turns(trees, block, place)
    for key in ("round_ms_median", "last_third_ms_median", "last_third_ms_mean"):
        found["disk"][f"ratio_{key}"] = found["disk"][key] / found["host"][key]
    return found


def table(found: dict[str, Any]) -> str:
    """For the page of benchmarks."""
    lines = [
        "| clients × parameters | state | limit | ms a round, median "
        "| last third: median | mean | × the first | before round 2, s "
        "| peak memory, GB | on disk, GB |",
        "|" + "---|" * 10,
    ]
    first = next(iter(found.values()))
    for each in found.values():
        times = ("round_ms_median", "last_third_ms_median", "last_third_ms_mean")
        ratios = (f"{each[t] / first[t]:.2f}" for t in times)
        on_disk = each["state_bytes_at_most"] if each["store"] == "disk" else 0
        cells = [
            f"{each['clients']:,} × {each['parameters']:,}",
            each["store"],
            each["limit"],
            *(f"{each[t]:.1f}" for t in times),
            " / ".join(ratios),
            f"{each['seconds_before_the_second_round']:.0f}",
            f"{each['peak_memory_bytes'] / 1e9:.2f}",
            f"≤ {on_disk / 1e9:.2f}" if on_disk else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, to check that the script works",
    )
    parser.add_argument("--only", choices=["clients", "disk"])
    parser.add_argument("--rounds", type=int, default=0, help="others than usual")
    parser.add_argument("--ulimit", action="store_true", help="no control group")
    parser.add_argument("--place", type=Path, help="where runs are written")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child)
        return
    import torch

    found: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "quick": given.quick,
    }
    parts = {"clients": measure_clients, "disk": measure_disk}
    for name, part in parts.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory(dir=given.place) as place:
                found[name] = part(given, Path(place))
            print(table(found[name]), flush=True)
    if given.out:
        given.out.parent.mkdir(exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
