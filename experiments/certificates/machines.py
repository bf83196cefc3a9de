"""Test whether two machines count the same votes, with one small model and fixed n.

    python experiments/certificates/machines.py --device cpu
    python experiments/certificates/machines.py --compare cpu cuda
    python experiments/certificates/machines.py --train   # train small.safetensors

The model is `small.safetensors` in this folder, the same for all machines: a CNN that
was trained on MNIST under noise and rotations. The noise depends only on (seed, image,
sample), so that votes differ only where rounding decides between two nearly equal
scores.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import Changes, markdown
from smoothed import opened, tested

import troth
from troth import files
from troth.reproduce.store import Store

FILE = ROOT / "small.safetensors"
NETWORK: Changes = {"name": "cnn", "channels": [8, 16], "widths": [32]}
SIGMAS = {"pixel": 0.5, "rotation": math.pi / 2}
PRECISIONS = ("float32", "bfloat16")
IMAGES, SAMPLES = 200, 1000
HEAD = ("", "images", "samples each", "counts that differ", "by at most")
HEAD += ("votes moved, of a million", "other classes", "radius differs by at most")


def train() -> None:
    """Train the model: one client, two rounds of one epoch, on one thread of a CPU."""
    torch.set_num_threads(1)
    parts = {"noise": SIGMAS["pixel"], "rotation": SIGMAS["rotation"]}
    augment = [{"name": name, "sigma": sigma} for name, sigma in parts.items()]
    sections: Changes = {
        "data": "mnist",
        "partition": {"name": "iid", "clients": 1, "split": "given"},
        "model": NETWORK,
        "train": {"rounds": 2, "epochs": 1, "batch": 64, "lr": 0.1, "augment": augment},
        "evaluate": {"every": 2},
        "engine": {"how": "loop", "device": "cpu"},
    }
    with tempfile.TemporaryDirectory() as place:
        (run,) = troth.run(sections, out=Path(place) / "run")
        print(f"accuracy {run.summary['shared']['accuracy_mean']:.4f}")
        files.save(FILE, run.shared().state_dict())


def counted(device: str, images: int, n: int) -> dict[str, Any]:
    """Certify the first test images, for every change and precision."""
    x, _ = tested("mnist", images)
    classify = opened(FILE, NETWORK, tuple(x.shape[1:])).to(device)
    found: dict[str, Any] = {"device": device, "torch": torch.__version__}
    found |= {"images": images, "n": n, "sigma": SIGMAS, "certificates": {}}
    for transform, sigma in SIGMAS.items():
        for precision in PRECISIONS:
            began = time.perf_counter()
            settings = {"transform": transform, "sigma": sigma, "n": n}
            made = troth.certify(classify, x, precision=precision, **settings)
            said = {name: getattr(made, name) for name in ("label", "votes", "radius")}
            said["seconds"] = round(time.perf_counter() - began, 1)
            said["compiled"] = made.record["compiled"]
            found["parameters"] = made.record["parameters"]
            found["certificates"][f"{transform}, {precision}"] = said
    return found


def compared(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Return a table of differences, one line per change and precision."""
    for name in ("images", "n", "sigma", "parameters"):
        if a[name] != b[name]:
            raise SystemExit(
                f"{name} is {a[name]} in one file and {b[name]} in another"
            )
    lines = []
    for label, one in a["certificates"].items():
        other = b["certificates"][label]
        off = np.abs(np.subtract(one["votes"], other["votes"]))
        apart = np.abs(np.subtract(one["radius"], other["radius"])).max()
        classes = int(np.not_equal(one["label"], other["label"]).sum())
        share = 1e6 * off.sum() / (a["n"] * a["images"])
        cells = [a["images"], a["n"], (off > 0).sum(), off.max(), f"{share:.1f}"]
        lines.append([label, *map(str, cells), str(classes), f"{apart:.1e}"])
    return markdown(HEAD, lines)


def read(device: str) -> dict[str, Any]:
    """Return the record of a machine."""
    return Store(ROOT).records()[f"machines/{device}"]


def table() -> str:
    """Compare a CPU with an H200, as the page does; empty unless both have results."""
    there = len(Store(ROOT).find("machines/c*")) == 2
    return compared(read("cpu"), read("cuda")) if there else ""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--n", type=int, default=SAMPLES)
    parser.add_argument("--out", type=Path, default=ROOT)
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"))
    parser.add_argument("--train", action="store_true", help="train the model again")
    given = parser.parse_args()
    if given.train:
        train()
    elif given.compare:
        print(compared(*map(read, given.compare)))
    else:
        found = counted(given.device, given.images, given.n)
        name = f"machines/{torch.device(given.device).type}"
        print(Store(given.out).put(name, found))


if __name__ == "__main__":
    main()
