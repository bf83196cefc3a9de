"""Corrupt the training data of malicious clients.

A corruption is a function that replaces clean examples of one malicious client. Its
result is checked, because it may be a user's own function. The function `aim` in its
module, if there is one, defines the goal by which the corruption's success is measured.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.config.schema import CorruptionPart, rounded_up
from troth.data import labels
from troth.data.corruptions._numbers import like
from troth.types import Aim, Arrays, Exact, Options, Refusal


class Corruption(NamedTuple):
    """A corruption with its settings."""

    corrupt: Callable[..., tuple[Tensor, Tensor]]  # x, y, key, seat, seats → x, y
    classes: int  # number of classes; 0: regression
    name: str = "corrupt"
    share: float = 1.0  # share of a client's examples to corrupt, rounded up
    redraw: bool = False  # True: corrupt again in every round; False: once
    seats: Mapping[int, int] = MappingProxyType({})  # malicious client → seat
    # seat: index of a client among the malicious clients, whose number is `seats`


class Poisoned(NamedTuple):
    """The corrupted examples of one malicious client."""

    chosen: Tensor  # [k] indices of the examples to replace
    x: Tensor | None  # [k', …] new inputs; None: inputs do not change
    y: Tensor  # [k', …] new labels, which may be soft


def corruption(
    part: CorruptionPart, arrays: Arrays, hostile: np.ndarray | None = None
) -> Corruption | None:
    """Return the corruption of an experiment, or None if its name is "none".

    Args:
        part: the experiment's section `corruption`.
        arrays: the data set.
        hostile: [n] mask of the malicious clients, for corruptions that divide
            something among them. None: each is treated as the only malicious client.
    """
    if part.name == "none":
        return None
    function = lookup.find("corruption", part.name)

    def corrupt(
        x: Tensor, y: Tensor, key: Tensor, seat: int = 0, seats: int = 1
    ) -> tuple[Tensor, Tensor]:
        given = {"x": x, "y": y, "key": key, "seat": seat, "seats": seats}
        return _pair(f"corruption '{part.name}'", function, part.options, arrays, given)

    ids = [] if hostile is None else np.flatnonzero(hostile).tolist()
    seated = {client: seat for seat, client in enumerate(ids)}
    about = arrays.classes, part.name, part.share, part.redraw
    return Corruption(corrupt, *about, seated)


def _pair(
    who: str,
    function: Callable[..., Any],
    options: Options,
    arrays: Arrays,
    given: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    """Call a function of a corruption's module with its options.

    Raise Refusal if it does not return two tensors.
    """
    about = {"classes": arrays.classes, "scale": arrays.scale}
    made = lookup.call(function, options, **about, **given)
    kinds = [isinstance(v, Tensor) for v in made] if isinstance(made, tuple) else []
    if kinds != [True, True]:
        raise Refusal(
            f"{who} returns a {type(made).__name__}; it must return two tensors, "
            "inputs and labels: return x, y"
        )
    pair: tuple[Tensor, Tensor] = made
    return pair


def aims(part: CorruptionPart) -> Callable[..., Any] | None:
    """Return the function `aim` in the module of a corruption, or None."""
    if part.name == "none":
        return None
    return lookup.companion(lookup.find("corruption", part.name), "aim")


def aim(part: CorruptionPart, arrays: Arrays) -> Aim | None:
    """Return the goal of a corruption, or None if its module has no function `aim`.

    The function `aim` takes x, y and those of `classes`, `scale` and the corruption's
    options that its parameters name. It returns the inputs that are shown to the model
    and the wanted labels, as described in `types.Aim`.
    """
    function, who = aims(part), f"the aim of corruption '{part.name}'"
    if function is None:
        return None
    wanted = lookup.options(function)
    options = {k: v for k, v in part.options.items() if k in wanted}
    lacks = [k for k, p in wanted.items() if k not in options and p.default is p.empty]
    if lacks:
        raise Refusal(
            f"{who} needs '{lacks[0]}', which is no option of the corruption; it may "
            f"ask for: {', '.join(part.options) or 'none'}"
        )

    def aimed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        shown, label = _pair(who, function, options, arrays, {"x": x, "y": y})
        fits = shown.shape == x.shape and label.shape == y.shape[:1]
        if not fits or not bool(((label >= -1) & (label < arrays.classes)).all()):
            raise Refusal(
                f"{who} does not fit {len(y)} examples of shape {list(x.shape[1:])}; "
                "it must return inputs of the same shape and one label each, "
                f"−1 … {arrays.classes - 1} (−1: the example does not count)"
            )
        return shown, label

    aimed(*tensors(arrays._replace(x=arrays.x[:2], y=arrays.y[:2]), torch.float32))
    return aimed


def tensors(arrays: Arrays, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return inputs and targets as tensors.

    Bytes stay bytes, labels are int64, and all other numbers become `dtype`.
    """
    x = torch.from_numpy(np.ascontiguousarray(arrays.x))
    y = torch.from_numpy(np.ascontiguousarray(arrays.y))
    x = x if x.dtype == torch.uint8 else x.to(dtype)
    return x, y.long() if arrays.classes else y.to(dtype)


