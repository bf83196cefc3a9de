"""Votes of a classifier: the classes that it predicts for noisy copies of one input.

A sample is one noisy copy. A tile is a fixed number of samples of one input that are
classified together. The noise of a sample is a function of the seed, the input's number
and the sample's number, and all tiles have the same shape. So the votes do not depend
on how many inputs are certified at once, or on interruptions.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from troth import seeding
from troth.certificates.smoothing import Smoothing
from troth.engine import vmap
from troth.networks.kernels import precision
from troth.types import Refusal

Classify = Callable[[Tensor], Tensor]
"""Inputs [b, …] in float32 → scores [b, classes]."""

Votes = Callable[[Tensor, Tensor, Tensor], Tensor]
"""An input, its random key, and indices of samples [b] → class of each sample, [b]."""

CHOOSING, BOUNDING = "certify choosing", "certify bounding"
"""Purposes of samples: to choose the class, and to bound its probability. Their noise
is independent, because the bound is valid only if the class was chosen before."""


class Tiles:
    """A classifier whose inputs get noise, and which classifies them tile by tile.

    Args:
        classify: inputs [b, …] → scores [b, classes].
        smoothing: settings of noise and samples.
        device: device on which inputs are classified.
        compile_: whether to compile noise and classifier as one function; None: only
            if the classifier is a module on a CUDA device and can be compiled.
    """

    def __init__(
        self,
        classify: Classify,
        smoothing: Smoothing,
        device: torch.device,
        compile_: bool | None = None,
    ) -> None:
        self.smoothing, self.device = smoothing, device
        self._plain = _votes(classify, smoothing, device.type)
        module = isinstance(classify, nn.Module)
        self._optional = compile_ is None
        self.compiled = (
            device.type == "cuda" and module if compile_ is None else compile_
        )
        self._run: Votes | None = None
        self.sizes = {
            CHOOSING: min(smoothing.tile, smoothing.n0),
            BOUNDING: min(smoothing.tile, smoothing.n),
        }
        """Number of samples in a tile, by purpose."""

    def votes(self, x: Tensor, number: int, purpose: str, tile: int) -> Tensor:
        """Return the class of each sample of a tile, [size]; −1 if a score is NaN.

        Args:
            x: one input.
            number: integer that seeds the noise of this input.
            purpose: `CHOOSING` or `BOUNDING`.
            tile: number of the tile; the first is 0.
        """
        size = self.sizes[purpose]
        key = seeding.key(self.smoothing.seed, purpose, 0, number)
        # made on the device: a copy from the CPU would wait for all work of the GPU
        there = torch.full((), int(key), device=self.device)
        samples = torch.arange(tile * size, (tile + 1) * size, device=self.device)
        with torch.no_grad(), precision.products("float32", self.device):
            if purpose == CHOOSING:  # these tiles are too few to be worth compiling
                return self._plain(x, there, samples)
            return self._voted(x, there, samples)

    def _voted(self, x: Tensor, key: Tensor, samples: Tensor) -> Tensor:
        if self._run is not None:
            return self._run(x, key, samples)
        run = vmap.compiled(self._plain) if self.compiled else self._plain
        try:
            found = run(x, key, samples)
        except Exception:
            if not (self.compiled and self._optional):
                raise
            # there is no compiler, or it does not support the classifier
            run, self.compiled = self._plain, False
            found = run(x, key, samples)
        self._run = run
        return found


def _votes(classify: Classify, s: Smoothing, kind: str) -> Votes:
    perturb, low = s.perturb(), s.precision == "bfloat16"

    def votes(x: Tensor, key: Tensor, samples: Tensor) -> Tensor:
        noisy = perturb(x, seeding.fold(key, samples))
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=low):
            scores = classify(noisy)
        _expect_scores(scores, len(samples))
        return torch.where(scores.isnan().any(dim=1), -1, scores.argmax(dim=1))

    return votes


def _expect_scores(scores: Tensor, b: int) -> None:
    """Raise Refusal if outputs are not floating-point scores [b, classes]."""
    if not isinstance(scores, Tensor):
        raise Refusal(
            f"classify returned a {type(scores).__name__}; it must return a tensor of "
            "scores [b, classes]"
        )
    if scores.dim() != 2 or scores.shape[0] != b or scores.shape[1] < 2:
        raise Refusal(
            f"classify returned scores of shape {list(scores.shape)} for {b} inputs, "
            f"which has no class axis; it must return [{b}, classes] with 2 classes or "
            "more (for a single score z: torch.stack([-z, z], dim=1))"
        )
    if not scores.is_floating_point():
        raise Refusal(
            f"classify returned scores of type {scores.dtype}; they must be "
            "floating-point numbers, because the largest score is the predicted class"
        )
