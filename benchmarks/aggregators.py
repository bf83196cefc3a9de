"""Measure time and memory of every aggregator and filter, and compare with byzfl.

    python benchmarks/aggregators.py [--rows 100] [--columns 1000000] [--device cuda]
        [--only krum,median] [--repeat 3] [--patience 120] [--json FILE.json]

Rules are found by lookup; a fifth of the rows may be hostile (3 for mda), losses are
random. On a CPU every rule has a process of its own, so that the high-water mark of its
resident memory is the rule's; on CUDA the peak is that of torch's allocator. The time
is that of the fastest of the repetitions: other work on a machine only adds to it.

byzfl (0.0.11, where it is installed) gets the same matrix, as a tensor or, where that
is faster, as a numpy array; what takes it longer than --patience is stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import byzfl_rules
from troth import lookup
from troth.server import rules
from troth.types import Broadcast, Messages, Refusal

OPTIONS: dict[str, dict[str, Any]] = {
    "mda": {"f": 3},
    "centered_clipping": {"tau": 100.0},
}
"""Options that a rule needs. `f` is set to a fifth of the rows where a rule has it."""

PEERS: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "mean": ("Average", lambda f: {}),
    "median": ("Median", lambda f: {}),
    "trimmed_mean": ("TrMean", lambda f: {"f": f}),
    "geometric_median": ("GeometricMedian", lambda f: {}),
    "krum": ("Krum", lambda f: {"f": f}),
    "multi_krum": ("MultiKrum", lambda f: {"f": f}),
    "centered_clipping": ("CenteredClipping", lambda f: {"tau": 100.0}),
    "mda": ("MDA", lambda f: {"f": 3}),
    "meamed": ("Meamed", lambda f: {"f": f}),
}
"""Name and options of the same rule in byzfl. (Its NNM would store n matrices.)"""

SORTS = ("mean", "median", "trimmed_mean", "meamed")
"""Rules that byzfl may do faster on numpy arrays than on tensors."""

LIMITS = {
    "cpu": {"": 5.0, "bulyan": 20.0, "geometric_median": 20.0},
    "cuda": {"": 0.1, "bulyan": math.inf, "mda": math.inf},
}
"""Seconds at [100, 1,000,000] on two cores, and at [100, 3,274,634] on an H200."""


def ours(name: str, update: torch.Tensor) -> Callable[[], Any]:
    """Return a rule of Troth as a function of the matrix."""
    kind = "filter" if name in lookup.names("filter") else "aggregator"
    options = {**OPTIONS.get(name, {})}
    if "f" in lookup.options(lookup.find(kind, name)):
        options.setdefault("f", len(update) // 5)
    rule = rules.lift(kind, name, lookup.check(kind, name, options))
    n, device = len(update), update.device
    loss = torch.rand(n, generator=torch.Generator().manual_seed(1)).to(device)
    empty = update.new_zeros
    counts = torch.ones(n, dtype=torch.long, device=device)
    clients = torch.arange(n, device=device)
    context = {
        "broadcast": Broadcast(empty(update.shape[1]), empty(0), update.new_ones(())),
        "messages": Messages(update, empty(n, 0), loss, counts, clients),
        "loss": loss,
        "key": torch.zeros((), dtype=torch.long, device=device),
        "round_": 0,
    }
    return lambda: rule(rules.no_memory(device), **context)


def theirs(name: str, update: torch.Tensor, form: str) -> Callable[[], Any]:
    """Return the same rule of byzfl."""
    modules = byzfl_rules.byzfl()
    assert modules is not None
    rule, options = PEERS[name]
    given = update.numpy() if form == "numpy" else update
    make = getattr(modules.aggregators, rule)
    return lambda: make(**options(len(update) // 5))(given)


def matrix(rows: int, columns: int, device: str) -> torch.Tensor:
    """Draw a matrix of normal random numbers."""
    source = torch.Generator(device).manual_seed(0)
    return torch.randn(rows, columns, generator=source, device=device)


def peak(device: str) -> int:
    """Return the peak memory so far, in bytes."""
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure(name: str, of: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of all repetitions, and peak memory without the matrix."""

    def ready(update: torch.Tensor) -> Callable[[], Any]:
        return ours(name, update) if of == "troth" else theirs(name, update, of)

    ready(matrix(given.rows, 2, given.device))()  # loads what is loaded late
    update = matrix(given.rows, given.columns, given.device)
    call = ready(update)
    if given.device != "cpu":
        call()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    before, seconds = peak(given.device), []
    while len(seconds) < given.repeat or (sum(seconds) < 1 and len(seconds) < 30):
        start = time.perf_counter()
        call()
        if given.device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    extra = peak(given.device) - before
    return {"seconds": seconds, "best": min(seconds), "extra": extra / update.nbytes}


