"""Train the runs of README.md: each is `base.toml` with some keys changed.

    python experiments/tension/run.py                 # all of them, three seeds
    python experiments/tension/run.py term --seeds 1
    python experiments/tension/run.py --part 0/4      # every fourth: for four processes

Finished runs are saved in the table of results and are not trained again. Every run
trains Ditto's models together with the shared model, and has results of both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from common import Cell, Changes, main

LOOSE = ("median", "trimmed_mean", "meamed", "krum", "multi_krum", "bulyan")
LOOSE += ("geometric_median", "mda", "k_norm", "k_loss")
DEFENCES: dict[str, Changes] = {
    "mean": {},
    **{name: {"aggregator": {"name": name, "strict": False}} for name in LOOSE},
    # updates are about 0.5 long here; the default of 10 would clip nothing
    "centered_clipping": {
        "aggregator": {"name": "centered_clipping", "tau": 0.5, "strict": False}
    },
    "fedmgda": {"aggregator": {"name": "fedmgda", "eps": 0.1}},
    "clip": {"filter": ["clip"]},
    "normalize": {"filter": ["normalize"]},
    "nnm + trimmed_mean": {
        "filter": [{"name": "nnm", "strict": False}],
        "aggregator": {"name": "trimmed_mean", "strict": False},
    },
    "bucketing + median": {
        "filter": ["bucketing"],
        "aggregator": {"name": "median", "strict": False},
    },
}
TERM: dict[str, Changes] = {
    f"term t={t}": {"aggregator": {"name": "term", "t": t}} for t in (1, 2, 5)
}
FAIR: dict[str, Changes] = {
    "weighted_mean": {"aggregator": "weighted_mean"},
    "term t=1": TERM["term t=1"],
    "qffl": {"aggregator": "qffl"},
    "afl": {"aggregator": "afl"},
}
ATTACKS: dict[str, Changes] = {
    "A1": {},  # labels, in all three
    "A2": {"attack": "random_update"},
    "A3": {"attack": "model_replacement"},
}
BACKDOOR: Changes = {
    "corruption": {"name": "backdoor", "share": 0.5, "size": 4, "target": 0},
    # by pixel, a corner that is black in every picture would be blown up a hundredfold
    "model": {"name": "mlp", "widths": [32], "normalize": "unit"},
}


def hostile(share: float) -> dict[str, Changes]:
    """Return changes that make a share of the clients malicious, by poisoned labels."""
    return {f"{share:.0%}": {"adversary": {"fraction": share}}}


FIFTH = hostile(0.2)["20%"]
FIGURES: dict[str, tuple[dict[str, Changes], dict[str, Changes]]] = {
    "term": (
        {"mean": {}} | TERM,
        hostile(0.0) | hostile(0.2) | hostile(0.5) | hostile(0.8),
    ),
    # what multi-Krum costs that expects four malicious clients, and none come
    "clean": (
        {"mean": {}, "multi_krum": {"aggregator": {"name": "multi_krum", "f": 4}}},
        hostile(0.0),
    ),
    "defences": (DEFENCES | TERM, hostile(0.2) | hostile(0.8)),
    "attacks": (DEFENCES, {name: {**FIFTH, **a} for name, a in ATTACKS.items()}),
    "backdoor": (DEFENCES, {"backdoor": {**FIFTH, **BACKDOOR}}),
    # every rule under A3: does Ditto with it beat Ditto alone and the rule alone?
    "modularity": (
        DEFENCES | FAIR,
        {
            f"A3 λ={lam}": {**FIFTH, **ATTACKS["A3"], "personalizer": {"lam": lam}}
            for lam in (0.1, 1.0)
        },
    ),
}
"""Figure → rules and threats; every pair of them is a run."""


def cells() -> Iterator[Cell]:
    """Yield every run of every figure."""
    for figure, (rules, threats) in FIGURES.items():
        for rule, defence in rules.items():
            for threat, attack in threats.items():
                yield Cell(figure, f"{rule}, {threat}", {**defence, **attack})


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells())
