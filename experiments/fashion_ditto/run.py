"""Train three columns of the Ditto paper's Tables 4 and 8: Fashion-MNIST.

    python experiments/fashion_ditto/run.py --device cuda    # one seed, as in the paper

Every run is `experiment.toml`, the authors' protocol, with some keys changed. Finished
runs are saved in the table of results and are not trained again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from common import Cell, Changes, curve, main


def authors_hostile(number: int) -> Changes:
    """Return the malicious clients that the authors' code draws with seed 0."""
    drawn = np.random.RandomState(1234567).choice(500, number, replace=False)
    return {"clients": sorted(int(k) for k in drawn)}


THREATS: dict[str, Changes] = {
    "clean": {},
    "A1 50%": {"adversary": authors_hostile(250)},
    "A3 20%": {"adversary": authors_hostile(100), "attack": "model_replacement"},
}
OFTEN: Changes = {
    "evaluate": {"every": 100},
    "engine": {"how": "vmap", "chunk": 10},  # measured once
}
HELD: Changes = {"partition": {"valid": 0.1}}  # only where a client must choose
EPOCHS = 40  # of the authors' script
WEAK = {"candidates": [0.1, 1.0, 2.0], "fallback": 1.0}
STRONG = {"candidates": [0.05, 0.1, 0.2], "fallback": 0.1}  # G.4: any A3


def tuned(name: str, epochs: int, **options: float) -> Changes:
    """Return a second stage, in which many clients step together."""
    part = {"name": name, "epochs": epochs, **options}
    return {"personalizer": part, "engine": {"how": "vmap", "chunk": 50}}


def auto(rule: str, options: Changes) -> Changes:
    """Return Ditto with a λ chosen by every client."""
    part = {"name": "ditto", "lam": "auto", "choose": rule, **options}
    return {"personalizer": part, **HELD}


def ditto(lam: float) -> Changes:
    """Return Ditto with a given λ."""
    return {"personalizer": {"name": "ditto", "lam": lam}}


def methods(threat: str) -> dict[str, Changes]:
    """Return the rows of a column."""
    known = STRONG if threat.startswith("A3") else WEAK  # what the paper's rule is told
    rows: dict[str, Changes] = {
        # Local models change little with a threat that only others see.
        **({"local": {"personalizer": "local"}} if threat == "clean" else {}),
        "finetuning": tuned("finetune", EPOCHS),
        **{f"Ditto λ={lam}": ditto(lam) for lam in (0.1, 1.0, 2.0)},
        "dynamic, paper": auto("paper", known),
        "dynamic, code": auto("code", WEAK),
    }
    # Every client has four validation examples or more, so that with the same
    # candidates the paper's rule and ours are one: only other candidates are a run.
    if known is not WEAK:
        rows["dynamic, side by side"] = auto("side_by_side", WEAK)
    return rows


def cells() -> Iterator[Cell]:
    """Return every run."""
    for threat, attack in THREATS.items():
        for row, method in methods(threat).items():
            yield Cell("table", f"{row}, {threat}", {**OFTEN, **attack, **method})


if __name__ == "__main__":
    main(__doc__, ROOT / "experiment.toml", cells(), curve, seeds=1)
