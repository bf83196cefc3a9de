"""Compare adaptive samples with n fixed ones: certified accuracy and number of samples.

    python experiments/certificates/adaptive.py small mnist cifar10 --device cuda

Ten radii, evenly over [0, 3σ] (over [0, σ] for rotations, which end there), are tested
on the same images. All are decided from one sequence of samples, which has at most a
tenth more than n (`--more`). The last stage of the sequence has half of α, as
docs/explanation/derivations/certify.md derives. `small` is the model of machines.py.
The others are the models of client 0 after `mnist_nominal` and `cifar10_nominal` for
noise, which run.py saves under `models/`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

import common
import machines
from common import Changes, markdown
from smoothed import MODELS, NETWORKS, SIGMA, opened, tested

import troth
from troth.reproduce.store import Store

RADII = 10
HEAD = ("model", "change", "images", "n", "adaptive, up to", "certified at 0")
HEAD += ("in the middle", "largest difference", "samples, adaptive", "times fewer")


class Asked(NamedTuple):
    """A model, and the noise with which it is smoothed."""

    file: Path
    network: Changes
    data: str
    sigmas: dict[str, float]  # by transform
    precision: str = "float32"


def _own(data: str, precision: str) -> Asked:
    file = common.place(MODELS, f"{data}, nominal, client 0", 0)
    sigmas = {"pixel": SIGMA[data]["noise"]}
    return Asked(file, NETWORKS[data], data, sigmas, precision)


MODELS_ASKED = {
    "small": Asked(machines.FILE, machines.NETWORK, "mnist", machines.SIGMAS),
    "mnist": _own("mnist", "float32"),
    "cifar10": _own("cifar10", "bfloat16"),
}


def grid(transform: str, sigma: float) -> list[float]:
    """Return ten radii at equal distances."""
    most = sigma if transform == "rotation" else 3 * sigma
    return np.linspace(0, most, RADII).tolist()


def answered(
    model: Asked, transform: str, images: int, n: int, most: int, device: str
) -> dict[str, Any]:
    """Return certified accuracy from n samples per image, and from adaptive ones."""
    x, y = tested(model.data, images)
    classify = opened(model.file, model.network, tuple(x.shape[1:])).to(device)
    if device.startswith("cuda"):
        classify = classify.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sigma = model.sigmas[transform]
    radii = grid(transform, sigma)
    found: dict[str, Any] = {"transform": transform, "radii": radii, "images": images}
    for samples in ("fixed", "adaptive"):
        more: Changes = {"n": n}
        if samples == "adaptive":
            more = {"n": most, "radii": radii}
        began = time.perf_counter()
        made = troth.certify(
            classify,
            x,
            transform=transform,
            sigma=sigma,
            samples=samples,
            precision=model.precision,
            **more,
        )
        found[samples] = {
            "accuracy": made.accuracy(y, radii),
            "used": made.used.mean(),
            "seconds": round(time.perf_counter() - began, 1),
            "settings": made.record,
        }
    both = [np.array(found[name]["accuracy"]) for name in ("fixed", "adaptive")]
    found["difference"] = np.abs(both[0] - both[1]).max()
    found["fewer"] = found["fixed"]["used"] / found["adaptive"]["used"]
    return found


def table() -> str:
    """Return the table of the results, as the page has it; empty if there are none."""
    lines = []
    for said in Store(ROOT).find("adaptive/*"):
        a = said["adaptive"]
        every = [said[way]["settings"]["n"] for way in ("fixed", "adaptive")]
        cells = [said["images"], *(f"{n:,}" for n in every)]
        cells += [f"{a['accuracy'][0]:.3f}", f"{a['accuracy'][RADII // 2]:.3f}"]
        cells += [f"{said['difference']:.4f}", f"{a['used']:,.0f}"]
        cells.append(f"{said['fewer']:.1f}")
        lines.append([said["model"], said["transform"], *map(str, cells)])
    return markdown(HEAD, lines) if lines else ""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", help=", ".join(MODELS_ASKED))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--more", type=float, default=1.1)
    parser.add_argument("--out", type=Path, default=ROOT)
    given = parser.parse_args()
    for name in given.models or MODELS_ASKED:
        model = MODELS_ASKED[name]
        if not model.file.exists():
            print(f"{model.file.name} is missing, for {name}", flush=True)
            continue
        for transform in model.sigmas:
            most = round(given.more * given.n)
            asked = model, transform, given.images, given.n, most, given.device
            found = answered(*asked)
            label = f"{name}, {transform}, up to {most}"
            Store(given.out).put(f"adaptive/{label}", {"model": name, **found})
            print(f"{label}: {found['difference']:.4f}, {found['fewer']:.1f} times")


if __name__ == "__main__":
    main()
