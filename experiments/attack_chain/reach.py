"""The counter-gradient attack on federated averaging: every personalizer and rule.

No theorem covers these runs. They use the digits of scikit-learn, ten honest clients
and one malicious client, and take minutes in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attacks import Figure, Work, gradient

from troth import lookup

ROUNDS = 100
OPTIONS: dict[str, dict[str, Any]] = {  # where the defaults do not run, or do nothing
    "apfl": {"alpha": 0.5},
    "ewc": {"lam": 1.0, "epochs": 5},
    "fedper": {"last": 1},
    "finetune": {"epochs": 5},
    "ditto_finetune": {"epochs": 5},
    "group_dro": {"epochs": 5},
    "skl": {"lam": 1.0, "epochs": 5},
    "transfer": {"epochs": 5},
    "upweight": {"epochs": 5},
    "per_fedavg": {"alpha": 0.01, "epochs": 5},
    "trimmed_mean": {"f": 1},
    "krum": {"f": 1},
    "multi_krum": {"f": 1},
    "bulyan": {"f": 1},
    "mda": {"f": 1},
    "meamed": {"f": 1},
    "k_loss": {"f": 1},
    "k_norm": {"f": 1},
}
MARKED = ("group_dro", "upweight")  # these need groups


def tree(part: str, name: str) -> dict[str, Any]:
    """Return federated averaging with a personalizer, or with an aggregation rule."""
    data: dict[str, Any] = {"name": "digits"}
    if name in MARKED:
        data = {"name": "colored", "base": "digits", "pool": "all", "correlation": 0.8}
    model: dict[str, Any] = {"name": "mlp", "widths": [32]}
    if name == "fedbn":  # which needs batch normalisation
        model = {"name": "celeba_cnn", "channels": 8, "blocks": 1}
    found: dict[str, Any] = {
        "seed": 999,
        "data": data,
        "partition": {"name": "iid", "clients": 11},
        "model": model,
        "train": {"rounds": ROUNDS, "batch": 32, "steps": 5, "lr": 0.1},
        "personalizer": {"name": "none"},
        "aggregator": {"name": "mean"},
        "server": {"name": "sgd", "lr": 1 / 11 if name == "sum" else 1.0},
        "adversary": {"clients": [10]},
        "corruption": "none",
        "evaluate": {"every": ROUNDS},
    }
    return found | {part: {"name": name, **OPTIONS.get(name, {})}}


def figures() -> Iterator[Figure]:
    """Yield one run per member; `coupled` has figures of its own."""
    for part in ("personalizer", "aggregator"):
        for name in lookup.names(part):
            if name == "coupled":
                continue

            def make(work: Work, part: str = part, name: str = name) -> dict[str, Any]:
                return gradient(
                    work, tree(part, name), ROUNDS // 4, f"reach {name}", knows="others"
                )

            yield Figure("reach", f"{part}, {name}", make)