def apart(name: str, of: str, given: argparse.Namespace) -> dict[str, Any]:
    """Measure in a new process; return the result, or the reason of a failure."""
    command = [sys.executable, __file__, "--one", name, "--of", of]
    for option in ("rows", "columns", "device", "repeat", "threads"):
        command += [f"--{option}", str(getattr(given, option))]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=given.patience if of != "troth" else None,
        )
    except subprocess.TimeoutExpired:
        return {"why": f"> {given.patience:.0f} s"}
    if done.returncode:
        return {"why": (done.stderr.strip().splitlines() or ["it was stopped"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def attempt(name: str, of: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return a measurement, or the reason why there is none."""
    if given.device == "cpu" or of != "troth":  # byzfl may have to be stopped
        return apart(name, of, given)
    try:
        return measure(name, of, given)
    except (Refusal, RuntimeError, TypeError) as error:
        return {"why": str(error).splitlines()[0]}
    finally:
        torch.cuda.empty_cache()


def compare(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return a row of the table: our rule, and the faster of byzfl's two ways."""
    row: dict[str, Any] = {"rule": name, "troth": attempt(name, "troth", given)}
    if name in PEERS and byzfl_rules.byzfl() and not given.alone:
        both = given.device == "cpu" and name in SORTS
        forms = ["torch", "numpy"] if both else ["torch"]
        found = [{"as": form, **attempt(name, form, given)} for form in forms]
        row["byzfl"] = min(found, key=lambda one: one.get("best", math.inf))
    return row


def line(row: dict[str, Any], limit: float) -> str:
    """Format a row of the table; `!` marks a missed goal."""
    own, peer = row["troth"], row.get("byzfl", {})
    if "best" not in own:
        return f"{row['rule']:<19}  {own['why']}"
    parts = [f"{row['rule']:<19}{own['best']:>9.4f}{own['extra']:>9.2f}"]
    missed = own["best"] > limit or own["extra"] > 2
    if "best" in peer:
        ratio = own["best"] / peer["best"]
        parts.append(f"{peer['best']:>9.4f}{peer['extra']:>9.2f}{ratio:>8.2f}")
        parts.append(f"  {peer['as']}")
        missed = missed or ratio > 1.1
    elif peer:
        parts.append(f"  {peer['why']}")
    return "".join(parts) + ("  !" if missed else "")


def main() -> None:
    """Measure, print, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--columns", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--alone", action="store_true", help="leave byzfl out")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--patience", type=float, default=120, help="s for byzfl")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    if given.one:
        print(json.dumps(measure(given.one, given.of, given)))
        return
    known = [*lookup.names("aggregator"), *lookup.names("filter")]
    names = given.only.split(",") if given.only else known
    limits = LIMITS[given.device.split(":")[0]]
    print(f"[{given.rows}, {given.columns:,}] float32, {given.device}")
    head = ("rule", "s", "extra ×", "byzfl s", "extra ×", "ratio")
    print("{:<19}{:>9}{:>9}{:>9}{:>9}{:>8}".format(*head))
    table = []
    for name in names:
        table.append(compare(name, given))
        print(line(table[-1], limits.get(name, limits[""])), flush=True)
    if given.json:
        facts = {
            "machine": torch.cuda.get_device_name()
            if given.device != "cpu"
            else f"{platform.machine()}, {torch.get_num_threads()} threads",
            "torch": torch.__version__,
            "shape": [given.rows, given.columns],
            "rules": table,
        }
        given.json.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
