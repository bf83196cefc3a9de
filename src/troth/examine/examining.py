"""One client's model beside the shared one: a row of an audit.

@inproceedings{wang2021robust,
  title={Robust and Personalized Federated Learning with Spurious Features: an
    Adversarial Approach},
  author={Wang, Xiaoyang and Zhao, Han and Nahrstedt, Klara and Koyejo, Sanmi},
  booktitle={NeurIPS Workshop on New Frontiers in Federated Learning}, year={2021}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import numerics
from troth.build import Built
from troth.certificates.bounds import lower, upper
from troth.client.adversarial._worst import Adversarial
from troth.data import labels
from troth.examine.transferability import Bound, Seen, Terms, bound, look, terms
from troth.types import Batch, Split, Task

ALPHA = 0.05
"""How often an interval may miss the truth."""
_EXAMPLES = 512  # at once
Row = dict[str, float]


class Setting(NamedTuple):
    """All that the clients are looked at with."""

    built: Built
    task: Task
    adversarial: Adversarial
    w: Tensor
    on: Split
    conflicting: Split | None
    eps: float  # 0: Theorem 3 is about other data


def batches(a: Setting, split: Split, client: int) -> Iterator[Batch]:
    """A client's examples of a split, some at a time."""
    feed = a.built.federation.engine.feed
    first, count = int(split.start[client]), int(split.size[client])
    key = feed.keys(np.array([client]), 0)[0].to(a.w.device)
    for i in range(0, count, _EXAMPLES):
        slots = torch.arange(first + i, first + min(count, i + _EXAMPLES))
        x, y = feed.gather(slots, split)
        weight = x.new_full((len(x),), 1 / len(x), dtype=a.w.dtype)
        none = torch.zeros((), dtype=torch.long, device=x.device)
        yield Batch(x, y, weight, none + i, none, key)


def row(a: Setting, client: int, v: Tensor) -> Row:
    """All that is said of a client's own model v, but the verdicts."""
    given = a.task, a.adversarial, a.w, v
    parts = [look(*given, batch) for batch in batches(a, a.on, client)]
    if not parts:
        return {"examples": 0}
    whole = (torch.cat(list(part)).cpu().double() for part in zip(*parts, strict=True))
    seen = Seen(*whole)
    m, adv = len(seen.right), float(seen.adv_right.sum())
    more = float((seen.adv_right - seen.shared_adv_right).clamp(min=0).sum())
    less = float((seen.shared_adv_right - seen.adv_right).clamp(min=0).sum())
    distance = numerics.off_tail(v - a.w, a.task.tail).cpu().double().norm()
    found = {
        "examples": m,
        "accuracy": float(seen.right.mean()),
        "shared_accuracy": float(seen.shared_right.mean()),
        "adv_accuracy": adv / m,
        **_named("adv", _interval(adv, m, ALPHA)),
        "transferability": 1 - adv / m,
        "shared_adv_accuracy": float(seen.shared_adv_right.mean()),
        "change": (more - less) / m,
        **_named("change", _apart((more, m), (less, m))),
        "l_trans": float(seen.l_trans.mean()),
        "angle": float(seen.angle.nanmean()),
        "ratio": float(seen.ratio.nanmedian()),
        "distance": float(distance),
        "valid_gain": _gain(a, client, v),
        "confidence": float(seen.confidence.mean()),
    }
    return found | _disparity(a, client, v) | _bound(a, client, v)


def _interval(count: float, m: int, alpha: float) -> tuple[float, float]:
    """Of Clopper and Pearson; halves that several labels make are rounded outwards."""
    low = lower(np.floor(count), m, alpha / 2)
    return float(low), float(upper(np.ceil(count), m, alpha / 2))


def _apart(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, float]:
    """For the difference of two shares, however they depend on each other."""
    one, two = (_interval(count, m, ALPHA / 2) for count, m in (a, b))
    return one[0] - two[1], one[1] - two[0]


def _named(name: str, interval: tuple[float, float]) -> Row:
    return {f"{name}_low": interval[0], f"{name}_high": interval[1]}


def _plain(a: Setting, client: int, v: Tensor, split: Split) -> tuple[Tensor, Tensor]:
    """Whether a model is right on the examples of a split, and its losses."""
    right, losses = [torch.zeros(0)], [torch.zeros(0)]
    for batch in batches(a, split, client):
        x = batch.x.to(v.dtype)
        outputs, loss, _ = a.task.climb(v, x, batch.y, True)
        right.append(labels.right(outputs, batch.y).cpu())
        losses.append(loss.cpu())
    return torch.cat(right).double(), torch.cat(losses).double()


def _gain(a: Setting, client: int, v: Tensor) -> float:
    """Validation accuracy beside that of the shared model; NaN without such data."""
    valid = a.built.data.valid
    own, shared = (_plain(a, client, model, valid)[0] for model in (v, a.w))
    return float((own - shared).mean())


def _disparity(a: Setting, client: int, v: Tensor) -> Row:
    """Acc_B − Acc_BC, where conflicting examples are known."""
    if a.conflicting is None:
        return {}
    right, loss = _plain(a, client, v, a.built.data.test)
    other, other_loss = _plain(a, client, v, a.conflicting)
    found: Row = {"conflicting": len(other)}
    if not len(right) or not len(other):
        return found
    shared = (
        _plain(a, client, a.w, of)[0] for of in (a.built.data.test, a.conflicting)
    )
    pair = (float(right.sum()), len(right)), (float(other.sum()), len(other))
    return found | {
        "conflicting_accuracy": float(other.mean()),
        "disparity": float(right.mean() - other.mean()),
        **_named("disparity", _apart(*pair)),
        "shared_disparity": float(next(shared).mean() - next(shared).mean()),
        "loss_disparity": float(other_loss.mean() - loss.mean()),
    }


def _bound(a: Setting, client: int, v: Tensor) -> Row:
    """Theorem 3, on coloured data."""
    if not a.eps:
        return {}
    given = a.task, a.built.facts["scale"], a.eps, a.w, v
    each = [terms(*given, batch) for batch in batches(a, a.on, client)]
    whole = Terms(*(torch.cat(list(t)) for t in zip(*each, strict=True)))
    total, *others = bound(whole, a.eps)
    names = (f"bound_{name}" for name in Bound._fields[1:])
    return {"bound": total, **dict(zip(names, others, strict=True))}
