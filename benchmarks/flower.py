"""Compare a round of a real federation with Flower's own FedAvg.

    python benchmarks/flower.py grid|processes [--rounds N] [--out FILE.json]

Ten sites, digits, an MLP with 9,610 parameters, eight steps of 16 examples, one thread.
`grid`: both apps on one and the same grid within this process, which passes every
message through its bytes: what the apps themselves take. `processes`: a server and ten
sites each, as people start them: `troth server` and `troth client`; and Flower's
SuperLink, SuperNodes and `flwr run`. Needs `troth[flower]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

import machine
from troth.config import reader
from troth.types import Broadcast

HERE = Path(__file__).parent
ROOT = HERE.parent
SITES = [f"s{k}" for k in range(10)]


def loaded(file: Path) -> Any:
    """Import a file as a module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def experiment(rounds: int, model: dict[str, Any]) -> dict[str, Any]:
    """What `fedavg/fedavg.py` is, as an experiment."""
    return {
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 10},
        "model": model,
        "train": {"rounds": rounds, "steps": 8, "batch": 16, "lr": 0.1},
        "evaluate": {"every": rounds + 1},
        "engine": {"device": "cpu", "how": "loop", "chunk": 1},
        "deployment": {
            "sites": SITES,
            "shape": [1, 8, 8],
            "classes": 10,
            "scale": 16.0,
        },
    }


MLP = {"name": "mlp", "widths": [128]}


def grid(rounds: int, folder: Path) -> dict[str, Any]:
    """Measure both apps on one grid, in turns."""
    loopback = loaded(ROOT / "tests" / "flower" / "_loopback.py")
    fedavg = loaded(HERE / "fedavg" / "fedavg.py")
    made = loopback.Deployed(folder, experiment(rounds, MLP))
    desk = made.reception()
    desk.say = lambda text: None
    desk.gather(10)
    theirs = loopback.Loopback([{"partition-id": k} for k in range(10)])
    theirs.app = fedavg.client
    strategy = fedavg.Timed(str(folder / "times"))
    arrays = fedavg.ArrayRecord(fedavg.network().state_dict())

    def mine() -> None:
        line = json.dumps(desk.round())
        made.hub.save(folder, rounds=len(line))

    def other(r: int) -> None:
        nonlocal arrays
        out = strategy.configure_train(r, arrays, fedavg.ConfigRecord(), theirs)
        replies = theirs.send_and_receive(out)
        found, _ = strategy.aggregate_train(r, replies)
        arrays = found

    found: dict[str, list[float]] = {"troth": [], "flower": []}
    for r in range(rounds):
        found["troth"].append(timed(mine))
        found["flower"].append(timed(lambda r=r: other(r + 1)))
    return {k: v[3:] for k, v in found.items()}  # the first ones load data


def timed(work: Callable[[], None]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def processes(rounds: int, folder: Path) -> dict[str, Any]:
    """Measure both systems as processes, one after the other."""
    return {
        "troth": our_processes(rounds, folder / "troth"),
        "flower": their_processes(max(4, rounds // 8), folder / "flower"),
    }


def our_processes(rounds: int, folder: Path) -> list[float]:
    """Return the seconds between the ends of rounds."""
    folder.mkdir()
    example = loaded(ROOT / "examples" / "hospitals" / "run.py")
    (folder / "e.toml").write_text(reader.dumps(experiment(rounds, MLP)))
    port, ends = str(example.free_port()), []
    flags = ["--out", "out", "--host", "127.0.0.1", "--port", port, "--insecure"]
    ours = [example.start(folder, "server", "e.toml", *flags)]
    try:
        for name in SITES:
            flags = ["--server", f"127.0.0.1:{port}", "--name", name, "--insecure"]
            flags += ["--data", "experiment", "--state", name]
            ours.append(example.start(folder, "client", "e.toml", *flags, log=name))
        while ours[0].poll() is None:
            if example.rounds(folder / "out") > len(ends):
                ends.append(time.monotonic())
            time.sleep(0.005)
    finally:
        for process in ours:
            process.kill()
            process.wait()
    return apart(ends)


def their_processes(rounds: int, folder: Path) -> list[float]:
    """Return the seconds between the beginnings of rounds."""
    folder.mkdir()
    example = loaded(ROOT / "examples" / "hospitals" / "run.py")
    port, times = example.free_port(), folder / "times"
    text = f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    text = f'[superlink]\ndefault = "here"\n[superlink.here]\n{text}'
    (folder / "config.toml").write_text(text)
    bin_ = Path(sys.executable).parent
    env = {**os.environ, "FLWR_HOME": str(folder), "FLWR_TELEMETRY_ENABLED": "0"}
    env["PATH"] = f"{bin_}{os.pathsep}{env['PATH']}"

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (folder / f"{words[0]}.log").open("ab") as log:
            group: Any = {"start_new_session": True, "env": env}
            return subprocess.Popen(words, stdout=log, stderr=log, **group)

    ours = [start("flower-superlink", "--insecure", "--port", str(port))]
    time.sleep(8)
    for k in range(10):
        words = ["--insecure", "--superlink", f"127.0.0.1:{port}"]
        words += ["--port", str(example.free_port())]
        ours.append(
            start("flower-supernode", *words, "--node-config", f"partition-id={k}")
        )
    told = f'rounds={rounds} times="{times}"'
    try:
        time.sleep(25)
        run = ["flwr", "run", str(HERE / "fedavg"), "here", "--run-config", told]
        subprocess.run([*run, "--stream"], env=env, timeout=900, check=True)
    finally:
        for process in ours:
            os.killpg(process.pid, 9)
            process.wait()
    return apart([float(line) for line in times.read_text().split()])


def apart(moments: list[float]) -> list[float]:
    """Between neighbors, without the first, in which data are loaded."""
    return [b - a for a, b in zip(moments[1:], moments[2:], strict=False)]


def wire(folder: Path) -> dict[str, Any]:
    """Bytes of the records of a message, each way, beside the model's.

    Beside them travel the message's own envelope (`…_envelope`) and what HTTP adds.
    """
    loopback = loaded(ROOT / "tests" / "flower" / "_loopback.py")
    from troth.deployment.flower import records

    folder.mkdir()
    made = loopback.Deployed(folder, experiment(2, MLP))
    sent: Broadcast = made.hub.outgoing()
    down = Message(records.sent(sent, made.hub.expected()), 100, "train")
    [key] = made.grid.push_messages([down])
    [up] = made.grid.pull_messages([key])
    model = sent.w.numel() * sent.w.itemsize
    found: dict[str, Any] = {"model": model}
    for name, message in (("down", down), ("up", up)):
        pieces = get_all_nested_objects(message)
        envelope = len(pieces.pop(message.object_id).deflate())
        found[name] = sum(len(piece.deflate()) for piece in pieces.values())
        found[f"{name}_ratio"] = found[name] / model
        found[f"{name}_envelope"] = envelope
    return found


def main() -> None:
    """Measure, print and write the raw numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["grid", "processes"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found = {"grid": grid, "processes": processes}[given.how](given.rounds, place)
        middle = {k: statistics.median(v) for k, v in found.items()}
        told = {
            "how": given.how,
            "median_s": middle,
            "ratio": middle["troth"] / middle["flower"],
            "wire": wire(place / "wire"),
            "rounds_s": found,
            **machine.facts("cpu"),
        }
    print(json.dumps({k: v for k, v in told.items() if k != "rounds_s"}, indent=1))
    if given.out:
        given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
