"""Digits for any number of clients, generated from the digits of scikit-learn.

References: alpaydin1998digits.
"""

import numpy as np
import torch

from troth import seeding
from troth.data.datasets import _room
from troth.types import Arrays, Refusal

_QUARTERS = 12  # largest move of a row, in quarters of a pixel
_AT_ONCE = 2**17  # approximate number of examples that are made at once


def made_digits(
    seed: int,
    *,
    clients: int = 1000,
    per_client: int = 20,
    style: float = 1.0,
    noise: float = 0.1,
) -> Arrays:
    """Handwritten digits of 8×8 pixels, 10 classes; each owner has a writing style.

    Each example is one of the 1,797 digits of scikit-learn, drawn with replacement. It
    is slanted, moved and dimmed in the style of its owner, and noise is added. The
    examples of an owner depend only on the seed and the owner's number. With a larger
    number of owners, or of examples per owner, existing examples stay the same.

    Args:
        seed: Seed of the experiment.
        clients: Number of owners, for the partition `natural`.
        per_client: Number of examples of each owner.
        style: Difference between owners, from 0 to 1. 0: all have the same style. 1:
            slants of up to 0.3 pixels per row, moves of up to one pixel, and ink that
            is dimmed by up to one half.
        noise: Largest noise of a pixel, as a share of full ink; 0: no noise.
    """
    _room.at_least_1(clients=clients, per_client=per_client)
    for name, value in (("style", style), ("noise", noise)):
        if not 0 <= value <= 1:
            raise Refusal(f"data.{name} = {value} must be at least 0 and at most 1")
    m = clients * per_client
    remedy = "lower data.clients or data.per_client"
    _room.check(f"{m:,} made digits", (m, 8, 8), 1, remedy)
    from sklearn.datasets import load_digits  # slow to load

    bunch = load_digits()
    rows = _moved(bunch.images.astype(np.uint8) * 15)
    x, y = np.empty((m, 8, 8), np.uint8), np.empty(m, np.int64)
    some = max(1, _AT_ONCE // per_client)
    for first in range(0, clients, some):
        owners = torch.arange(first, min(clients, first + some))
        place = slice(first * per_client, (first + len(owners)) * per_client)
        drawn = seeding.bits(seeding.keys(seed, "digits", 0, owners), 9 * per_client)
        drawn = drawn.reshape(len(owners), per_client, 9)
        digit = seeding.below(drawn[..., 0], torch.tensor(len(rows[0]))).numpy()
        ink = _written(rows, digit, _style(seed, owners, style))
        speck = np.ascontiguousarray(drawn[..., 1:].numpy()).view(np.uint8)
        x[place] = _noisy(ink, speck, round(noise * 255)).reshape(-1, 8, 8)
        y[place] = bunch.target[digit].reshape(-1)
    owner = np.repeat(np.arange(clients), per_client)
    return Arrays(x[:, None], y, classes=10, scale=255.0, owner=owner)


def _moved(images: np.ndarray) -> np.ndarray:
    """Return every row of every digit, moved sideways by q/4 − 3 pixels.

    The result is [q, digit, row]. A row of eight bytes is stored as one 64-bit number,
    so a single lookup gets the whole row. Row 8 is empty.
    """
    padded = np.zeros((len(images), 9, 16), np.uint16)
    padded[:, :8, 4:12] = images
    moved = np.empty((2 * _QUARTERS + 1, len(images), 9, 8), np.uint8)
    for q in range(len(moved)):
        whole, part = divmod(q - _QUARTERS, 4)
        near = padded[:, :, 4 - whole : 12 - whole]
        far = padded[:, :, 3 - whole : 11 - whole]
        moved[q] = (near * (4 - part) + far * part) // 4
    return moved.view(np.uint64)[..., 0]


def _style(seed: int, owners: torch.Tensor, style: float) -> tuple[np.ndarray, ...]:
    """Return each owner's style.

    It consists of the index q of every row's move, the row of the digit that is written
    to every row, and the ink in sixteenths.
    """
    key = seeding.keys(seed, "style", 0, owners)
    u = seeding.uniform(key, 4, torch.float64).numpy() * style
    slant, aside, down, ink = u.T - [[style / 2], [style / 2], [style / 2], [0.0]]
    line = np.arange(8)
    moved = 2 * aside[:, None] + 0.6 * slant[:, None] * (3.5 - line)
    source = line - np.rint(3 * down).astype(int).clip(-1, 1)[:, None]
    source = np.where((source >= 0) & (source < 8), source, 8)
    quarters = np.rint(4 * moved).astype(int) + _QUARTERS
    return quarters, source, (16 - np.rint(8 * ink)).astype(np.uint16)


def _written(
    rows: np.ndarray, digit: np.ndarray, style: tuple[np.ndarray, ...]
) -> np.ndarray:
    """Return the digits in their owners' styles: [owner, example, 64]."""
    quarters, source, ink = style
    pixels = rows[quarters[:, None], digit[..., None], source[:, None]].view(np.uint8)
    dimmed: np.ndarray = (pixels.astype(np.uint16) * ink[:, None, None]) >> 4
    return dimmed


def _noisy(ink: np.ndarray, speck: np.ndarray, most: int) -> np.ndarray:
    """Add noise to each pixel, uniform on −most … most, and clip it to a byte.

    `speck` are random bytes.
    """
    off = (speck.astype(np.uint16) * np.uint16(2 * most + 1) >> 8) + ink
    kept: np.ndarray = np.clip(off, most, 255 + most) - most
    return kept
