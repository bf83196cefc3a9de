"""Choose what the paper leaves open, by the validation data of the tuning seed alone.

    python experiments/shortcuts/decide.py     # writes choice.json

Rules, fixed before any of it was trained:

- ε: the smallest with which the shared model is right on at most 5 % of x_adv;
- w₁ and w₂, each half alone and both: the largest that does not lower the validation
  accuracy (Section 4.1; of pairs the largest product, then the larger w₁), against the
  shared model where personalization starts, and, as a second reading, against
  fine-tuning;
- the step of group DRO: the highest validation accuracy.

Ditto's λ is 1, its authors' first. The network for MNIST was to be the one, of an MLP
and a CNN, whose shared model has the validation accuracy nearest to the paper's .852
(Table 1, biased data): the MLP came first, has .852, and no other was trained.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from problems import CHOICE, PROBLEMS, TUNING, marked  # noqa: E402
from tune import GROUP_STEPS, RESULTS, strength, weights  # noqa: E402

Pair = tuple[float, float]


def valid(figure: str, label: str, whose: str = "personal") -> float:
    """Mean validation accuracy over clients of a run in the tuning seed."""
    file = RESULTS / figure / f"{label}, seed {TUNING}.json"
    found = json.loads(file.read_text())["summary"]["valid"][whose]
    return float(found["accuracy_mean"])


def largest(found: dict[Pair, float], floor: float) -> Pair:
    """The heaviest pair that does not fall below the floor; else the lightest."""
    order = sorted(found, key=lambda p: (_product(p), p[0]))
    good = [pair for pair in order if found[pair] >= floor]
    return good[-1] if good else order[0]


def _product(pair: Pair) -> float:
    """Of the weights that are not 0."""
    return (pair[0] or 1.0) * (pair[1] or 1.0)


def chosen(problem: str) -> dict[str, Any]:
    """All options of one problem."""
    every = {p: f"{problem}, transfer w1={p[0]} w2={p[1]}" for p in weights()}
    found = {p: valid("tuning", label) for p, label in every.items()}
    shared = valid("tuning", every[weights()[0]], "shared")
    tuned = valid("tuning", f"{problem}, finetune")
    made: dict[str, Any] = {"eps": strength(problem)}
    made["valid"] = {"shared": shared, "finetune": tuned}
    parts = {
        "transfer": [p for p in found if all(p)],
        "adversarial alone": [p for p in found if not p[1]],
        "distance alone": [p for p in found if not p[0]],
    }
    for part, pairs in parts.items():
        some = {pair: found[pair] for pair in pairs}
        made[part] = largest(some, shared)
        made["valid"][part] = found[made[part]]
    both = {pair: found[pair] for pair in parts["transfer"]}
    made["as finetune"] = largest(both, tuned)
    made["valid"]["as finetune"] = found[made["as finetune"]]
    if marked(problem):
        steps = {
            step: valid("tuning", f"{problem}, group_dro step={step}")
            for step in GROUP_STEPS
        }
        made["group_dro"] = max(steps, key=lambda step: steps[step])
        made["valid"]["group_dro"] = steps[made["group_dro"]]
    return made


def main() -> None:
    """Write the file."""
    made: dict[str, Any] = {problem: chosen(problem) for problem in PROBLEMS}
    text = json.dumps(made, indent=1)
    CHOICE.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
