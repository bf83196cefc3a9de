"""Draw the picture of every personalizer's page: how well each client is served.

`python docs/reference/personalizers/plots.py` trains the example of every page on one
small federation, a few seconds each, and writes the pictures next to the pages. Names
of personalizers as arguments train only these.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import troth
from troth import lookup

HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = {
    "seed": 0,
    "data": "digits",
    "partition": {
        "name": "classes",
        "clients": 20,
        "per_client": 4,
        "split": [0.15, 0.1, 0.75],
    },
    "model": {"name": "celeba_cnn", "channels": 8, "blocks": 2},
    "train": {"rounds": 30, "cohort": 10, "epochs": 2, "batch": 8, "lr": 0.1},
    "evaluate": {"every": 30},
}
"""Settings of all runs; the model has a normalization layer, for `fedbn`."""

GROUPED = ("upweight", "group_dro")
"""Personalizers that need groups. Their data have colors as a shortcut, and their
pictures show the accuracy where the shortcut misleads."""

SHORTCUT = SETTINGS | {
    "data": {"name": "colored", "base": "digits", "correlation": 0.9},
    "partition": SETTINGS["partition"] | {"split": [0.5, 0.1, 0.4]},
}
SHARED, LOCAL = "none", "local"
STYLES = {
    SHARED: {"color": "#999999", "ls": "--", "label": "shared model"},
    LOCAL: {"color": "#D55E00", "ls": ":", "label": "local training"},
}


def example(name: str) -> dict[str, Any]:
    """Return the `[personalizer]` of the example on a method's page."""
    page = (HERE / f"{name}.md").read_text("utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    section: dict[str, Any] = tomllib.loads(block)["personalizer"]
    return section


def accuracies(name: str, grouped: bool) -> np.ndarray:
    """Return every client's test accuracy with its own model, [n], sorted."""
    settings = SHORTCUT if grouped else SETTINGS
    experiment = settings | {"personalizer": example(name)}
    with tempfile.TemporaryDirectory() as folder:
        (run,) = troth.run(experiment, out=Path(folder) / name)
        return np.sort(run.clients["conflicting_accuracy" if grouped else "accuracy"])


def draw(name: str, found: dict[str, np.ndarray]) -> None:
    """Write a method's picture, with the shared model and local training."""
    figure = Figure(figsize=(4, 2.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    at = np.arange(1, len(found[name]) + 1)
    axes.plot(at, found[name], color="#0072B2", lw=1.8, label=name)
    for other, style in STYLES.items():
        if other != name:
            axes.plot(at, found[other], lw=1.5, **style)
    axes.set(xlabel="clients, sorted", ylabel="accuracy", ylim=(0.6, 1.01))
    if name in GROUPED:
        axes.set(ylabel="accuracy, conflicting", ylim=(-0.01, 1.01))
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    figure.savefig(HERE / f"{name}.png", metadata={"Software": None})


def main(names: list[str]) -> None:
    """Train and draw. The two baselines are always trained."""
    names = names or lookup.names("personalizer")
    for grouped in (False, True):
        some, found = [n for n in names if (n in GROUPED) == grouped], {}
        for name in dict.fromkeys([SHARED, LOCAL, *some] if some else []):
            found[name] = every = accuracies(name, grouped)
            print(f"{name:15s} mean {every.mean():.3f}, worst {every[0]:.3f}")
        for name in some:
            draw(name, found)


if __name__ == "__main__":
    main(sys.argv[1:])
