"""What malicious clients do to their training data, and what they are after.

A corruption gets those clean examples of one client that were chosen; what it gives
back is checked, for it may be anyone's.
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
    """What malicious clients do to their training data."""

    corrupt: Callable[..., tuple[Tensor, Tensor]]  # x, y, key, seat, seats → x, y
    classes: int  # 0: regression
    name: str = "corrupt"
    share: float = 1.0  # of the client's examples, rounded up
    redraw: bool = False  # every round anew; else once
    seats: Mapping[int, int] = MappingProxyType({})  # malicious client → its number


class Poisoned(NamedTuple):
    """What one malicious client has made of its examples."""

    chosen: Tensor  # [k] which of them
    x: Tensor | None  # [k', …] what stands in their place; None: as they were
    y: Tensor  # [k', …]; shares of the classes too where the data have labels


def corruption(
    part: CorruptionPart, arrays: Arrays, hostile: np.ndarray | None = None
) -> Corruption | None:
    """Return what the experiment says that malicious clients do to their data.

    `hostile` [n] is who they are, for corruptions that share something out among them;
    None: each is the only one.
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
    """Call a function of a corruption's module, which must give two tensors."""
    about = {"classes": arrays.classes, "scale": arrays.scale}
    made = lookup.call(function, options, **about, **given)
    kinds = [isinstance(v, Tensor) for v in made] if isinstance(made, tuple) else []
    if kinds != [True, True]:
        raise Refusal(
            f"{who} gives a {type(made).__name__}; it must give two tensors, inputs "
            "and labels: return x, y"
        )
    pair: tuple[Tensor, Tensor] = made
    return pair


def aims(part: CorruptionPart) -> Callable[..., Any] | None:
    """Return the function `aim` of a corruption's module, where it has one."""
    if part.name == "none":
        return None
    return lookup.beside(lookup.find("corruption", part.name), "aim")


def aim(part: CorruptionPart, arrays: Arrays) -> Aim | None:
    """Return what a corruption is after, where its module has a function `aim`.

    That takes x, y and by name `classes` and `scale`, and options of the corruption;
    it gives what is shown and the label that is wanted, as `types.Aim` says.
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
                "it must give inputs of the same shape and a label each, "
                f"−1 … {arrays.classes - 1} (−1: the example does not count)"
            )
        return shown, label

    aimed(*tensors(arrays._replace(x=arrays.x[:2], y=arrays.y[:2]), torch.float32))
    return aimed


def tensors(arrays: Arrays, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return inputs and labels; bytes stay bytes, others take the precision."""
    x = torch.from_numpy(np.ascontiguousarray(arrays.x))
    y = torch.from_numpy(np.ascontiguousarray(arrays.y))
    x = x if x.dtype == torch.uint8 else x.to(dtype)
    return x, y.long() if arrays.classes else y.to(dtype)


def poison(
    how: Corruption, x: Tensor, y: Tensor, *, seed: int, round_: int, client: int
) -> Poisoned:
    """Corrupt the clean examples x and y of one client, for a round.

    Seed, round (0 where it corrupts once) and client key its draws. With `redraw`,
    inputs that change stand for all of its examples, since others are chosen in the
    next round.
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
    """Refuse what no client could train on."""
    x, y = pair
    shares = how.classes > 0 and before.dim() == 1 and labels.soft(y)
    shape = (how.classes,) if shares else before.shape[1:]
    if x.shape[1:] != given.shape[1:] or y.shape != (len(x), *shape):
        raise Refusal(
            f"corruption '{how.name}' makes inputs {list(x.shape)} and labels "
            f"{list(y.shape)} of {len(given)} examples of shape "
            f"{list(given.shape[1:])}; it must give a label for every input, and keep "
            "the shape of an example"
        )
    most = (how.classes if y.dim() == 1 else 2) - 1
    whole = how.classes > 0 and y.dim() == before.dim()
    if whole and not bool(((y == y.long()) & (y >= 0) & (y <= most)).all()):
        raise Refusal(
            f"corruption '{how.name}' makes labels from {y.min()} to {y.max()}; they "
            f"must be whole numbers 0 … {most}"
        )
    if how.redraw and len(x) != len(given):
        raise Refusal(
            f"corruption '{how.name}' makes {len(x)} examples of {len(given)}, and "
            "with corruption.redraw = true a client must keep their number; set "
            "corruption.redraw = false (from_file: or take = 'fill', without mix)"
        )
    if shares and not isinstance(pair, Exact) and (why := labels.wrong(y)):
        raise Refusal(
            f"corruption '{how.name}' makes soft labels whose {why}; every row must be "
            "probabilities: at least 0, and 1 together"
        )
