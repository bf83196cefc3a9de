"""Compute the scores that `evaluate.scores` names, client by client."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import lookup
from troth.config.schema import Part
from troth.types import Refusal

Score = Callable[..., Any]
_SCORES = ("accuracy", "balanced_accuracy", "exact", "auroc", "error", "loss")
_BUILT_IN = frozenset({*_SCORES, "attack_success"})
_FACTS = frozenset({"client", "owner", "malicious", "newcomer", "imputed", "round"})
_COUNTS = frozenset({"train", "valid", "test", "asked", "absent", "cut", "dropped"})
_VERDICTS = frozenset({"clipped", "chosen", "downweighted"})
_TAKEN = _BUILT_IN | _FACTS | _COUNTS | _VERDICTS
_PREFIXES = ("shared_", "valid_")  # columns of clients.csv start with them


class Chosen(NamedTuple):
    """A score with its options, and the name of its columns."""

    name: str
    function: Score
    options: dict[str, Any]


def chosen(parts: Sequence[Part]) -> tuple[Chosen, ...]:
    """Find the scores of an experiment; refuse two with the same name."""
    found: list[Chosen] = []
    for part in parts:
        name = part.name.rpartition(":")[2]
        if name in [one.name for one in found]:
            raise Refusal(f"evaluate.scores names '{name}' twice; keep one of the two")
        found.append(Chosen(name, lookup.find("score", part.name), part.options))
    return tuple(found)


def columns(
    scores: Sequence[Chosen], outputs: Tensor, y: Tensor, size: np.ndarray, classes: int
) -> dict[str, np.ndarray]:
    """Compute scores for each client; arguments as in `evaluate.score`.

    Returns:
        Column → [n] values; NaN for a client without examples.
    """
    if not scores:
        return {}
    given = _given(outputs, y, classes)
    ends = np.cumsum(size)
    places = [slice(b - k, b) for b, k in zip(ends, size, strict=True)]
    found: dict[str, np.ndarray] = {}
    for score in scores:
        for client in np.flatnonzero(size):
            own = {
                k: None if v is None else v[places[client]] for k, v in given.items()
            }
            for part, value in _parts(score, own, classes).items():
                found.setdefault(part, np.full(len(size), np.nan))[client] = value
    return found


def _parts(
    score: Chosen, own: dict[str, np.ndarray | None], classes: int
) -> dict[str, float]:
    """Return column → value of one client."""
    made = lookup.call(score.function, score.options, classes=classes, **own)
    each = made if isinstance(made, dict) else {"": made}
    try:
        return {
            f"{score.name}_{part}".rstrip("_"): float(value)
            for part, value in each.items()
        }
    except (TypeError, ValueError):
        raise Refusal(
            f"score '{score.name}' returns {made!r}; it must return a number, or a "
            "dictionary of names and numbers"
        ) from None


def _given(outputs: Tensor, y: Tensor, classes: int) -> dict[str, np.ndarray | None]:
    """Return the arrays that a score may ask for, over all examples."""
    wide, label = outputs.detach().cpu().double(), y.detach().cpu().numpy()
    if classes == 0:
        return {"y": label, "predicted": wide[:, 0].numpy(), "probability": None}
    if y.dim() == 2:
        probability = wide.sigmoid()
        return {
            "y": label,
            "predicted": torch.where(wide.isfinite(), (wide > 0).long(), -1).numpy(),
            "probability": probability.numpy(),
        }
    if wide.shape[1] == 1:  # a margin
        wide = torch.cat([torch.zeros_like(wide), wide], dim=1)
    predicted = np.where(
        wide.isfinite().all(dim=1).numpy(), wide.argmax(dim=1).numpy(), -1
    )
    probability = wide.softmax(dim=1)
    return {"y": label, "predicted": predicted, "probability": probability.numpy()}


def tried(
    scores: Sequence[Chosen], classes: int, several: bool, taken: Collection[str] = ()
) -> None:
    """Call every score once, so that it can refuse the data before training.

    Args:
        scores: Scores of the experiment.
        classes: Number of classes; 0 for a regression.
        several: Whether an example may have several labels.
        taken: Further names that columns of `clients.csv` have.

    Raises:
        Refusal: a score has the name of another column of `clients.csv`.
    """
    width = max(1, classes)
    y = torch.zeros((1, width) if several else 1).long()
    y = y if classes else y.double()
    found = columns(scores, torch.zeros(1, width), y, np.array([1]), classes)
    others = {*_TAKEN, *taken}
    others |= {word + name for word in _PREFIXES for name in {*_BUILT_IN, *found}}
    for name in found:
        if name in others:
            raise Refusal(
                f"the score '{name}' of evaluate.scores has the name of another column "
                "of clients.csv; give your function another name"
            )
