"""All random numbers, as functions of keys (seed, purpose, round, client).

A random number is a function of its key, and there is no state of a generator. So the
numbers do not depend on how many clients are trained together, on whether a run was
resumed, or on the device. The generator is SplitMix64 as a counter, where each key
starts a separate sequence. The arithmetic is on 64-bit integers modulo 2⁶⁴, which is
exact on every device.

References: steele2014splitmix.
"""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)  # as a signed 64-bit integer
_MIX1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2 = 0x94D049BB133111EB - (1 << 64)
_FEISTEL_ROUNDS = 6
_FEW = 30  # permutations up to this size are made by sorting


def _mix(z: Tensor) -> Tensor:
    """Apply the finalizer of SplitMix64; masks undo the sign extension of shifts."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * _MIX1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * _MIX2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def _times(count: Tensor, odd: int) -> Tensor:
    """Return count·odd modulo 2⁶⁴.

    The xor has a purpose: without it, torch's compiler treats a range times a constant
    as an index, computed in unbounded integers, which gives other numbers or a crash.
    """
    return (count ^ 0) * odd


@lru_cache(maxsize=256)
def _opening(seed: int, purpose: str, round_: int) -> int:
    """Return the start of the sequence of a seed, purpose and round (signed 64-bit)."""
    text = f"{seed}/{purpose}/{round_}".encode()
    return int.from_bytes(
        hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True
    )


def keys(seed: int, purpose: str, round_: int, clients: Tensor) -> Tensor:
    """Return one 64-bit key per client.

    Args:
        seed: Seed of the experiment.
        purpose: Name of the use of the random numbers; each purpose has separate random
            numbers.
        round_: Number of the round, or another counter such as an epoch.
        clients: Ids, int64, of any shape; the keys have the same shape and device.
    """
    return _mix((clients + 1) * _GAMMA + _opening(seed, purpose, round_))


def key(
    seed: int,
    purpose: str,
    round_: int,
    client: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Return the key of one client on a device.

    The key is computed on the host, which takes only one operation of the device.
    """
    z = (client + 1) * _GAMMA + _opening(seed, purpose, round_)
    for shift, factor in ((30, _MIX1), (27, _MIX2), (31, 1)):
        z &= 2**64 - 1
        z = (z ^ (z >> shift)) * factor
    return torch.full((), _wrapped(z), dtype=torch.long, device=device)


def _wrapped(number: int) -> int:
    """Return an integer modulo 2⁶⁴, as a signed 64-bit integer."""
    number &= 2**64 - 1
    return number - (number >> 63 << 64)


def fold(key: Tensor, count: Tensor | int) -> Tensor:
    """Derive a new key from each key and a further index `count`."""
    if isinstance(count, int):  # faster in Python integers
        return _mix(key + _wrapped((count + 1) * _MIX2))
    return _mix(key + _times(count + 1, _MIX2))


def bits(key: Tensor, count: int) -> Tensor:
    """Return `count` random 64-bit integers per key: [..., count] for keys [...]."""
    counter = torch.arange(1, count + 1, device=key.device)
    return _mix(key.unsqueeze(-1) + _times(counter, _GAMMA))


def below(random: Tensor, limit: Tensor) -> Tensor:
    """Map random bits to integers 0 … limit−1 (limit < 2³¹; bias < limit/2³²)."""
    return (((random >> 32) & 0xFFFFFFFF) * limit) >> 32


def uniform(key: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw uniform numbers from the open interval (0, 1): [..., count]."""
    random = bits(key, count)
    if dtype == torch.float64:
        return (((random >> 12) & 0xFFFFFFFFFFFFF).to(dtype) + 0.5) * 2.0**-52
    return ((((random >> 41) & 0x7FFFFF).float() + 0.5) * 2.0**-23).to(dtype)


def normal(key: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw standard normal numbers by the Box–Muller method: [..., count]."""
    half = (count + 1) // 2
    u = uniform(key, 2 * half, dtype)
    radius = torch.sqrt(-2 * torch.log(u[..., :half]))
    angle = (2 * math.pi) * u[..., half:]
    pair = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)
    return pair[..., :count]


def noise(key: Tensor, count: int) -> Tensor:
    """Draw standard normal numbers in float32, two from every 64 bits: [..., count].

    Use this function for millions of numbers. It takes less than half the time of
    `normal`, and gives other numbers. The largest possible number is 6.7; for `normal`,
    it is 5.7.
    """
    random = bits(key, (count + 1) // 2)
    u = (((random >> 32) & 0xFFFFFFFF).float() + 0.5) * 2.0**-32
    angle = (random & 0xFFFFFFFF).float() * (2 * math.pi * 2.0**-32)
    radius = torch.sqrt(-2 * torch.log(u))
    pair = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)
    return pair[..., :count]


