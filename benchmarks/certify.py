"""Compare the samples per second of `certify` with those of the bare forward pass.

python benchmarks/certify.py [--model resnet18] [--precision bfloat16] [--out FILE.json]

For every batch: the bare forward pass on inputs that lie ready, channels-last, and the
same network in `troth.certify` with tiles of that size, noise, votes and counting
included; each plain and compiled, the best of several repetitions, by turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from troth import lookup
from troth.certificates import certify as certifier
from troth.certificates.sampling import Tiles
from troth.certificates.smoothing import Smoothing
from troth.engine import vmap
from troth.networks.kernels import precision

SHAPES = {"resnet18": (3, 32, 32), "cnn": (1, 28, 28)}
SIGMA, TIMES = 0.25, 3


def waited(device: torch.device) -> float:
    """Return the time after all work on the device is finished."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def rate(work: Callable[[], int], device: torch.device, seconds: float) -> float:
    """Return samples per second in the best repetition; `work` returns their number."""
    work()  # traces and compiles
    best = 0.0
    for _ in range(TIMES):
        began, done = waited(device), 0
        while waited(device) - began < seconds:
            done += work()
        best = max(best, done / (waited(device) - began))
    return best


def bare(net: nn.Module, s: Smoothing, x: Tensor, compiled: bool) -> Callable[[], int]:
    """Apply the network alone to a prepared batch, as often as for one certificate."""
    low, kind = s.precision == "bfloat16", x.device.type
    ready = x.expand(s.tile, *x.shape[1:]).contiguous(memory_format=torch.channels_last)

    def forward(x: Tensor) -> Tensor:
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=low):
            out: Tensor = net(x)
        return out

    run = vmap.compiled(forward) if compiled else forward

    def work() -> int:
        with torch.no_grad(), precision.products("float32", x.device):
            for _ in range(s.n // s.tile):
                run(ready)
        return s.n

    return work


def ours(net: nn.Module, s: Smoothing, x: Tensor, compiled: bool) -> Callable[[], int]:
    """Compute one certificate."""
    tiles = Tiles(net, s, x.device, compiled)

    def work() -> int:
        list(certifier.each(tiles, x, [0]))
        return s.n0 + s.n

    return work


def measure(
    net: nn.Module, s: Smoothing, x: Tensor, compiled: bool, seconds: float
) -> dict[str, Any]:
    """Measure both for one batch size."""
    row: dict[str, Any] = {"batch": s.tile, "compiled": compiled}
    for name, kind in (("bare", bare), ("certify", ours)):
        row[name] = rate(kind(net, s, x, compiled), x.device, seconds)
    row["share"] = row["certify"] / row["bare"]
    return row


def main() -> None:
    """Measure all batch sizes, print a table and write the raw numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    cuda = torch.cuda.is_available()
    parser.add_argument("--model", default="resnet18" if cuda else "cnn")
    parser.add_argument("--precision", default="bfloat16" if cuda else "float32")
    parser.add_argument("--transform", default="pixel")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    batches = [500, 1000, 2000, 4000, 5000] if cuda else [250, 500, 1000]
    parser.add_argument("--batches", type=int, nargs="+", default=batches)
    parser.add_argument("--tiles", type=int, default=100 if cuda else 4)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--compile", choices=["yes", "no", "both"], default="both")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    device, shape = torch.device(a.device), SHAPES[a.model]
    net = lookup.find("model", a.model)(shape=shape, classes=10).eval().to(device)
    net = net.to(memory_format=torch.channels_last)
    x = torch.full((1, *shape), 0.5, device=device)
    rows = []
    for compiled in {"yes": [True], "no": [False], "both": [False, True]}[a.compile]:
        for batch in a.batches:
            s = Smoothing(
                a.transform,
                SIGMA,
                n=a.tiles * batch,
                tile=batch,
                precision=a.precision,
            )
            rows.append(measure(net, s, x, compiled, a.seconds))
            print(json.dumps(rows[-1]), flush=True)
    best = {k: max(row[k] for row in rows) for k in ("bare", "certify")}
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    out = {"best": best | {"share": best["certify"] / best["bare"]}, "rows": rows}
    out |= {k: getattr(a, k) for k in ("model", "precision", "transform", "tiles")}
    out |= {"device": name, "torch": torch.__version__}
    print(json.dumps(out["best"]))
    if a.out:
        a.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
