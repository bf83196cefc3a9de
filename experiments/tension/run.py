"""Train what the four figures show: every run is `base.toml` with some keys changed.

    python experiments/tension/run.py                 # all of them, three seeds
    python experiments/tension/run.py term --seeds 1
    python experiments/tension/run.py --part 0/4      # every fourth: for four processes

A finished run is a file under `results/`; what is there already is not trained again.
Ditto stands beside the shared model in every run, so each gives both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import troth
from troth import config, folder

ROOT = Path(__file__).parent
Changes = dict[str, Any]

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
ATTACKS: dict[str, Changes] = {
    "A1": {},  # labels, in all three
    "A2": {"attack": "random_update"},
    "A3": {"attack": "model_replacement"},
}
BACKDOOR: Changes = {
    "corruption": {"name": "backdoor", "share": 0.5, "size": 4, "target": 0},
    # by pixel, a corner that is black in every picture would be blown up a hundredfold
    "model": {"name": "mlp", "widths": [32], "normalise": "unit"},
}


def hostile(share: float) -> dict[str, Changes]:
    """So many of the clients, and nothing but poisoned labels."""
    return {f"{share:.0%}": {"adversary": {"fraction": share}}}


FIFTH = hostile(0.2)["20%"]
FIGURES: dict[str, tuple[dict[str, Changes], dict[str, Changes]]] = {
    "term": (
        {"mean": {}} | TERM,
        hostile(0.0) | hostile(0.2) | hostile(0.5) | hostile(0.8),
    ),
    "defences": (DEFENCES | TERM, hostile(0.2) | hostile(0.8)),
    "attacks": (DEFENCES, {name: {**FIFTH, **a} for name, a in ATTACKS.items()}),
    "backdoor": (DEFENCES, {"backdoor": {**FIFTH, **BACKDOOR}}),
}
"""Figure → rules and threats; every pair of them is a run."""


def cells(figure: str) -> Iterator[tuple[str, Changes]]:
    """Label and changes of every run of a figure."""
    rules, threats = FIGURES[figure]
    for rule, defence in rules.items():
        for threat, attack in threats.items():
            yield f"{rule}, {threat}", {**defence, **attack}


def train(changes: Changes, seed: int, device: str) -> dict[str, Any]:
    """One run, as the row of a table."""
    tree = {**config.read(ROOT / "base.toml"), **changes, "seed": seed}
    with tempfile.TemporaryDirectory() as place:
        run = troth.run(tree, out=Path(place) / "run", device=device)[0]
        clients = run.clients
        resolved = run.experiment.resolved
        return {
            "changes": changes,
            "seed": seed,
            "fingerprint": resolved["fingerprint"],
            "f": resolved.get("f"),
            "device": resolved["device"],
            "torch": resolved["versions"]["torch"],
            "summary": run.summary,
            "malicious": [int(m) for m in clients["malicious"]],
            "accuracy": [round(float(a), 6) for a in clients["accuracy"]],
            "shared_accuracy": [round(float(a), 6) for a in clients["shared_accuracy"]],
        }


def main() -> None:
    """Train what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figures", nargs="*", help=", ".join(FIGURES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part", default="0/1", help="i/n: every n-th, from the i-th")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    every = [
        (figure, label, changes, seed)
        for seed in range(given.seeds)
        for figure in given.figures or FIGURES
        for label, changes in cells(figure)
    ]
    for figure, label, changes, seed in every[part::parts]:
        file = given.out / figure / f"{label}, seed {seed}.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            row = {"label": label, **train(changes, seed, given.device)}
            folder.write(file, json.dumps(folder.plain(row), indent=1) + "\n")
            print(file.relative_to(given.out), flush=True)


if __name__ == "__main__":
    main()
