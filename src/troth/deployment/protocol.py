"""Check the replies of sites before a filter or the aggregator reads them.

A reply may consist of arbitrary bytes, so nothing in it is trusted. If it is not valid,
Refusal is raised with a reason. A vector is read only if its type and size are right.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from troth.types import Refusal

RAW = "troth.raw"
"""Name of the format of vectors in messages: little-endian numbers without a header."""

_KINDS = {torch.float32: "float32", torch.float64: "float64"}
_KEYS = {"round", "run", "name", "size", "loss", "card"}
_CARD = 100_000  # largest number of characters of a card

Card = dict[str, float]
"""The scores that a site reports for its personal model and for the shared model."""


class Wired(Protocol):
    """A vector in the format of messages, before it is checked."""

    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes


class Expected(NamedTuple):
    """What a reply must contain to be counted."""

    d: int  # length of the update
    extra: int  # length of the solver's extra vector; 0: none
    dtype: torch.dtype
    round: int
    run: str  # random token that identifies the run
    most: int  # largest number of examples that counts
    loss: bool  # whether a filter or the aggregator uses losses
    card: bool = False  # whether the site reports its scores


class Answer(NamedTuple):
    """A valid reply, which may be aggregated."""

    update: Tensor  # [d]
    extra: Tensor  # [e]
    loss: float
    size: int
    card: Card


def pack(vector: Tensor) -> tuple[str, tuple[int, ...], str, bytes]:
    """Convert a vector to the format of messages: the four fields of `Wired`."""
    flat = vector.detach().cpu().contiguous().numpy()
    kind = _KINDS[vector.dtype]
    return kind, (len(flat),), RAW, flat.astype(f"<f{flat.itemsize}").tobytes()


def unpack(name: str, wired: Wired, count: int, dtype: torch.dtype) -> Tensor:
    """Convert a vector from the format of messages to a tensor.

    Raise Refusal unless it has `count` finite numbers of type `dtype`.
    """
    kind = _KINDS[dtype]
    if wired.stype != RAW or wired.dtype != kind:
        raise Refusal(
            f"{name} is {_short(wired.dtype)} as {_short(wired.stype)}; it must be "
            f"{kind} as {RAW}"
        )
    if not isinstance(wired.shape, tuple) or wired.shape != (count,):
        raise Refusal(f"{name} has shape {_short(wired.shape)}; it must be ({count},)")
    if not isinstance(wired.data, bytes) or len(wired.data) != count * dtype.itemsize:
        raise Refusal(f"{name} does not hold the {count} numbers of its shape")
    numbers = np.frombuffer(wired.data, f"<f{dtype.itemsize}")
    found = torch.from_numpy(numbers.astype(numbers.dtype.newbyteorder("=")))
    if not bool(found.isfinite().all()):
        raise Refusal(f"{name} holds NaN or infinity")
    return found


def check(
    expected: Expected,
    name: str,
    about: Mapping[str, Any],
    vectors: Mapping[str, Wired],
) -> Answer:
    """Return the reply of a site; raise Refusal if it is not valid.

    The error message calls the reply "it" and does not name the site.

    Args:
        expected: What the reply must contain.
        name: Name of the site.
        about: Scalars and texts of the reply.
        vectors: Its update and extra vector.
    """
    if set(about) != _KEYS:
        raise Refusal(
            f"its fields are not those of a reply: {_short(sorted(map(str, about)))}"
        )
    if about["name"] != name or about["run"] != expected.run:
        raise Refusal("it is of another site or of another run")
    if type(about["round"]) is not int or about["round"] != expected.round:
        raise Refusal(
            f"it is of round {_short(about['round'])}, not of {expected.round}"
        )
    size, loss = about["size"], about["loss"]
    if type(size) is not int or size < 1:
        raise Refusal(f"it claims {_short(size)} examples")
    if type(loss) is not float or (expected.loss and not math.isfinite(loss)):
        raise Refusal(f"its loss is {_short(loss)}, which is not a finite number")
    wanted = {"update"} | ({"extra"} if expected.extra else set())
    if set(vectors) != wanted:
        raise Refusal(
            f"its vectors are not as requested: {_short(sorted(map(str, vectors)))}"
        )
    update = unpack("update", vectors["update"], expected.d, expected.dtype)
    extra = update[:0]
    if expected.extra:
        extra = unpack("extra", vectors["extra"], expected.extra, expected.dtype)
    read = loss if expected.loss else math.nan
    found = card(about["card"]) if expected.card else {}
    return Answer(update, extra, read, min(size, expected.most), found)


def card(text: object) -> Card:
    """Read the scores of a card from JSON text; raise Refusal if that fails."""
    try:
        short = isinstance(text, str) and len(text) < _CARD
        numbers = json.loads(str(text) if short else "")
        card = {str(k): math.nan if v is None else float(v) for k, v in numbers.items()}
        if card["test"] >= 1 and len(card) < 100:
            return card
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        pass
    raise Refusal("its card cannot be read")


def _short(value: object) -> str:
    """Return an untrusted value as ASCII text of at most 60 characters."""
    return ascii(value)[:60]
