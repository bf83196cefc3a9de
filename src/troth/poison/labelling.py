"""What a crafted model says of crafted inputs, as labels one can report."""

from __future__ import annotations

from typing import Literal

import numpy as np

from troth import seeding
from troth.poison._given import Examples
from troth.poison.indifference import Head, checked
from troth.types import Refusal


def probabilities(head: Head, x: np.ndarray) -> np.ndarray:
    """[m, classes] softmax of Wx + b; of a single margin z, (1 − σ(z), σ(z))."""
    weight, bias = checked(head)
    if x.ndim != 2 or x.shape[1] != weight.shape[1]:
        raise Refusal(
            f"inputs have shape {x.shape} and the model takes {weight.shape[1]} "
            "features; give one row an example"
        )
    logits = x @ weight.T + bias
    if len(weight) == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    share: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return share


def labelled(
    head: Head,
    x: np.ndarray,
    seed: int,
    *,
    labels: Literal["soft", "sampled", "repeated"] = "soft",
    repeats: int = 10,
) -> Examples:
    """Inputs with the labels that a model gives them (Appendices L.1 and L.2).

    Args:
        head: θ♠.
        x: [m, d].
        seed: of sampled labels.
        labels: soft = probabilities, as the authors' code has it; sampled = one label
            each, drawn from them; repeated = every input `repeats` times, with whole
            numbers of each label that come nearest to them.
        repeats: how often; a share is then off by less than 1/repeats.
    """
    p = probabilities(head, x)
    if labels == "soft":
        return Examples(x, p.argmax(axis=1), p)
    if labels == "sampled":
        u = seeding.generator(seed, "poison/labels").random((len(x), 1))
        y = (p.cumsum(axis=1)[:, :-1] < u).sum(axis=1)
        return Examples(x, y)
    counts = whole_numbers(p, repeats)
    row, label = np.nonzero(counts)
    times = counts[row, label]
    return Examples(x[np.repeat(row, times)], np.repeat(label, times))


def whole_numbers(p: np.ndarray, repeats: int) -> np.ndarray:
    """[m, classes] counts that sum to `repeats`, nearest to repeats·p.

    Rounded down, then one more for the largest remainders: none is off by 1 or more.
    """
    if repeats < 1:
        raise Refusal(f"repeats = {repeats} must be at least 1: each input is labelled")
    wanted = repeats * p
    counts = np.floor(wanted).astype(np.int64)
    left = repeats - counts.sum(axis=1, keepdims=True)
    order = np.argsort(counts - wanted, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    counted: np.ndarray = counts + (rank < left)
    return counted