def permute(key: np.ndarray, position: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Map each position by a random permutation of 0 … size−1 (on the host).

    Only the given positions are computed. For a batch of 16 from a client with a
    million examples, there are 16 evaluations and no sort.

    A Feistel network with additions modulo a and b permutes a·b ≥ size values, where
    a·b − size < a. A value outside 0 … size−1 passes through the network again until it
    is inside (cycle walking). So the result is a permutation of 0 … size−1. Sizes up to
    30 are permuted by sorting random numbers.

    Args:
        key: int64 keys, broadcastable with position.
        position: int64; positions from size on are taken modulo size.
        size: int64, 1 … 2³¹, broadcastable with position.
    """
    counts = torch.arange(_FEISTEL_ROUNDS).reshape(-1, *[1] * key.ndim)
    rounds = list(fold(torch.as_tensor(key), counts).numpy().astype(np.uint32))
    m = size.astype(np.uint32)
    a = np.ceil(np.sqrt(m.astype(np.float64))).astype(np.uint32)
    b = (m + a - np.uint32(1)) // a
    inside = position.astype(np.uint32) % m
    out = _feistel(rounds, inside, a, b)
    outside = np.nonzero(out >= m)
    if len(outside[0]):
        first = out.ndim - max(1, m.ndim, key.ndim)  # axes of positions alone
        shape = out.shape[first:]
        each = np.stack([np.broadcast_to(t, shape) for t in (m, a, b, *rounds)])
        where: Any = outside[first:]
        out[outside] = _walk(out[outside], each[:, *where])
    if (m <= _FEW).any():
        few = np.nonzero(np.broadcast_to(m <= _FEW, out.shape))
        each, size, where = (
            np.broadcast_to(t, out.shape)[few] for t in (key, m, inside)
        )
        out[few] = _sorted(each, size, where)
    return out.astype(np.int64)


def _sorted(key: np.ndarray, size: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Permute by sorting random numbers, for sizes that are too small for a network."""
    random = bits(torch.from_numpy(key.copy()), _FEW).numpy().view(np.uint64)
    random[np.arange(_FEW) >= size[:, None]] = np.iinfo(np.uint64).max
    order = np.argsort(random, axis=1, kind="stable").astype(np.uint32)
    return np.take_along_axis(order, position[:, None].astype(np.int64), axis=1)[:, 0]


def _walk(value: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Pass values through the network again until each is below its size."""
    pending = np.arange(len(value))
    while len(pending):
        size, a, b, *rounds = whole[:, pending]
        value[pending] = moved = _feistel(rounds, value[pending], a, b)
        pending = pending[moved >= size]
    return value


def _feistel(
    rounds: list[np.ndarray], value: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """Apply the Feistel network on Z_a × Z_b, in 32 bits: a and b are below 2¹⁶."""
    left = value // b
    right = value - left * b
    for i, key in enumerate(rounds):
        half, other, limit = (left, right, a) if i % 2 == 0 else (right, left, b)
        h = (other ^ key) * np.uint32(0x7FEB352D)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x846CA68B)
        h >>= np.uint32(16)
        h *= limit
        h >>= np.uint32(16)
        h += half
        h -= limit * (h >= limit)
        left, right = (h, right) if i % 2 == 0 else (left, h)
    moved: np.ndarray = left * b + right
    return moved


def choose(seed: int, purpose: str, round_: int, n: int, count: int) -> np.ndarray:
    """Choose `count` of n clients at random without replacement, in time O(count)."""
    opened = key(seed, purpose, round_).numpy()[None]
    return permute(opened, np.arange(count), np.array([n]))


@contextmanager
def seeded(key: Tensor | None) -> Iterator[None]:
    """Within the block, seed torch's generator, for code that draws from it.

    The draws then depend only on the key. Without a key, they are always the same. The
    state of the generator is restored after the block.
    """
    devices = [key.device] if key is not None and key.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(0 if key is None else int(key))
        yield


def generator(seed: int, purpose: str, count: int = 0) -> np.random.Generator:
    """Return a numpy generator for work that is done once, such as splitting data."""
    return np.random.default_rng([_opening(seed, purpose, count) & (2**64 - 1)])
