"""What the tables and figures are made of: reads results, computes no model."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import roc_auc_score

from troth.reproduce.store import Store

ROOT = Path(__file__).parent
Row = dict[str, Any]
LIMIT = 0.1  # of disparity, as the audit has it
SCORES = {
    "transferability lost": "change",
    "ℓ_trans": "l_trans",
    "angle θ": "angle",
    "distance ‖v−w‖": "distance",
    "validation gain": "valid_gain",
    "confidence": "confidence",
}


def load(figure: str) -> dict[str, list[Row]]:
    """Rows of a figure by label, a row a seed."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in Store(ROOT).find(f"{figure}/*"):
        found[row["label"]].append(row)
    return found


def both(row: Row, whose: str = "personal") -> tuple[float, float]:
    """Acc_B and Acc_BC: means over benign clients; of held-out pictures, over all.

    Where clients have few conflicting examples or none (CelebA), each picture counts.
    """
    summary = row["summary"]
    tests = summary["tests"]["conflicting"][whose]
    mean = "mean" if min(row["conflicting"]) > 0 else "weighted"
    return summary[whose]["accuracy_mean"], tests[f"accuracy_{mean}"]


def over(rows: list[Row], whose: str = "personal") -> np.ndarray:
    """[runs, 2] of several rows."""
    return np.array([both(row, whose) for row in rows])


def auroc(rows: list[Row], column: str) -> tuple[float, int, int]:
    """Of "disparity above the limit" from a column; and how many are above and not."""
    wanted, score = [], []
    for row in rows:
        audit = row["audit"]
        for value, gap in zip(audit[column], audit["disparity"], strict=True):
            if gap is not None and value is not None and gap == gap and value == value:
                wanted.append(gap > LIMIT)
                score.append(value)
    above = sum(wanted)
    if not 0 < above < len(wanted):
        return float("nan"), above, len(wanted) - above
    return float(roc_auc_score(wanted, score)), above, len(wanted) - above


def curves(problem: str, part: str) -> list[dict[str, np.ndarray]]:
    """[steps, clients] of each quantity, a table a seed."""
    found = []
    for row in Store(ROOT).find(f"along/{problem}, {part}, seed *"):
        table = {k: np.array(v, dtype=float) for k, v in row["curves"].items()}
        table["disparity"] = table["accuracy"] - table["conflicting_accuracy"]
        table["loss_disparity"] = table["conflicting_loss"] - table["loss"]
        table["change"] = table["adv_accuracy"] - table["adv_accuracy"][0]
        table["steps"] = np.array(row["steps"])
        table["conflicting"] = np.array(row["conflicting"])
        found.append(table)
    return found


def moment(table: dict[str, np.ndarray], share: float, *names: str) -> list[np.ndarray]:
    """Some quantities of all clients after a share of the steps."""
    at = int(np.flatnonzero(table["steps"] <= share * table["steps"][-1])[-1])
    return [table[name][at] for name in names]


def mean_curve(table: dict[str, np.ndarray], name: str) -> np.ndarray:
    """[steps] over clients; conflicting data by how many each has."""
    values = table[name]
    if not name.startswith("conflicting") and "disparity" not in name:
        return np.nanmean(values, axis=1)
    weight = np.where(np.isnan(values), 0, table["conflicting"])
    return (np.nan_to_num(values) * weight).sum(1) / weight.sum(1)


def rank(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation of what is known of both; NaN where one is constant."""
    known = ~(np.isnan(a) | np.isnan(b))
    a, b = a[known], b[known]
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(spearmanr(a, b).statistic)


def partial(a: np.ndarray, b: np.ndarray, given: np.ndarray) -> float:
    """The same, of what ranks of a third leave over in the ranks of both."""
    known = ~(np.isnan(a) | np.isnan(b) | np.isnan(given))
    if known.sum() < 4:
        return float("nan")
    third = rankdata(given[known])
    design = np.stack([np.ones_like(third), third], axis=1)
    left = []
    for values in (a, b):
        ranks = rankdata(values[known])
        fit = np.linalg.lstsq(design, ranks, rcond=None)[0]
        left.append(ranks - design @ fit)
    return rank(*left)
