"""Functions for attacks: the updates that an adversary knows, and their replacement.

The adversary knows the finite benign updates, because the server drops the others. If a
round has only malicious clients, the adversary uses their original updates, which they
computed like benign clients. Updates are sorted by client id, so no bit of the result
depends on their order in the matrix. Sums are in float64 and over blocks of columns, so
the matrix is never copied as a whole.
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
    """The updates that the adversary treats as benign."""

    update: Tensor  # [n, d] updates of all clients
    rows: Tensor  # [k] int64 indices of the benign updates, by client id; k ≥ 1


def seen(messages: Messages, hostile: Tensor) -> Crowd | None:
    """Return the updates that the adversary knows.

    The result is None if there is no malicious client, or no finite update.
    """
    if not bool(hostile.any()):
        return None
    finite = numerics.finite(messages.update)
    for mask in (finite & ~hostile, finite):
        rows = mask.nonzero().flatten()
        if len(rows):
            return Crowd(messages.update, rows[messages.client[rows].argsort()])
    return None


def blocks(crowd: Crowd) -> Iterator[tuple[slice, Tensor]]:
    """Yield the crowd's updates in blocks [k, columns], as float64 copies."""
    for block in numerics.blocks(crowd.update, len(crowd.rows)):
        yield block, crowd.update[:, block].index_select(0, crowd.rows).double()


def moments(crowd: Crowd) -> tuple[Tensor, Tensor]:
    """Return mean and population standard deviation (1/k) of each column, float64."""
    parts = []
    for _, x in blocks(crowd):
        unit = power_of_two(torch.maximum(x.amax(dim=0), -x.amin(dim=0)))
        x /= unit  # so that nothing overflows
        first = x[0].clone()
        x -= first  # so that equal updates give exact results
        center = x.mean(dim=0)
        x -= center
        std = x.square_().mean(dim=0).sqrt()
        parts.append(torch.stack([first + center, std]) * unit)
    mean, std = torch.cat(parts, dim=1)
    return mean, std


def power_of_two(size: Tensor) -> Tensor:
    """Return the largest power of two that is at most each size; 1 for size 0."""
    half = torch.frexp(size).mantissa
    return torch.where(size > 0, size / (2 * half), 1.0)


def direction(vector: Tensor) -> Tensor:
    """Return the unit vector along a float64 vector of any norm; zeros for zeros."""
    scaled = vector / power_of_two(vector.abs().max())
    length = torch.linalg.vector_norm(scaled)
    return scaled / torch.where(length > 0, length, 1.0)


def away(rows: Tensor, mean: Tensor, unit: Tensor) -> Tensor:
    """Return (rows − mean)/unit; the numbers are halved first to avoid overflow."""
    return (rows / 2 - mean / 2) / unit * 2


def gram(crowd: Crowd, mean: Tensor, unit: Tensor, first: Tensor) -> Tensor:
    """Return inner products [1+k, 1+k] of `first` and the vectors (u_i − mean)/unit."""
    k = len(crowd.rows)
    total = mean.new_zeros(1 + k, 1 + k)
    for block, x in blocks(crowd):
        all_ = torch.cat([first[None, block], away(x, mean[block], unit)])
        total += all_ @ all_.T
    return total


def narrow(vector: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a vector to a dtype; clamp values beyond the range of the dtype."""
    limit = torch.finfo(dtype).max
    return vector.clamp(-limit, limit).to(dtype)


def replaced(
    messages: Messages, hostile: Tensor, vector: Callable[[Tensor, Tensor], Tensor]
) -> Messages:
    """Replace malicious updates by `vector(mean, std)`, of the crowd's mean and std."""
    crowd = seen(messages, hostile)
    return sent(messages, hostile, vector(*moments(crowd))) if crowd else messages


def sent(messages: Messages, hostile: Tensor, vector: Tensor) -> Messages:
    """Replace all malicious updates by one vector [d]; the others stay unchanged."""
    same = narrow(vector, messages.update.dtype)
    return messages._replace(
        update=torch.where(hostile[:, None], same, messages.update)
    )


def noise(
    messages: Messages, rows: Tensor, key: Tensor, mean: float, std: Tensor
) -> Messages:
    """Replace the updates at `rows` [f] by independent noise from N(mean, std²).

    `std` [f] has one value per update. A client's noise depends only on its id and the
    key. Only one update at a time is drawn, to save memory.
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
    """Raise Refusal if an option is not a finite number, or is below `least`."""
    bound = "" if least == -math.inf else f" of at least {least:g}"
    must = f"a finite number{bound}" + (f"; {means}" if means else "")
    fits = math.isfinite(value) and value >= least
    expect(fits, f"{attack}'s {option}", value, must)
