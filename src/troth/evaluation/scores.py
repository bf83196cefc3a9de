"""Outputs of models on test examples → one number a client.

Clients are ragged: client k has the slots start[k] … start[k] + size[k] − 1. All of
them are scored at once, by sums over slots; no loop runs over clients.

References: hanley1982meaning.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from torch import Tensor

from troth.networks.objective import expect_outputs
from troth.types import Refusal


class _Ragged(NamedTuple):
    """Every test example of every client, client after client."""

    owner: np.ndarray  # [m] whose it is
    slot: np.ndarray  # [m] where it stands
    size: np.ndarray  # [n] how many each has

    def sums(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.owner, weights=values, minlength=len(self.size))

    def means(self, values: np.ndarray) -> np.ndarray:
        return _ratio(self.sums(values), self.size)


def score(
    outputs: Tensor,
    y: Tensor,
    loss: Tensor,
    start: np.ndarray,
    size: np.ndarray,
    classes: int,
) -> dict[str, np.ndarray]:
    """How well each client is served.

    Outputs that are not finite count as wrong: for the accuracies the example is
    missed, for the AUROC it is ranked on the wrong end, and its squared error is
    infinite. Otherwise a diverged model would drop out of the averages as undefined.
    The loss stays what it is.

    Args:
        outputs: [slots, k] a logit a class; with two classes one column is a margin,
            class 1 when > 0; for regression one column, the prediction.
        y: [slots] labels 0 … classes−1, or targets; [slots, classes] of 0 and 1 where
            an example may have several labels: then a logit > 0 says that it has one.
        loss: [slots] the loss of each example.
        start: [n] first slot of each client.
        size: [n] how many slots it has; without any, all its scores are NaN.
        classes: How many classes; 0 is regression.

    Returns:
        Vectors [n]. With classes: `accuracy`, `loss` (its mean), `balanced_accuracy`
        (mean recall over the classes that the client's examples have) and, with two
        classes, `auroc` (NaN for a client that has one class only). For regression:
        `error` (mean squared error) and `loss`. With several labels an example:
        `accuracy` (share of labels that are right, 1 − Hamming loss), `exact` (share of
        examples with all labels right), `loss`, `balanced_accuracy` (mean recall of
        having and of lacking each label, over those that occur) and `auroc` (its mean
        over the labels that some of the client's examples have and some lack).

    Raises:
        Refusal: outputs and labels that do not fit each other.
    """
    expect_outputs(outputs, y, classes)
    ragged = _ragged(start, size)
    scores = {"loss": ragged.means(_float64(loss)[ragged.slot])}
    if classes == 0:
        return _regression(ragged, outputs, y) | scores
    if y.ndim == 2:
        return _several(ragged, outputs, y) | scores
    return _classification(ragged, outputs, y, classes) | scores


def success(
    outputs: Tensor, wanted: Tensor, start: np.ndarray, size: np.ndarray, several: bool
) -> np.ndarray:
    """How often each client's model says what an attacker wants it to say.

    Args:
        outputs: [slots, k] as `score` takes them.
        wanted: [slots] the label that is wanted; −1: the example does not count.
        start: [n] first slot of each client.
        size: [n] how many slots it has.
        several: whether an example may have several labels: then the one that is
            wanted must be among those that the model says.

    Returns:
        [n] a share of the examples that count; NaN for a client without any. Outputs
        that are not finite say nothing.
    """
    ragged = _ragged(start, size)
    label = wanted.detach().cpu().long().numpy()
    if several:
        said = _float64(outputs)[np.arange(len(label)), label.clip(min=0)] > 0
    else:
        said = _classify(outputs) == label
    counts = (label >= 0)[ragged.slot]
    hit = counts & (said & _finite(outputs))[ragged.slot]
    return _ratio(ragged.sums(hit), ragged.sums(counts))


def _regression(ragged: _Ragged, outputs: Tensor, y: Tensor) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore"):
        error = (_float64(outputs)[:, 0] - _float64(y))[ragged.slot] ** 2
    return {"error": ragged.means(np.where(np.isnan(error), np.inf, error))}


def _classification(
    ragged: _Ragged, outputs: Tensor, y: Tensor, classes: int
) -> dict[str, np.ndarray]:
    label = y.detach().cpu().long().numpy()[ragged.slot]
    finite = _finite(outputs)[ragged.slot]
    hit = finite & (_classify(outputs)[ragged.slot] == label)
    scores = {
        "accuracy": ragged.means(hit),
        "balanced_accuracy": _balanced(ragged, hit, label, classes),
    }
    if classes == 2:
        margin = _margin(outputs)[ragged.slot]
        scores["auroc"] = _auroc(ragged, margin, finite, label == 1)
    return scores


def _several(ragged: _Ragged, outputs: Tensor, y: Tensor) -> dict[str, np.ndarray]:
    """Each label of each example is there or not."""
    there = y.detach().cpu().numpy()[ragged.slot]
    if not np.isin(there, (0, 1)).all():
        raise Refusal(
            f"labels run from {there.min()} to {there.max()}; where an example may "
            "have several they must be 0 or 1"
        )
    margin = _float64(outputs)[ragged.slot]
    finite, has = np.isfinite(margin), there == 1
    hit, count = finite & ((margin > 0) == has), has.shape[1]
    cell = (2 * np.arange(count) + has).reshape(-1)
    each = ragged._replace(owner=np.repeat(ragged.owner, count))
    columns = zip(margin.T, finite.T, has.T, strict=True)
    auroc = np.stack([_auroc(ragged, *column) for column in columns])
    known = ~np.isnan(auroc)
    return {
        "accuracy": ragged.means(hit.mean(axis=1)),
        "exact": ragged.means(hit.all(axis=1)),
        "balanced_accuracy": _balanced(each, hit.reshape(-1), cell, 2 * count),
        "auroc": _ratio(np.where(known, auroc, 0).sum(axis=0), known.sum(axis=0)),
    }


def _ragged(start: np.ndarray, size: np.ndarray) -> _Ragged:
    start, size = np.asarray(start, np.int64), np.asarray(size, np.int64)
    owner = np.repeat(np.arange(len(size)), size)
    before = np.cumsum(size) - size
    slot = np.arange(len(owner)) + (start - before)[owner]
    return _Ragged(owner, slot, size)


def _float64(values: Tensor) -> np.ndarray:
    """On the CPU first: not every device has float64."""
    array: np.ndarray = values.detach().cpu().double().numpy()
    return array


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient a / b, NaN where b is 0."""
    quotient = np.full(a.shape, np.nan)
    np.divide(a, b, out=quotient, where=b != 0)
    return quotient


def _finite(outputs: Tensor) -> np.ndarray:
    """Rows without NaN or infinity; by their extremes, four times faster than `all`."""
    low, high = outputs.aminmax(dim=1)  # NaN if one of them is
    array: np.ndarray = (low.isfinite() & high.isfinite()).cpu().numpy()
    return array


def _classify(outputs: Tensor) -> np.ndarray:
    one = outputs.shape[1] == 1
    predicted = (outputs[:, 0] > 0).long() if one else outputs.argmax(1)
    array: np.ndarray = predicted.cpu().numpy()
    return array


def _margin(outputs: Tensor) -> np.ndarray:
    columns = _float64(outputs)
    if columns.shape[1] == 1:
        return columns[:, 0]
    with np.errstate(invalid="ignore", over="ignore"):
        margin: np.ndarray = columns[:, 1] - columns[:, 0]
    return margin


def _balanced(
    ragged: _Ragged, hit: np.ndarray, label: np.ndarray, classes: int
) -> np.ndarray:
    """Recall of each class that a client has, averaged over those classes."""
    cell = ragged.owner * classes + label
    cells = len(ragged.size) * classes
    have = np.bincount(cell, minlength=cells)
    found = np.bincount(cell, weights=hit, minlength=cells)
    recall = np.divide(found, have, out=np.zeros(cells), where=have > 0)
    present = (have > 0).reshape(-1, classes).sum(1)
    return _ratio(recall.reshape(-1, classes).sum(1), present)


def _auroc(
    ragged: _Ragged, margin: np.ndarray, finite: np.ndarray, positive: np.ndarray
) -> np.ndarray:
    """P(margin of a positive > of a negative) + P(equal)/2, from the sum of ranks.

    With P positives, N negatives and R the sum of the positives' ranks, equal margins
    sharing their mean rank: (R − P(P+1)/2) / (P·N), the Mann-Whitney statistic.
    """
    margin = np.where(finite, margin, np.where(positive, -np.inf, np.inf))
    height = np.unique(margin, return_inverse=True)[1]
    rank = rankdata(ragged.owner * (len(height) + 1) + height)  # client after client
    rank -= (np.cumsum(ragged.size) - ragged.size)[ragged.owner]
    p = ragged.sums(positive)
    wins = ragged.sums(rank * positive) - p * (p + 1) / 2
    return _ratio(wins, p * (ragged.size - p))
