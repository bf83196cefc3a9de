"""How numbers are written in sentences, and commands in them."""

from __future__ import annotations

import contextlib
import functools
import math
import shlex

import numpy as np

from troth import folder, lookup
from troth.certificates.bounds import lower, upper
from troth.display import number, short, signed
from troth.dossier import Dossier
from troth.types import Refusal

Interval = tuple[float, float]


def told(value: float, metric: str) -> str:
    """A value of the metric, as everywhere."""
    return number(None if math.isnan(value) else value, metric)


def change(value: float, metric: str) -> str:
    """A difference, with its sign."""
    return signed(None if math.isnan(value) else value, metric)


def interval(share: float, examples: int) -> Interval | None:
    """95 % interval of a share of examples (Clopper and Pearson); None: it is none."""
    if not examples or not 0 <= share <= 1:
        return None
    count = share * examples
    if abs(count - round(count)) > 1e-6:
        return None
    return _interval(round(count), examples)


@functools.lru_cache(maxsize=4096)  # clients have few different ones
def _interval(right: int, examples: int) -> Interval:
    low, high = lower(right, examples, 0.025), upper(right, examples, 0.025)
    return float(low), float(high)


def chance(p: float) -> str:
    """A p-value."""
    return "p < 0.001" if p < 0.001 else f"p = {number(p)}"


def name(run: Dossier) -> str:
    """A run as people read it."""
    return short(run.label)


_PLAINLY = {
    "none": "one model, the same for all clients",
    "local": "each client's own, trained on its data alone",
    "ditto": "each client's own, trained on its data and held near the shared model",
    "finetune": "the shared model, trained on by each client at the end",
}


def plainly(run: Dossier) -> str:
    """What the models of a run are."""
    kind = run.part("personalizer")
    with contextlib.suppress(Refusal):
        said = _PLAINLY.get(kind) or lookup.about("personalizer", kind).summary
        return said.rstrip(".")
    return "–"


def command(*words: object) -> str:
    """A command that can be copied."""
    return shlex.join(["troth", *(str(word) for word in words)])


def again(run: Dossier, *settings: str) -> str:
    """The same experiment with other settings."""
    file = run.path / folder.EXPERIMENT
    more = [part for setting in settings for part in ("--set", setting)]
    return command("run", file, *more)


def saved(run: Dossier) -> bool:
    """Whether the models that its clients predict with are in the folder."""
    return run.part("personalizer") == "none" or (run.path / folder.PERSONAL).exists()


def keeping(run: Dossier) -> str:
    """The same experiment, its models kept."""
    return again(run, "output.personal=true")


def ranks(values: np.ndarray, who: np.ndarray, metric: str) -> np.ndarray:
    """[n] 1 for the best of those who count; equal values share a rank; 0: none."""
    worth = values if metric == "accuracy" else -values
    mine = who & ~np.isnan(worth)
    order = np.sort(-worth[mine])
    found = np.zeros(len(values), dtype=np.int64)
    found[mine] = 1 + np.searchsorted(order, -worth[mine], side="left")
    return found
