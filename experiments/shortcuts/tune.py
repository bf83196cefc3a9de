"""Try the options that the paper leaves open, in a seed of their own.

    python experiments/shortcuts/tune.py tuning_shared   # the shared models
    python experiments/shortcuts/tune.py tuning_eps      # then how strong x_adv is
    python experiments/shortcuts/tune.py tuning_rate     # and how to fine-tune
    python experiments/shortcuts/tune.py                 # then all else

Weights are tried from the heaviest on, until one is good enough: its rule asks for no
lighter one. Rows hold validation data only; decide.py goes by them. Conflicting test
data are never looked at here. A finished run is kept in the table of results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import Cell, Changes, main, merged
from problems import (
    PROBLEMS,
    RATE,
    TUNING,
    again,
    marked,
    saved,
    started,
)

import troth
from troth.reproduce.store import Store
from troth.runs.load import Run

WEIGHTS = (0.01, 0.1, 1.0, 10.0)  # the paper's
STRENGTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # ε
FOOLED = 0.05  # the shared model is right on at most so much of x_adv
GROUP_STEPS = (0.01, 0.1, 1.0)
RATES: dict[str, tuple[tuple[float, int], ...]] = {
    "mnist": (RATE, (1e-4, 1000), (1e-3, 200), (1e-3, 1000)),
    "mnist_fixed": (RATE, (1e-4, 1000), (1e-3, 200), (1e-3, 1000)),
    "coil20": (RATE, (1e-4, 1000), (1e-3, 200), (1e-3, 1000)),
    "celeba": (RATE, (1e-3, 200)),  # a network of its own is what costs most
}
FINETUNE: Changes = {"name": "finetune", "keep": "accurate"}
HALVES = ("mnist", "coil20")
PARTED = (*HALVES, "mnist_fixed")  # each half of `transfer` is tried alone, too
MEAN = "accuracy_mean"
Pair = tuple[float, float]


def weights(problem: str) -> dict[str, list[Pair]]:
    """Pairs that are tried, heaviest first: both, and each half alone (Fig. 7)."""
    pairs = sorted(
        ((w1, w2) for w1 in WEIGHTS for w2 in WEIGHTS),
        key=lambda pair: (pair[0] * pair[1], pair[0]),
        reverse=True,
    )
    if problem not in PARTED:
        return {"transfer": pairs}
    return {
        "transfer": pairs,
        "adversarial alone": [(w, 0.0) for w in reversed(WEIGHTS)],
        "distance alone": [(0.0, w) for w in reversed(WEIGHTS)],
    }


def label(problem: str, pair: Pair) -> str:
    """Of a pair's run."""
    return f"{problem}, transfer w1={pair[0]} w2={pair[1]}"


def valid(figure: str, label: str) -> float | None:
    """Mean validation accuracy over clients in the tuning seed; None: not run yet."""
    run = Store(ROOT).get(f"{figure}/{label}, seed {TUNING}")
    return None if run is None else float(run["summary"]["valid"]["personal"][MEAN])


def rate(problem: str) -> tuple[float, int] | None:
    """How fine-tuning has the highest validation accuracy; of equal ones the first.

    None before all were tried.
    """
    found = {
        each: valid("tuning_rate", f"{problem}, {named(each)}")
        for each in RATES[problem]
    }
    known = {each: value for each, value in found.items() if value is not None}
    return (
        max(known, key=lambda each: known[each])
        if known.keys() == found.keys()
        else None
    )


def named(rate: tuple[float, int]) -> str:
    """A rate for people."""
    return f"lr={rate[0]} steps={rate[1]}"


def rules(problem: str) -> dict[str, tuple[Pair | None, Pair | None]]:
    """What each rule chose, or else the pair that has to be tried next.

    The largest that does not lower the validation accuracy, against the shared model
    or, as a second reading, against fine-tuning; the lightest where all do.
    """
    floor = valid("tuning_shared", problem)
    every = weights(problem)
    found = {part: _walk(problem, p, floor) for part, p in every.items()}
    if problem in PARTED:
        floor = valid("tuning", f"{problem}, finetune")
        found["as finetune"] = _walk(problem, every["transfer"], floor)
    return found


