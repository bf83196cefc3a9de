"""Models on the clients' data → numbers per client → the numbers of `summary.json`.

Examples stand client after client: first the size[0] of client 0, and so on. All
clients are scored at once, by sums over their examples; no loop runs over clients.

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
from troth.engine.local_training import Engine
from troth.engine.population import Population
from troth.networks.task import expect_outputs
from troth.types import Aim, Refusal, Split

LOWER_IS_BETTER = frozenset({"loss", "error", "attack_success"})
"""Columns of which the highest value is the worst."""

Table = dict[str, np.ndarray]

_Show = Callable[[Tensor, Tensor], Tensor]
_EXAMPLES = 2048  # of the shared model at once
_NUMBERS = 2**29  # of personal models; more at once are not faster


class _Clients(NamedTuple):
    """Whose the examples are."""

    owner: np.ndarray  # [m] the client of each example
    size: np.ndarray  # [n] how many examples each client has

    def sums(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.owner, weights=values, minlength=len(self.size))

    def means(self, values: np.ndarray) -> np.ndarray:
        return _ratio(self.sums(values), self.size)


def score(
    outputs: Tensor, y: Tensor, loss: Tensor, size: np.ndarray, classes: int
) -> Table:
    """Score each client.

    Outputs that are not finite count as wrong: for the accuracies the example is
    missed, for the AUROC it is ranked on the wrong end, and its squared error is
    infinite. Otherwise a diverged model would drop out of the averages as undefined.

    Args:
        outputs: [m, k] one logit per class; with two classes one column is a margin,
            class 1 when > 0; for regression one column, the prediction.
        y: [m] labels 0 … classes−1, or targets; [m, classes] of 0 and 1 where an
            example may have several labels: predicted are those of a logit > 0.
        loss: [m] the loss of each example.
        size: [n] how many examples each client has; without any, all scores are NaN.
        classes: how many classes; 0 is regression.

    Returns:
        Vectors [n]: always the mean `loss`. Classes: `accuracy`, `balanced_accuracy`
        (mean recall over the classes that the client's examples have) and, with two
        classes, `auroc` (NaN for a client with one class only). Regression: `error`
        (mean squared error). Several labels: `accuracy` (1 − Hamming loss), `exact`
        (share of examples with all labels right), `balanced_accuracy` (mean recall of
        having and of lacking each label, over those that occur) and `auroc` (its mean
        over the labels that some of the client's examples have and some lack).
    """
    expect_outputs(outputs, y, classes)
    clients = _clients(size)
    if classes == 0:
        scores = _regression(clients, outputs, y)
    elif y.ndim == 2:
        scores = _several(clients, outputs, y)
    else:
        scores = _classification(clients, outputs, y, classes)
    return scores | {"loss": clients.means(_float64(loss))}


def success(
    outputs: Tensor, wanted: Tensor, size: np.ndarray, several: bool
) -> np.ndarray:
    """Return how often each client's model predicts what an attacker wants, [n].

    The share of examples that count; NaN without any. Outputs that are not finite are
    no success; where an example may have `several` labels, the wanted one must be among
    the predicted ones.

    Args:
        outputs: [m, k] as `score` takes them.
        wanted: [m] the label that is wanted; −1: the example does not count.
        size: [n] how many examples each client has.
        several: whether an example may have several labels.
    """
    clients, label = _clients(size), np.asarray(wanted.detach().cpu().long())
    guess, finite = _predicted(outputs)
    hit = guess == label
    if several:
        hit = _float64(outputs)[np.arange(len(label)), label.clip(min=0)] > 0
    counts = label >= 0
    return _ratio(clients.sums(counts & hit & finite), clients.sums(counts))


def _clients(size: np.ndarray) -> _Clients:
    size = np.asarray(size, np.int64)
    return _Clients(np.repeat(np.arange(len(size)), size), size)


def _regression(clients: _Clients, outputs: Tensor, y: Tensor) -> Table:
    with np.errstate(over="ignore"):
        error = (_float64(outputs)[:, 0] - _float64(y)) ** 2
    return {"error": clients.means(np.where(np.isnan(error), np.inf, error))}


def _classification(
    clients: _Clients, outputs: Tensor, y: Tensor, classes: int
) -> Table:
    label, (guess, finite) = np.asarray(y.detach().cpu().long()), _predicted(outputs)
    hit = finite & (guess == label)
    scores = {
        "accuracy": clients.means(hit),
        "balanced_accuracy": _balanced(clients, hit, label, classes),
    }
    if classes == 2:
        columns = _float64(outputs)
        with np.errstate(invalid="ignore", over="ignore"):
            margin = columns[:, -1] - (columns[:, 0] if columns.shape[1] == 2 else 0)
        scores["auroc"] = _auroc(clients, margin, finite, label == 1)
    return scores


def _several(clients: _Clients, outputs: Tensor, y: Tensor) -> Table:
    """Score each label of each example, which has it or lacks it."""
    there = y.detach().cpu().numpy()
    if not np.isin(there, (0, 1)).all():
        raise Refusal(
            f"labels run from {there.min()} to {there.max()}; where an example may "
            "have several they must be 0 or 1"
        )
    margin = _float64(outputs)
    finite, has = np.isfinite(margin), there == 1
    hit, count = finite & ((margin > 0) == has), has.shape[1]
    cell = (2 * np.arange(count) + has).reshape(-1)
    each = clients._replace(owner=np.repeat(clients.owner, count))
    columns = zip(margin.T, finite.T, has.T, strict=True)
    auroc = np.stack([_auroc(clients, *column) for column in columns])
    known = ~np.isnan(auroc)
    return {
        "accuracy": clients.means(hit.mean(axis=1)),
        "exact": clients.means(hit.all(axis=1)),
        "balanced_accuracy": _balanced(each, hit.reshape(-1), cell, 2 * count),
        "auroc": _ratio(np.where(known, auroc, 0).sum(axis=0), known.sum(axis=0)),
    }


def _float64(values: Tensor) -> np.ndarray:
    """Convert on the CPU: not every device has float64."""
    return np.asarray(values.detach().cpu().double())


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, NaN where b is 0."""
    return np.asarray(np.divide(a, b, out=np.full(a.shape, np.nan), where=b != 0))


def _predicted(outputs: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted classes, and which rows are finite (by their extremes)."""
    guess = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
    low, high = outputs.aminmax(dim=1)  # NaN if one of them is; faster than `all`
    return guess.cpu().numpy(), (low.isfinite() & high.isfinite()).cpu().numpy()


def _balanced(
    clients: _Clients, hit: np.ndarray, label: np.ndarray, classes: int
) -> np.ndarray:
    """Average the recall of each class over the classes that a client has."""
    cell = clients.owner * classes + label
    cells = len(clients.size) * classes
    have = np.bincount(cell, minlength=cells)
    right = np.bincount(cell, weights=hit, minlength=cells)
    recall = np.divide(right, have, out=np.zeros(cells), where=have > 0)
    present = (have > 0).reshape(-1, classes).sum(1)
    return _ratio(recall.reshape(-1, classes).sum(1), present)


def _auroc(
    clients: _Clients, margin: np.ndarray, finite: np.ndarray, positive: np.ndarray
) -> np.ndarray:
    """Return P(margin of a positive > of a negative) + P(equal)/2, by sums of ranks.

    With P positives, N negatives and R the sum of the positives' ranks, equal margins
    sharing their mean rank: (R − P(P+1)/2) / (P·N), the Mann-Whitney statistic.
    """
    margin = np.where(finite, margin, np.where(positive, -np.inf, np.inf))
    height = np.unique(margin, return_inverse=True)[1]
    rank = rankdata(clients.owner * (len(height) + 1) + height)  # client after client
    rank -= (np.cumsum(clients.size) - clients.size)[clients.owner]
    p = clients.sums(positive)
    wins = clients.sums(rank * positive) - p * (p + 1) / 2
    return _ratio(wins, p * (clients.size - p))


def summarise(
    table: Mapping[str, np.ndarray], size: np.ndarray, malicious: np.ndarray
) -> dict[str, float | list[float]]:
    """Compute every metric of every column, over benign clients.

    Benign clients only, as in Ditto's Definitions 1 (robustness) and 2 (fairness).
    Where a client has an accuracy (or error) but its loss is NaN, its model has
    diverged, and the loss counts as infinite.

    Args:
        table: column → [n] one value per client, as `score` gives it.
        size: [n] test examples, which weigh `…_weighted`.
        malicious: [n] whether a client is an adversary.

    Returns:
        `{column}_{metric}`, such as `accuracy_mean` or `loss_std`; with adversaries
        also `malicious_accuracy_mean` (regression: `malicious_error_mean`). Nothing is
        rounded; a number is NaN where no client has a value.
    """
    size, malicious = np.asarray(size), np.asarray(malicious, dtype=bool)
    columns = {c: np.asarray(v, dtype=np.float64) for c, v in table.items()}
    head = next((c for c in ("accuracy", "error") if c in columns), "")
    if head and "loss" in columns:
        diverged = np.isnan(columns["loss"]) & ~np.isnan(columns[head])
        columns["loss"] = np.where(diverged, np.inf, columns["loss"])

    def metric(name: str, column: str, who: np.ndarray) -> float | list[float]:
        number: float | list[float] = lookup.call(
            lookup.find("metric", name),
            lookup.check("metric", name, {}),
            values=columns[column][who],
            size=size[who],
            higher_is_better=column not in LOWER_IS_BETTER,
        )
        return number

    every = [(column, name) for column in columns for name in lookup.names("metric")]
    summary = {f"{c}_{name}": metric(name, c, ~malicious) for c, name in every}
    if head and malicious.any():
        summary[f"malicious_{head}_mean"] = metric("mean", head, malicious)
    return summary


@torch.no_grad()
def shared(
    engine: Engine, w: Tensor, split: Split, ids: np.ndarray, aim: Aim | None = None
) -> Table:
    """Score the shared model w on each client's own examples.

    With an attacker's `aim`, the table has its rate of success.
    """
    (first, size), shows = _places(split, ids), _shows(aim)
    slots = _slots(first, size)
    outputs: list[list[Tensor]] = [[] for _ in shows]
    for slot in torch.split(slots, _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        for show, parts in zip(shows, outputs, strict=True):
            shown = show(x, y)
            with engine.products():
                parts.append(engine.task.predict(w, shown))
    return _table(engine, outputs, split, slots, size, aim)


@torch.no_grad()
def losses(
    engine: Engine, w: Tensor, split: Split, first: np.ndarray, size: np.ndarray
) -> Tensor:
    """Return the shared model's mean loss [n] on clients' examples; NaN without any.

    As in `shared`, but alone, and without waiting for the device: a rule that reads
    losses asks for them in every round. Client k has size[k] slots from first[k] on.
    """
    slots, each = devices.sent(_slots(first, size), w.device), []
    for slot in torch.split(slots, _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        with engine.products():
            each.append(engine.objective.per_example(engine.task.predict(w, x), y))
    loss = torch.cat([*each, w.new_zeros(1)])  # and a place for padding
    loss = loss.to(numerics.widest(loss))
    position, before = np.arange(size.max(initial=0)), np.cumsum(size) - size
    inside = position < size[:, None]
    place = np.where(inside, before[:, None] + position, len(loss) - 1)
    rows = loss[devices.sent(torch.from_numpy(place), w.device)]
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
    """Score each client's own model on its own examples; arguments as of `shared`."""
    (first, size), shows = _places(split, ids), _shows(aim)
    order = np.argsort(size, kind="stable")  # neighbors pad each other little
    outputs = [[torch.empty(0)] * len(ids) for _ in shows]
    chunk = _chunk(engine, population)
    groups = [order[k : k + chunk] for k in range(0, len(ids), chunk)]
    every = population.each(ids[some] for some in groups)
    for some, (clients, rows) in zip(groups, every, strict=True):
        batch = engine.feed.whole(clients, split)
        models = engine.models(w, engine.settled(rows, clients))
        flat = batch.x.flatten(0, 1), batch.y.flatten(0, 1)
        for show, parts in zip(shows, outputs, strict=True):
            out = engine.predict(models, show(*flat).reshape(batch.x.shape))
            for place, k in enumerate(some):
                parts[k] = out[place, : size[k]]
    return _table(engine, outputs, split, _slots(first, size), size, aim)


def _shows(aim: Aim | None) -> list[_Show]:
    """Return what models are shown: the inputs, and those that an attacker makes."""
    plain: _Show = lambda x, y: x  # noqa: E731
    return [plain] if aim is None else [plain, lambda x, y: aim(x, y)[0]]


def _chunk(engine: Engine, population: Population) -> int:
    """Choose how many models to evaluate at once, in an eighth of the free memory."""
    numbers = engine.task.d * 3 + population.width
    one = engine.feed.dtype.itemsize * numbers + 2**16
    most = min(256, _NUMBERS // numbers)
    return int(max(1, min(most, devices.free(engine.device) // 8 // one)))


def _places(split: Split, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first slot of some clients in a split, and how many each has."""
    clients = torch.from_numpy(ids).to(split.size.device)
    return split.start[clients].cpu().numpy(), split.size[clients].cpu().numpy()


def _slots(first: np.ndarray, size: np.ndarray) -> Tensor:
    """Return all slots of some clients, client after client."""
    before = np.cumsum(size) - size
    return torch.from_numpy(np.arange(size.sum()) + np.repeat(first - before, size))


def _table(
    engine: Engine,
    outputs: Sequence[Sequence[Tensor]],
    split: Split,
    slots: Tensor,
    size: np.ndarray,
    aim: Aim | None,
) -> Table:
    """Score the outputs on the inputs, and on those of an attacker."""
    plain, *aimed = (torch.cat(list(parts)) for parts in outputs)
    y = split.y[slots.to(split.y.device)]
    loss = engine.objective.per_example(plain, y)
    classes, y = engine.task.classes, labels.likely(y)
    table = score(plain.cpu(), y.cpu(), loss.cpu(), size, classes)
    if aim is not None:
        parts = torch.split(slots, _EXAMPLES)
        each = [aim(*engine.feed.gather(slot, split))[1].cpu() for slot in parts]
        wanted, several = torch.cat(each), y.dim() == 2
        table["attack_success"] = success(aimed[0].cpu(), wanted, size, several)
    return table
