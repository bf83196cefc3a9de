"""Evaluate models on the clients' data and summarize the scores for `summary.json`.

Examples are concatenated client by client: first the size[0] examples of client 0, then
those of client 1, and so on. All clients are scored at once, without a loop over
clients.

References: hanley1982meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices, lookup, numerics
from troth.data import labels
from troth.engine.local_training import Engine
from troth.engine.population import Population
from troth.evaluation import chosen
from troth.networks.task import expect_outputs
from troth.types import Aim, Refusal, Split

LOWER_IS_BETTER = frozenset({"loss", "error", "attack_success"})
"""Names of the scores for which lower values are better."""


def lower_is_better(score: str) -> bool:
    """Return whether lower values of a score are better, as for the loss."""
    return score in LOWER_IS_BETTER or score.endswith(("_loss", "_error"))


Table = dict[str, np.ndarray]

_Show = Callable[[Tensor, Tensor], Tensor]
_EXAMPLES = 2048  # number of examples that are evaluated at once by the shared model
_NUMBERS = 2**29  # parameters of personal models evaluated at once; more is not faster


class _Clients(NamedTuple):
    """The client of each example, and the number of examples of each client."""

    owner: np.ndarray  # [m] the client of each example
    size: np.ndarray  # [n] number of examples of each client

    def sums(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.owner, weights=values, minlength=len(self.size))

    def means(self, values: np.ndarray) -> np.ndarray:
        return _ratio(self.sums(values), self.size)


def score(
    outputs: Tensor, y: Tensor, loss: Tensor, size: np.ndarray, classes: int
) -> Table:
    """Compute the scores of each client.

    An output that is not finite is wrong: the example is misclassified in accuracies,
    has the worst rank in the AUROC, and has an infinite squared error. (With undefined
    scores instead, averages would leave out diverged models.)

    Args:
        outputs: [m, k] outputs of the model. For a classification, there is one logit
            per class. For two classes, there may be a single column, the margin; class
            1 is predicted if it is > 0. For a regression, one column is the prediction.
        y: [m] labels 0 … classes − 1, or the targets of a regression. If an example may
            have several labels, y is [m, classes] of 0 and 1, and every label with a
            logit > 0 is predicted.
        loss: [m] loss of each example.
        size: [n] number of examples of each client. All scores of a client without
            examples are NaN.
        classes: Number of classes; 0 means regression.

    Returns:
        Name of a score → [n] values, one per client. There is always `loss`, the mean
        loss. A classification has `accuracy`, `balanced_accuracy` (mean recall over the
        classes that occur among the client's examples) and, for two classes, `auroc`
        (NaN if only one class occurs). A regression has `error` (mean squared error).
        If examples may have several labels, the scores are `accuracy` (1 − Hamming
        loss), `exact` (fraction of examples with all labels right), `balanced_accuracy`
        (mean recall of the presence and the absence of every label, if it occurs) and
        `auroc` (mean over the labels that some of the client's examples have and others
        lack).
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
    """Return how often each client's model predicts the label that an attacker wants.

    The result [n] is a fraction of the client's examples; NaN if it has none. An output
    that is not finite is not a success.

    Args:
        outputs: [m, k] outputs of the model, in the format of `score`.
        wanted: [m] label that the attacker wants for each example; −1 excludes the
            example.
        size: [n] number of examples of each client.
        several: Whether an example may have several labels. Then it is a success if the
            wanted label is among the predicted labels.
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
    """Return the scores if an example may have several labels."""
    there = y.detach().cpu().numpy()
    if not np.isin(there, (0, 1)).all():
        raise Refusal(
            f"labels run from {there.min()} to {there.max()}; if an example may have "
            "several labels, each entry must be 0 or 1"
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
    """Convert to float64 on the CPU; some devices do not have float64."""
    return np.asarray(values.detach().cpu().double())


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, and NaN where b is 0."""
    return np.asarray(np.divide(a, b, out=np.full(a.shape, np.nan), where=b != 0))


def _predicted(outputs: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted classes, and a mask of the examples with finite outputs."""
    guess = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
    low, high = outputs.aminmax(dim=1)  # NaN if any output is NaN; faster than `all`
    return guess.cpu().numpy(), (low.isfinite() & high.isfinite()).cpu().numpy()


def _balanced(
    clients: _Clients, hit: np.ndarray, label: np.ndarray, classes: int
) -> np.ndarray:
    """Return each client's mean recall over the classes of its examples."""
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
    """Return each client's area under the ROC curve.

    It is the probability that a positive example has a larger margin than a negative
    one, plus half the probability that both are equal. It is computed from ranks by the
    Mann-Whitney statistic (R − P(P+1)/2)/(P·N). P and N are the numbers of positive and
    negative examples, and R is the sum of the ranks of positive examples. Equal margins
    have their mean rank.
    """
    from scipy.stats import rankdata  # takes half a second to load

    margin = np.where(finite, margin, np.where(positive, -np.inf, np.inf))
    height = np.unique(margin, return_inverse=True)[1]
    rank = rankdata(clients.owner * (len(height) + 1) + height)  # client by client
    rank -= (np.cumsum(clients.size) - clients.size)[clients.owner]
    p = clients.sums(positive)
    wins = clients.sums(rank * positive) - p * (p + 1) / 2
    return _ratio(wins, p * (clients.size - p))


def summarise(
    table: Mapping[str, np.ndarray], size: np.ndarray, malicious: np.ndarray
) -> dict[str, float | list[float]]:
    """Compute every metric of every score over the benign clients.

    Malicious clients are left out, as in Ditto's Definitions 1 (robustness) and 2
    (fairness). If a client has an accuracy (or error) but its loss is NaN, its model
    has diverged. The loss is then replaced by infinity.

    Args:
        table: Result of `score`: name of a score → [n] values, one per client.
        size: [n] numbers of test examples, the weights in the metric `weighted`.
        malicious: [n] mask of the malicious clients.

    Returns:
        Name → value. Names are `{score}_{metric}`, such as `accuracy_mean` or
        `loss_std`. If there are malicious clients, there is also
        `malicious_accuracy_mean` (for a regression `malicious_error_mean`). A value is
        NaN if no client has the score.
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
            higher_is_better=not lower_is_better(column),
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
    """Return the scores of the shared model w on the examples of each client in `ids`.

    With an attacker's goal `aim`, the table also has the attacker's success rate,
    `attack_success`.
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
    """Return the mean loss of the shared model w on each client's examples, [n].

    The loss of a client without examples is NaN. The examples of client k are in the
    slots first[k] to first[k] + size[k] − 1 of the split. The function is fast and does
    not wait for the device, because a server rule may need losses in every round.
    """
    slots, each = devices.sent(_slots(first, size), w.device), []
    for slot in torch.split(slots, _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        with engine.products():
            each.append(engine.objective.per_example(engine.task.predict(w, x), y))
    loss = torch.cat([*each, w.new_zeros(1)])  # the last entry serves as padding
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
    """Return the scores of each client's personal model on the client's examples.

    With an attacker's goal `aim`, the table also has `attack_success`.
    """
    (first, size), shows = _places(split, ids), _shows(aim)
    order = np.argsort(size, kind="stable")  # similar sizes together: less padding
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
    """Return functions (x, y) → inputs of the model.

    The first one returns the clean inputs. With an `aim`, there is a second one, which
    returns the attacker's inputs.
    """
    plain: _Show = lambda x, y: x  # noqa: E731
    return [plain] if aim is None else [plain, lambda x, y: aim(x, y)[0]]


def _chunk(engine: Engine, population: Population) -> int:
    """Return the number of models to evaluate at once, by the free memory."""
    numbers = engine.task.d * 3 + population.width
    one = engine.feed.dtype.itemsize * numbers + 2**16
    most = min(256, _NUMBERS // numbers)
    return int(max(1, min(most, devices.free(engine.device) // 8 // one)))


def _places(split: Split, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each client's first slot in a split, and its number of examples."""
    clients = torch.from_numpy(ids).to(split.size.device)
    return split.start[clients].cpu().numpy(), split.size[clients].cpu().numpy()


def _slots(first: np.ndarray, size: np.ndarray) -> Tensor:
    """Return the slots of all examples, client by client."""
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
    """Return the scores of outputs on clean inputs and, with `aim`, the attacker's."""
    plain, *aimed = (torch.cat(list(parts)) for parts in outputs)
    y = split.y[slots.to(split.y.device)]
    loss = engine.objective.per_example(plain, y)
    classes, y = engine.task.classes, labels.likely(y)
    table = score(plain.cpu(), y.cpu(), loss.cpu(), size, classes)
    table |= chosen.columns(engine.scores, plain, y, size, classes)
    if aim is not None:
        parts = torch.split(slots, _EXAMPLES)
        each = [aim(*engine.feed.gather(slot, split))[1].cpu() for slot in parts]
        wanted, several = torch.cat(each), y.dim() == 2
        table["attack_success"] = success(aimed[0].cpu(), wanted, size, several)
    return table
