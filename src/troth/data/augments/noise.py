"""Gaussian noise on inputs.

References: bishop1995training.
"""

from torch import Tensor

from troth import seeding
from troth.types import Refusal


def noise(x: Tensor, key: Tensor, scale: float, *, sigma: float = 0.1) -> Tensor:
    """Add independent normal noise to every number of an input.

    Bytes become float32, and nothing is rounded or clipped. Certificates for the
    transform `pixel` use noise of the same distribution.

    Args:
        x: [b, ...] inputs.
        key: [b] random keys, one per example.
        scale: Value of x that is scaled to 1 (255 for bytes).
        sigma: Standard deviation of the noise, in units of scale; 0: no noise.
    """
    if not 0 <= sigma < float("inf"):
        raise Refusal(f"noise's sigma = {sigma} must be a finite number of at least 0")
    x = x if x.is_floating_point() else x.float()
    drawn = seeding.normal(key, x.shape[1:].numel(), x.dtype).reshape(x.shape)
    return x + drawn * (sigma * scale)
