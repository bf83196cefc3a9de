"""A per-client table → the numbers of `summary.json`."""

from collections.abc import Mapping

import numpy as np

from troth import lookup

LOWER_IS_BETTER = frozenset({"loss", "error", "attack_success"})
"""Columns of which the highest value is the worst."""


def summarise(
    table: Mapping[str, np.ndarray], size: np.ndarray, malicious: np.ndarray
) -> dict[str, float | list[float]]:
    """Every metric of every column, over benign clients.

    A metric is a file in `metrics/`: a new one adds its numbers here. Benign clients
    only, as in Ditto's Definitions 1 (robustness) and 2 (fairness).

    Where a client has an accuracy (or error) but its loss is NaN, its model has
    diverged, and the loss counts as infinite; NaN is left for «no such value».

    Args:
        table: Column → [n] a value a client, as `scores.score` gives it.
        size: [n] test examples, which weigh `…_weighted`.
        malicious: [n] whether a client is an adversary.

    Returns:
        `{column}_{metric}`, such as `accuracy_mean` or `loss_std`; with adversaries
        also `malicious_accuracy_mean` (regression: `malicious_error_mean`). Nothing is
        rounded; a number is nan where no client has a value.
    """
    size, malicious = np.asarray(size), np.asarray(malicious, dtype=bool)
    table = _diverged(table)
    summary = {
        f"{column}_{name}": _metric(name, column, values, size, ~malicious)
        for column, values in table.items()
        for name in lookup.names("metric")
    }
    head = _head(table)
    if head and malicious.any():
        summary[f"malicious_{head}_mean"] = _metric(
            "mean", head, table[head], size, malicious
        )
    return summary


def _head(table: Mapping[str, np.ndarray]) -> str:
    """The column that says first how well a client is served."""
    return next((c for c in ("accuracy", "error") if c in table), "")


def _diverged(table: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    columns = {c: np.asarray(v, dtype=np.float64) for c, v in table.items()}
    head = _head(columns)
    if head and "loss" in columns:
        lost = np.isnan(columns["loss"]) & ~np.isnan(columns[head])
        columns["loss"] = np.where(lost, np.inf, columns["loss"])
    return columns


def _metric(
    name: str, column: str, values: np.ndarray, size: np.ndarray, who: np.ndarray
) -> float | list[float]:
    number: float | list[float] = lookup.call(
        lookup.find("metric", name),
        lookup.check("metric", name, {}),
        values=values[who],
        size=size[who],
        higher_is_better=column not in LOWER_IS_BETTER,
    )
    return number
