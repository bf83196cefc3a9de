"""Shared by attacks: what an adversary sees of the round, and how its rows go out.

It sees the benign clients' rows, less those that are not finite (the server drops
these); in a round of malicious clients alone, their own rows, which they computed as
any client does. Rows stand in the order of client ids, so that their order in the
matrix changes not one bit. Sums are in float64, a block of columns at a time, so that
the matrix is never copied whole.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from troth import numerics, seeding
from troth.config.checks import expect
from troth.networks import kernels
from troth.types import Messages


class Crowd(NamedTuple):
    """The rows that an adversary takes for the benign ones."""

    update: Tensor  # [n, d] of all
    rows: Tensor  # [k] int64: which of them, by client id; k ≥ 1


def seen(messages: Messages, hostile: Tensor) -> Crowd | None:
    """Return the adversary's view; None if it has no row, or sees nothing finite."""
    if not bool(hostile.any()):
        return None
    finite = numerics.finite(messages.update)
    for mask in (finite & ~hostile, finite):
        rows = mask.nonzero().flatten()
        if len(rows):
            return Crowd(messages.update, rows[messages.client[rows].argsort()])
    return None


def blocks(crowd: Crowd) -> Iterator[tuple[slice, Tensor]]:
    """Yield the crowd's numbers in float64, [k, columns], free to overwrite."""
    for block in numerics.blocks(crowd.update, len(crowd.rows)):
        yield block, crowd.update[:, block].index_select(0, crowd.rows).double()


def moments(crowd: Crowd) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (population: 1/k) of each column, float64."""
    parts = []
    for _, x in blocks(crowd):
        unit = power_of_two(torch.maximum(x.amax(dim=0), -x.amin(dim=0)))
        x /= unit  # so that nothing overflows; less the first: equal rows are exact
        first = x[0].clone()
        x -= first
        center = x.mean(dim=0)
        x -= center
        std = x.square_().mean(dim=0).sqrt()
        parts.append(torch.stack([first + center, std]) * unit)
    mean, std = torch.cat(parts, dim=1)
    return mean, std


def power_of_two(size: Tensor) -> Tensor:
    """Return the power of two at or below each size; 1 for 0: an exact divisor."""
    half = torch.frexp(size).mantissa
    return torch.where(size > 0, size / (2 * half), 1.0)


def direction(vector: Tensor) -> Tensor:
    """Return the unit vector along a float64 one, of any length; of zeros, zeros."""
    scaled = vector / power_of_two(vector.abs().max())
    length = torch.linalg.vector_norm(scaled)
    return scaled / torch.where(length > 0, length, 1.0)


def away(rows: Tensor, mean: Tensor, unit: Tensor) -> Tensor:
    """Return (rows − mean)/unit, by halves, which do not overflow."""
    return (rows / 2 - mean / 2) / unit * 2


def gram(crowd: Crowd, mean: Tensor, unit: Tensor, first: Tensor) -> Tensor:
    """Return [1+k, 1+k] inner products of `first` and the rows (u_i − mean)/unit."""
    k = len(crowd.rows)
    total = mean.new_zeros(1 + k, 1 + k)
    for block, x in blocks(crowd):
        all_ = torch.cat([first[None, block], away(x, mean[block], unit)])
        total += all_ @ all_.T
    return total


def narrow(vector: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert to the precision of the updates; clamp what is beyond its range."""
    limit = torch.finfo(dtype).max
    return vector.clamp(-limit, limit).to(dtype)


def replaced(
    messages: Messages, hostile: Tensor, vector: Callable[[Tensor, Tensor], Tensor]
) -> Messages:
    """Replace malicious rows by a vector made of the crowd's mean and deviation."""
    crowd = seen(messages, hostile)
    return sent(messages, hostile, vector(*moments(crowd))) if crowd else messages


def sent(messages: Messages, hostile: Tensor, vector: Tensor) -> Messages:
    """Replace all malicious rows by one vector [d]; the others stay bit for bit."""
    same = narrow(vector, messages.update.dtype)
    return messages._replace(
        update=torch.where(hostile[:, None], same, messages.update)
    )


def noise(
    messages: Messages, rows: Tensor, key: Tensor, mean: float, std: Tensor
) -> Messages:
    """Replace some rows [f] by draws from N(mean, std²), each number drawn for itself.

    A client's draws come from its id alone, in the memory of one row. `std` is [f].
    """
    if len(rows) == 0:
        return messages
    update = messages.update.clone(memory_format=torch.contiguous_format)
    d, dtype = update.shape[1], update.dtype
    drawn_in = torch.promote_types(dtype, torch.float32)
    keys = seeding.fold(key.to(update.device), messages.client[rows])
    if dtype == torch.float32 and kernels.ready(update):
        from troth.networks.kernels import normal

        normal.fill(update, rows, keys, std, torch.full_like(std, mean))
        return messages._replace(update=update)
    for i, row in enumerate(rows.tolist()):
        drawn = seeding.normal(keys[i], d, drawn_in).double() * std[i] + mean
        update[row] = narrow(drawn, dtype)
    return messages._replace(update=update)


def finite(
    attack: str, option: str, value: float, least: float = -math.inf, means: str = ""
) -> None:
    """Refuse an option that is no finite number, or below `least`."""
    bound = "" if least == -math.inf else f" of at least {least:g}"
    must = f"a finite number{bound}" + (f"; {means}" if means else "")
    fits = math.isfinite(value) and value >= least
    expect(fits, f"{attack}'s {option}", value, must)
