"""Spurious features: Table 1 and Figures 4 to 8.

@inproceedings{wang2021robust,
  title={Robust and Personalized Federated Learning with Spurious Features: an
    Adversarial Approach},
  author={Wang, Xiaoyang and Zhao, Han and Nahrstedt, Klara and Koyejo, Sanmi},
  booktitle={NeurIPS Workshop on New Frontiers in Federated Learning}, year={2021}}
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from troth.reproduce.entry import Entry
from troth.reproduce.store import named

_PART = "coloured MNIST, CelebA and Coil20"
_DATA = {"mnist": "MNIST", "coil20": "Coil20"}  # CelebA needs all identities
_ROWS = {"finetune": "FT", "upweight": "UW", "transfer": "Ours"}
_OPEN = (
    "colours, network, batch and how clients personalize are ours, for the paper names "
    "none (experiments/shortcuts)"
)
_TRAINED = (500 * 5 * 135, 7_000.0)  # client-steps and seconds of a shared model
_PERSONAL = (50 * 1000, 1_000.0)


def table1(root: Path) -> dict[tuple[str, str, str], list[float]]:
    """Its cells, a number a seed; the shared models are those of `train.py`."""
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for figure, whose in (("shared", "shared"), ("table", "personal")):
        for said in named(root, f"shortcuts/{figure}/*"):
            data, _, rest = said["label"].partition(", ")
            row = "Global" if figure == "shared" else _ROWS.get(rest.split(", ")[0])
            if data in _DATA and row:
                for test, value in _tests(said["summary"], whose).items():
                    at = (_PART, row, f"{_DATA[data]} {test}")
                    runs = found.setdefault(at, {})  # a seed has several settings
                    runs.setdefault(said["seed"], []).append(value)
    return {at: [*map(mean, runs.values())] for at, runs in found.items()}


def _tests(summary: dict[str, Any], whose: str) -> dict[str, float]:
    conflicting = summary["tests"]["conflicting"][whose]
    return {
        "Acc_B": float(summary[whose]["accuracy_mean"]),
        "Acc_BC": float(conflicting["accuracy_mean"]),
    }


def _figure(
    number: int,
    title: str,
    script: str,
    results: str,
    work: tuple[int, float],
    shows: tuple[str, ...],
) -> Entry:
    figure = results.partition("/")[0]
    own = () if script == "along.py" else (figure,)  # which makes nothing else
    return Entry(
        f"spurious/figure{number}",
        title,
        script=(f"shortcuts/{script}", *own),
        results=(f"shortcuts/{results}",),
        form="lines",
        shows=shows,
        note=_OPEN,
        data=("mnist", "coil20"),
        work=work,
    )


def _of(whose: str) -> tuple[str, ...]:
    return tuple(f"{whose}, {what}" for what in ("biased", "conflicting", "disparity"))


ENTRIES = (
    Entry(
        "spurious/table1",
        "Accuracy on biased and on conflicting test data",
        script=("shortcuts/run.py", "table"),
        results=("shortcuts/table/*",),
        note="its CelebA columns need all identities; what 299 of them come to is in "
        "experiments/shortcuts, with other methods and single seeds; " + _OPEN,
        data=("mnist", "coil20", "celeba"),
        work=_PERSONAL,
        shows=(*_of("shared"), *_of("personal")),
        numbers=table1,
        own="coloured MNIST and COIL-20, mean over clients",
    ),
    _figure(
        4,
        "Federated beside central training",
        *("train.py", "fig4/*", _TRAINED, _of("shared")),
    ),
    _figure(
        5,
        "Accuracies along fine-tuning",
        *("along.py", "along/*finetune*", _PERSONAL),
        shows=("accuracy", "conflicting accuracy"),
    ),
    _figure(
        6,
        "Disparity and adversarial accuracy",
        *("along.py", "along/*finetune*", _PERSONAL),
        shows=("accuracy disparity", "adversarial accuracy gained"),
    ),
    _figure(
        7,
        "Loss disparity and transferability",
        *("along.py", "along/mnist,*", _PERSONAL),
        shows=("loss disparity", "transferability gap"),
    ),
    _figure(
        8,
        "Up-weighting few conflicting examples",
        *("run.py", "fig8/*", _PERSONAL, _of("personal")),
    )._replace(over=("sampling factor", r", ([\d.]+)$"), data=("mnist",)),
)
