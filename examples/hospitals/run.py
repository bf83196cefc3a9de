"""Run four hospitals as processes on this machine; one attacks, and one is killed.

    python examples/hospitals/run.py FOLDER

The script needs `troth[flower]` and the data set `heart_disease`
(`troth data heart_disease`). It starts the same commands that people start on their own
machines: `troth server`, and `troth client` at each hospital.
"""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from troth.config import reader
from troth.data.datasets.heart_disease import HOSPITALS, heart_disease

TOML = Path(__file__).with_name("hospitals.toml")
HOSTILE, DIES = "va", "switzerland"
TROTH = [sys.executable, "-c", "from troth.cli.app import main; main()"]


def main(folder: Path, seed: int = 0, drill: bool = True, limit: float = 300.0) -> Path:
    """Train, and return the folder of the server's run.

    Args:
        folder: Folder for all files.
        seed: Seed of the experiment; it also determines the split of the data.
        drill: Whether one hospital sends attack A3 and another is killed in round 3.
        limit: Seconds after which all processes are ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tree = {**reader.read(TOML), "seed": seed}
    if drill:  # all have the same file, and `va` carries out the attack
        tree["adversary"] = {"clients": [list(HOSPITALS).index(HOSTILE)]}
        tree["attack"] = {"name": "model_replacement"}
    (folder / "experiment.toml").write_text(reader.dumps(tree))
    patients = heart_disease()
    for k, name in enumerate(HOSPITALS):
        mine = patients.owner == k
        np.savez(folder / f"{name}.npz", x=patients.x[mine], y=patients.y[mine])
    port, out = free_port(), folder / "out"
    ours = {name: client(folder, name, port) for name in HOSPITALS}
    flags = ["--out", "out", "--host", "127.0.0.1", "--port", str(port), "--insecure"]
    ours["server"] = start(folder, "server", "experiment.toml", *flags)
    end, killed = time.monotonic() + limit, not drill
    try:
        while ours["server"].poll() is None and time.monotonic() < end:
            if not killed and rounds(out) == 2:
                ours[DIES].send_signal(signal.SIGKILL)
                ours[DIES].wait()
                ours[DIES], killed = client(folder, DIES, port), True
            time.sleep(0.2)
    finally:
        for process in ours.values():
            process.kill()
            process.wait()
    return out


def client(folder: Path, name: str, port: int) -> subprocess.Popen[bytes]:
    """Start the client of a hospital."""
    flags = ["--server", f"127.0.0.1:{port}", "--name", name, "--insecure"]
    flags += ["--data", f"{name}.npz", "--state", name]
    return start(folder, "client", "experiment.toml", *flags, log=name)


def start(folder: Path, *words: str, log: str = "server") -> subprocess.Popen[bytes]:
    """Start a command of troth as a process that writes into a log file."""
    with (folder / f"{log}.log").open("ab") as out:
        command = [*TROTH, *words]
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)


def free_port() -> int:
    """Return a port of this machine that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rounds(out: Path) -> int:
    """Return the number of finished rounds."""
    file = out / "rounds.jsonl"
    return len(file.read_bytes().splitlines()) if file.exists() else 0


def honest(file: Path, column: str) -> float:
    """Return the mean of a column over honest hospitals, weighted by test examples.

    Args:
        file: The `clients.csv` of a run.
        column: `personal_accuracy` for a server's run, `accuracy` for a simulation.
    """
    with file.open() as lines:
        rows = {int(row["client"]): row for row in csv.DictReader(lines)}
    ok = [row for k, row in rows.items() if list(HOSPITALS)[k] != HOSTILE]
    size = np.array([float(row["test"]) for row in ok])
    found = np.array([float(row[column]) for row in ok])
    return float((found * size).sum() / size.sum())


if __name__ == "__main__":
    out = main(Path(sys.argv[1]))
    found = json.loads((out / "summary.json").read_text())
    print("farthest from what was aggregated:")
    for site in found["farthest"]:
        print(f"  {site['name']:12} {site['distance']:.2f}")
    own, shared = (
        honest(out / "clients.csv", f"{kind}_accuracy")
        for kind in ("personal", "shared")
    )
    print(f"accuracy of the honest hospitals: {own:.3f} of own models,")
    print(f"                                  {shared:.3f} of the shared one")
