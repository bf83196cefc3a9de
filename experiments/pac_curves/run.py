"""Local PAC* learning as curves: how many examples until a user has its own model.

python experiments/pac_curves/run.py
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from troth import theory
from troth.reproduce.store import Store

ROOT = Path(__file__).parent
POINTS = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000]
TRIALS = 20
COLOURS = {"l2sq": "#0072B2", "l2": "#D55E00", "smooth_l2": "#009E73"}
PANELS = [
    ("linear", 1.0, "linear, noise σ = 1"),
    ("linear", 0.0, "linear, no noise"),
    ("logistic", 1.0, "logistic"),
]


def curves() -> list[dict[str, Any]]:
    """Return every panel's curves: the root mean square over trials, and the rate."""
    found = []
    for kind, noise, title in PANELS:
        for distance in COLOURS:
            users = theory.Users(noise=noise)
            trials = TRIALS if noise else 3
            curve = theory.pac_curve(kind, distance, POINTS, users=users, trials=trials)
            rms = np.sqrt((curve.distance**2).mean(axis=1))
            rate = np.polyfit(np.log(POINTS[-3:]), np.log(rms[-3:]), 1)[0]
            found.append(
                {
                    "kind": kind,
                    "title": title,
                    "regularizer": distance,
                    "users": users._asdict(),
                    "trials": trials,
                    "examples": POINTS,
                    "rms": rms.tolist(),
                    "worst": curve.distance.max(axis=1).tolist(),
                    "rate": float(rate),
                }
            )
    return found


def draw(found: list[dict[str, Any]]) -> None:
    """Draw one panel per regression and one line per regularizer, the theory dashed."""
    plot, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True, layout="constrained")
    many = np.array(POINTS[3:], float)
    for ax, (kind, noise, title) in zip(axes, PANELS, strict=True):
        for one in (c for c in found if c["title"] == title):
            name = one["regularizer"]
            ax.loglog(POINTS, one["rms"], "o-", color=COLOURS[name], label=name, ms=4)
        if noise:
            constant = theory.pac_constant(kind, np.array([2.0, 0, 0]), noise)
            ax.loglog(many, constant / np.sqrt(many), "k--", label="c/√I")
        else:
            ax.loglog(many, 100 / many, "k--", label="∝ 1/I")
        ax.set_title(title)
        ax.set_xlabel("examples of the honest user, I")
        ax.grid(alpha=0.3)
        ax.legend()
    axes[0].set_ylabel("‖θ* − θ†‖")
    plot.savefig(ROOT / "pac.png", dpi=130)


def table(found: list[dict[str, Any]]) -> str:
    """Return Markdown: distances at some numbers of examples, and the final rate."""
    shown = [10, 100, 1000, 10_000]
    lines = [
        "| regression | regularizer | "
        + " | ".join(f"{m:,}" for m in shown)
        + " | rate |",
        "|---|---|" + "---|" * (len(shown) + 1),
    ]
    for one in found:
        at = [f"{one['rms'][POINTS.index(m)]:.4f}" for m in shown]
        words = [one["title"], f"`{one['regularizer']}`", *at, f"{one['rate']:.2f}"]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def main() -> None:
    """Compute, save, draw and print."""
    start = time.perf_counter()
    found = curves()
    Store(ROOT).put("curves", {"rows": found})
    draw(found)
    print(table(found))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