def _walk(
    problem: str, pairs: list[Pair], floor: float | None
) -> tuple[Pair | None, Pair | None]:
    for pair in pairs if floor is not None else ():
        known = valid("tuning", label(problem, pair))
        if known is None:
            return None, pair
        if known >= floor:
            return pair, None
    return (None if floor is None else pairs[-1]), None


def personalizers(problem: str) -> dict[str, Changes]:
    """What is tried after the last round, by label."""
    made: dict[str, Changes] = {"finetune": FINETUNE}
    if marked(problem):
        for step in GROUP_STEPS:
            made[f"group_dro step={step}"] = group_dro(step)
    for w1, w2 in [pair for pairs in weights(problem).values() for pair in pairs]:
        short = label(problem, (w1, w2)).removeprefix(f"{problem}, ")
        made[short] = {"name": "transfer", "w1": w1, "w2": w2}
    return made


def group_dro(step: float) -> Changes:
    """Its section."""
    own = {"name": "group_dro", "keep": "accurate", "without": "finetune"}
    return {**own, "step": step}


def cells() -> Iterator[Cell]:
    """Every run."""
    for problem, sections in PROBLEMS.items():
        yield Cell("tuning_shared", problem, sections)
    for problem, sections in PROBLEMS.items():
        one = {"name": "finetune", "steps": 1}
        changes = merged(again(sections, one), {"output": {"personal": True}})
        yield Cell("tuning_eps", f"{problem}, eps", changes)
        for each in RATES[problem]:
            own = again(sections, FINETUNE, rate=each)
            yield Cell("tuning_rate", f"{problem}, {named(each)}", own)
    for problem, sections in PROBLEMS.items():
        for short, own in personalizers(problem).items():
            changes = again(sections, own, rate=rate(problem) or RATE)
            yield Cell("tuning", f"{problem}, {short}", changes)


def strength(problem: str) -> float | None:
    """ε: the smallest that fools the shared model; None before it was tried.

    "MIN_Acc_Adv is 0 because the adversarial examples transfer to the personalized
    models with no update" (Fig. 6).
    """
    run = Store(ROOT).get(f"tuning_eps/{problem}, eps, seed {TUNING}")
    left = run["shared_adv_accuracy"] if run else []
    return (
        None
        if run is None
        else next((e for e, a in left if a <= FOOLED), STRENGTHS[-1])
    )


def given_seed(cell: Cell, seed: int) -> Changes | None:
    """With the shared model of the seed, and ε where it matters."""
    changes = started(cell, seed)
    if changes is None or cell.figure != "tuning":
        return changes
    problem = cell.label.split(", ")[0]
    found = rules(problem).values()
    wanted = [label(problem, pair) for _, pair in found if pair]
    if "transfer" in cell.label and cell.label not in wanted:
        return None
    if rate(problem) is None:
        return None
    eps = strength(problem)
    return None if eps is None else merged(changes, {"adversarial": {"eps": eps}})


def look(run: Run) -> Changes:
    """Validation data alone; of a run that is for ε, how far each goes."""
    e, valid = run.experiment, run.summary["valid"]
    said: Changes = {"summary": {"rounds": run.summary["rounds"], "valid": valid}}
    said["accuracy"] = said["shared_accuracy"] = None  # those of test data
    if e.personalizer.name == "none":
        saved(run)
    said["eps"] = e.adversarial.options["eps"]
    if e.personalizer.steps == 1:
        found = [troth.audit(run, on="valid", eps=eps).table for eps in STRENGTHS]
        left = [float(np.nanmean(table["shared_adv_accuracy"])) for table in found]
        said["shared_adv_accuracy"] = list(zip(STRENGTHS, left, strict=True))
    return said


if __name__ == "__main__":
    main(
        __doc__,
        ROOT / "base.toml",
        cells(),
        look,
        seeds=1,
        first=TUNING,
        given_seed=given_seed,
    )