def poison(
    how: Corruption, x: Tensor, y: Tensor, *, seed: int, round_: int, client: int
) -> Poisoned:
    """Corrupt the clean examples x and y of one client, for one round.

    If `how.redraw` is true and inputs change, all examples of the client are returned,
    because other examples are chosen in the next round.

    Args:
        how: the corruption.
        x: inputs of the client.
        y: targets of the client.
        seed: seed of all random numbers.
        round_: number of the round; 0 if the data are corrupted only once.
        client: number of the client.
    """
    who, m = torch.tensor(client), len(y)
    chosen = torch.arange(m)
    if (count := max(1, rounded_up(how.share, m))) < m:
        order = seeding.keys(seed, "chosen", round_, who[None]).numpy()
        some = seeding.permute(order, np.arange(count), np.array([m]))
        chosen = torch.from_numpy(np.sort(some))
    given, key = x[chosen], seeding.keys(seed, "corruption", round_, who)
    seat = (how.seats[client], len(how.seats)) if how.seats else ()
    pair = how.corrupt(given, y[chosen], key, *seat)
    new_x, new_y = pair
    _check(how, pair, given, y)
    if labels.soft(new_y) and y.dim() == 1:
        y = labels.shares(y, how.classes, new_y.dtype)
    new_y = new_y.to(y.dtype)
    if new_x is given and torch.allclose(
        new_x, x[chosen], rtol=0, atol=0, equal_nan=True
    ):
        return Poisoned(chosen, None, new_y)
    new_x = new_x if isinstance(pair, Exact) else like(new_x, x)
    if how.redraw:
        new_x, new_y = (
            all_.to(some.dtype).index_put((chosen,), some)
            for all_, some in ((x, new_x), (y, new_y))
        )
        chosen = torch.arange(m)
    return Poisoned(chosen, new_x, new_y)


def _check(
    how: Corruption, pair: tuple[Tensor, Tensor], given: Tensor, before: Tensor
) -> None:
    """Raise Refusal if corrupted data have another format than the clean data."""
    x, y = pair
    shares = how.classes > 0 and before.dim() == 1 and labels.soft(y)
    shape = (how.classes,) if shares else before.shape[1:]
    if x.shape[1:] != given.shape[1:] or y.shape != (len(x), *shape):
        raise Refusal(
            f"corruption '{how.name}' returns inputs {list(x.shape)} and labels "
            f"{list(y.shape)} for {len(given)} examples of shape "
            f"{list(given.shape[1:])}; it must return one label per input, and keep "
            "the shape of an example"
        )
    most = (how.classes if y.dim() == 1 else 2) - 1
    whole = how.classes > 0 and y.dim() == before.dim()
    if whole and not bool(((y == y.long()) & (y >= 0) & (y <= most)).all()):
        raise Refusal(
            f"corruption '{how.name}' returns labels from {y.min()} to {y.max()}; they "
            f"must be whole numbers 0 … {most}"
        )
    if how.redraw and len(x) != len(given):
        raise Refusal(
            f"corruption '{how.name}' returns {len(x)} examples for {len(given)}, and "
            "with corruption.redraw = true their number must stay the same; set "
            "corruption.redraw = false (from_file: or take = 'fill', without mix)"
        )
    if shares and not isinstance(pair, Exact) and (why := labels.wrong(y)):
        raise Refusal(
            f"corruption '{how.name}' returns soft labels whose {why}; every row must "
            "be probabilities: at least 0, with sum 1"
        )
