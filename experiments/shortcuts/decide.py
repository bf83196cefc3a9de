"""Choose what the paper leaves open, by the validation data of the tuning seed alone.

    python experiments/shortcuts/decide.py     # writes choice.json

Rules, all but the first fixed before any of it was trained:

- learning rate and number of steps: those with which fine-tuning has the highest
  validation accuracy (tried after all else had been with 1e-4 and 200; see the page).
  For CelebA, whose network costs most, 1,000 steps are not tried, nor half a method;
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

from problems import CHOICE, PROBLEMS, marked
from tune import GROUP_STEPS, label, rate, rules, strength, valid


def chosen(problem: str) -> dict[str, Any] | None:
    """All options of one problem; None: runs of tune.py are missing."""
    found = rules(problem)
    made: dict[str, Any] = {"eps": strength(problem)}
    made["rate"] = rate(problem)
    made["valid"] = {"shared": valid("tuning_shared", problem)}
    made["valid"]["finetune"] = valid("tuning", f"{problem}, finetune")
    for part, (pair, _) in found.items():
        if pair is None:
            return None
        made[part] = pair
        made["valid"][part] = valid("tuning", label(problem, pair))
    if marked(problem):
        steps = {
            step: valid("tuning", f"{problem}, group_dro step={step}") or 0.0
            for step in GROUP_STEPS
        }
        made["group_dro"] = max(steps, key=lambda step: steps[step])
        made["valid"]["group_dro"] = steps[made["group_dro"]]
    return made


def main() -> None:
    """Write the file."""
    every = {problem: chosen(problem) for problem in PROBLEMS}
    made = {problem: options for problem, options in every.items() if options}
    text = json.dumps(made, indent=1)
    CHOICE.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
