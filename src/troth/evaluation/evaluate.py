"""Models on the clients' data → numbers per client → the numbers of `summary.json`.

Clients are ragged: client k has the slots start[k] … start[k] + size[k] − 1. All of
them are scored at once, by sums over slots; no loop runs over clients.

References: hanley1982meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from troth import devices, lookup, numerics
from troth.data import labels
from troth.engine.engine import Engine
from troth.engine.population import Population
from troth.networks.task import expect_outputs
from troth.types import Aim, Refusal, Split


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
        table: Column → [n] one value per client, as `score` gives it.
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


Table = dict[str, np.ndarray]

_Show = Callable[[Tensor, Tensor], Tensor]
_EXAMPLES = 2048  # of the shared model at once
_NUMBERS = 2**29  # of personal models; more at once are not faster


class _Slots(NamedTuple):
    """All examples of some clients, one client after another."""

    slot: Tensor  # [slots] in the split
    start: np.ndarray  # [n] where each client begins here
    size: np.ndarray  # [n]


@torch.no_grad()
def shared(
    engine: Engine, w: Tensor, split: Split, ids: np.ndarray, aim: Aim | None = None
) -> Table:
    """The shared model on each client's own examples.

    Args:
        engine: predicts.
        w: [d] the shared model.
        split: which examples.
        ids: of which clients.
        aim: what an attacker is after: then the table says how often it succeeds.
    """
    where, shows = _slots(split, ids), _shows(aim)
    outputs: list[list[Tensor]] = [[] for _ in shows]
    for slot in torch.split(where.slot, _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        for show, found in zip(shows, outputs, strict=True):
            shown = show(x, y)
            with engine.products():
                found.append(engine.task.predict(w, shown))
    return _table(engine, outputs, split, where, aim)


@torch.no_grad()
def losses(
    engine: Engine, w: Tensor, split: Split, first: np.ndarray, size: np.ndarray
) -> Tensor:
    """[n] the mean loss of the shared model on clients' examples; NaN without any.

    As `shared` has it, but alone and on the device, which nobody waits for: a rule that
    reads losses asks for them in every round.

    Args:
        engine: predicts.
        w: [d] the shared model.
        split: which examples.
        first: [n] the first slot of each client.
        size: [n] how many it has.
    """
    where, each = _placed(first, size), []
    for slot in torch.split(devices.sent(where.slot, w.device), _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        with engine.products():
            each.append(engine.objective.per_example(engine.task.predict(w, x), y))
    found = torch.cat([*each, w.new_zeros(1)])  # and a place for padding
    found = found.to(numerics.widest(found))
    position = np.arange(size.max(initial=0))
    inside = position < size[:, None]
    place = np.where(inside, where.start[:, None] + position, len(found) - 1)
    rows = found[devices.sent(torch.from_numpy(place), w.device)]
    return rows.sum(dim=1) / devices.sent(torch.from_numpy(size), w.device)


@torch.no_grad()
def personal(
    engine: Engine,
    w: Tensor,
    population: Population,
    split: Split,
    ids: np.ndarray,
    aim: Aim | None = None,
) -> Table:
    """Each client's own model on its own examples; arguments as of `shared`."""
    where, shows = _slots(split, ids), _shows(aim)
    order = np.argsort(where.size, kind="stable")  # neighbors pad each other little
    outputs = [[torch.empty(0)] * len(ids) for _ in shows]
    chunk = _chunk(engine, population)
    groups = [order[k : k + chunk] for k in range(0, len(ids), chunk)]
    every = population.each(ids[some] for some in groups)
    for some, (clients, rows) in zip(groups, every, strict=True):
        batch = engine.feed.whole(clients, split)
        models = engine.models(w, engine.settled(rows, clients))
        flat = batch.x.flatten(0, 1), batch.y.flatten(0, 1)
        for show, found in zip(shows, outputs, strict=True):
            out = engine.predict(models, show(*flat).reshape(batch.x.shape))
            for place, k in enumerate(some):
                found[k] = out[place, : where.size[k]]
    return _table(engine, outputs, split, where, aim)


def _shows(aim: Aim | None) -> list[_Show]:
    """What models are shown: the inputs as they are, and as an attacker has them."""
    plain: _Show = lambda x, y: x  # noqa: E731
    return [plain] if aim is None else [plain, lambda x, y: aim(x, y)[0]]


def _chunk(engine: Engine, population: Population) -> int:
    """How many models are evaluated at once: at most an eighth of what is free."""
    numbers = engine.task.d * 3 + population.width
    one = engine.feed.dtype.itemsize * numbers + 2**16
    most = min(256, _NUMBERS // numbers)
    return int(max(1, min(most, devices.free(engine.device) // 8 // one)))


def _slots(split: Split, ids: np.ndarray) -> _Slots:
    clients = torch.from_numpy(ids).to(split.size.device)
    return _placed(*(part[clients].cpu().numpy() for part in (split.start, split.size)))


def _placed(first: np.ndarray, size: np.ndarray) -> _Slots:
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    slots = np.arange(size.sum()) - np.repeat(start - first, size)
    return _Slots(torch.from_numpy(slots), start, size)


def _table(
    engine: Engine,
    outputs: Sequence[Sequence[Tensor]],
    split: Split,
    where: _Slots,
    aim: Aim | None,
) -> Table:
    """Scores of the outputs on inputs as they are, and what an attacker's come to."""
    plain, *aimed = (torch.cat(list(found)) for found in outputs)
    y, place = split.y[where.slot.to(split.y.device)], (where.start, where.size)
    loss = engine.objective.per_example(plain, y)
    classes, y = engine.task.classes, labels.likely(y)
    table = score(plain.cpu(), y.cpu(), loss.cpu(), *place, classes)
    if aim is not None:
        parts = torch.split(where.slot, _EXAMPLES)
        each = [aim(*engine.feed.gather(slot, split))[1].cpu() for slot in parts]
        wanted, several = torch.cat(each), y.dim() == 2
        table["attack_success"] = success(aimed[0].cpu(), wanted, *place, several)
    return table
