"""Measure the time of FedAvg in Troth and in other systems, each in its own process.

    python benchmarks/peers/run.py --out benchmarks/results/peers_cpu.json

Systems that are not installed are skipped. `--python pfl=PATH` sets the Python
interpreter of another environment. Systems take turns, so that a busy moment affects
all of them. On a busy machine, set OMP_NUM_THREADS=1 and use `--clock cpu`: processor
time does not depend on other programs. Do not use it for a system with several
processes. `PEERS_ROUNDS` sets the number of rounds: more of them on a GPU.
"""

import argparse
import importlib
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from workloads import ABOUT, WARM, WORKLOADS, client_steps, now

HERE = Path(__file__).parent
NEEDS = {"troth": "troth", "loop": "torch", "pfl": "pfl", "fedjax": "fedjax"}


def measure(system: str, work: str, device: str, precision: str) -> None:
    """Measure one system in this process, and print one line of JSON."""
    began = now()
    module = importlib.import_module("loop" if system == "loop" else f"{system}_")
    ends = module.seconds(work, device, precision)
    ends = ends[-WORKLOADS[work].rounds :]  # a watcher may be called before the first
    rounds = [b - a for a, b in itertools.pairwise(ends)][WARM - 1 :]
    if os.environ.get("RANK", "0") == "0":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        per_step = statistics.median(rounds) / client_steps(work) * 1e6
        found = {"system": system, "workload": work, "rounds_s": rounds}
        found |= {"us_per_client_step": per_step, "peak_gb": peak}
        found |= {"fastest_us": min(rounds) / client_steps(work) * 1e6}
        found |= {"device": device, "precision": precision}
        print(json.dumps(found | {"first_round_s": ends[0] - began}), flush=True)


def started(system: str, work: str, given: argparse.Namespace) -> dict[str, object]:
    """Measure one system in a new process; return {} if it is not installed."""
    python = dict(pair.split("=") for pair in given.python).get(system, sys.executable)
    probe = subprocess.run(
        [python, "-c", f"import {NEEDS[system]}"], capture_output=True
    )
    if probe.returncode:
        return {}
    command = [python, str(HERE / "run.py"), "--one", system, work]
    command += ["--device", given.device, "--precision", given.precision]
    variables = {**os.environ, "PEERS_CLOCK": given.clock}
    if system == "pfl" and given.processes > 1:
        several = ["-m", "torch.distributed.run", f"--nproc-per-node={given.processes}"]
        command[1:1] = several
        variables["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"system"')]
    if not lines:
        sys.exit(f"{system} on {work} failed:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Measure all systems, print a table and write the raw numbers."""
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("--out", type=Path, help="file for the raw numbers (JSON)")
    ask.add_argument("--systems", nargs="*", default=[*NEEDS])
    ask.add_argument("--workloads", nargs="*", default=[*WORKLOADS])
    ask.add_argument("--repeats", type=int, default=1)
    ask.add_argument("--device", default="auto")
    ask.add_argument("--precision", default="float32", help="float32, or tf32 on a GPU")
    ask.add_argument(
        "--processes", type=int, default=2, help="processes of pfl-research"
    )
    ask.add_argument("--python", nargs="*", default=[], metavar="SYSTEM=PATH")
    ask.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    ask.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = ask.parse_args()
    if given.one:
        measure(*given.one, given.device, given.precision)
        return
    found = []
    for work in given.workloads:
        print(f"{work}: {ABOUT[work]}")
        for _ in range(given.repeats):
            for system in given.systems:
                one = started(system, work, given)
                if one:
                    found.append(one)
                    print(
                        f"  {system:7} {one['us_per_client_step']:10.1f} µs per client-"
                        f"step, first round after {one['first_round_s']:.1f} s, "
                        f"{one['peak_gb']:.2f} GB",
                        flush=True,
                    )
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
