"""Settings of certificates: the noise, its size, and the failure probability.

References: alfarra2022deformrs.
"""

import math
import typing
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from scipy import special
from torch import Tensor

from troth import lookup
from troth.certificates import bounds, lattice, stopping
from troth.certificates.bounds import Law
from troth.data.deformations._flow import Frame, Interpolation, Padding, pixels_per_unit
from troth.types import Refusal

Transform = Literal["pixel", "rotation", "translation", "affine"]
Units = Literal["normalised", "pixels"]
Precision = Literal["float32", "bfloat16"]
Perturb = Callable[[Tensor, Tensor], Tensor]
"""One input and b random keys → b noisy copies of the input, [b, …]."""

_WIDE = 3.0  # largest radius requested by default, in units of σ
_MANY = 10  # number of radii requested by default
_ROUNDING = 1e-12  # rounding error of probabilities
_READING = ("interpolation", "padding", "frame")  # how a deformation reads pixels
_NUMBERS = {"rotation": 1, "translation": 2, "affine": 6}  # number of parameters


@dataclass(frozen=True)
class Smoothing:
    """The noise, the number of noisy samples, and the failure probability.

    Args:
        transform: kind of noise. `pixel` adds N(0, σ²) to every number of the input,
            and the radius is an ℓ2 norm. The other kinds deform an image with random
            parameters, and the radius is a norm of the parameters. `rotation`: an
            angle, uniform on (−σ, σ). `translation`: two shifts, N(0, σ²). `affine`:
            six parameters, N(0, σ²).
        sigma: size σ of the noise. Its unit is that of the inputs for `pixel`, radians
            for `rotation`, and `units` for `translation`.
        n0: number of samples from which the class is chosen.
        n: number of samples from which the class's probability is bounded; with
            `adaptive`, the largest number.
        alpha: largest allowed probability α that a certificate is wrong.
        seed: seed of all noise.
        samples: `fixed` draws n samples. `adaptive` draws samples until they answer one
            of two questions: `radii` or `tolerance`.
        radii: with `adaptive`: stop when it is decided which of these radii are
            certified. None: if `tolerance` is 0, ten radii evenly over [0, 3σ] ([0, σ]
            for rotation).
        tolerance: with `adaptive`: stop when the certified radius is within this
            relative error of the radius that n samples would give. 0: not used.
        precision: precision of the classifier.
        interpolation: method to read a value between pixels.
        padding: values outside the image.
        frame: position of the coordinates −1 and 1 (`troth.data.deformations.affine`).
        units: unit of σ and of the radius of a translation. `normalised`: half of the
            image's width or height, as in Alfarra et al. (2022). `pixels`: pixels.
        tile: number of samples of one input that are classified together.
    """

    transform: Transform = "pixel"
    sigma: float = 0.5
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    seed: int = 0
    samples: Literal["fixed", "adaptive"] = "fixed"
    radii: tuple[float, ...] | None = None
    tolerance: float = 0.0
    precision: Precision = "float32"
    interpolation: Interpolation = "bilinear"
    padding: Padding = "zeros"
    frame: Frame = "edges"
    units: Units = "normalised"
    tile: int = 1000

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for name, hint in hints.items():
            value = getattr(self, name)
            value = value.item() if isinstance(value, np.generic) else value
            object.__setattr__(self, name, lookup.typed(name, value, hint))
        _check(self)

    @property
    def law(self) -> Law:
        """Distribution of the noise."""
        return "uniform" if self.transform == "rotation" else "normal"

    @property
    def adaptive(self) -> bool:
        """Whether sampling may stop before n samples are drawn."""
        return self.samples == "adaptive"

    @property
    def asked(self) -> stopping.Question:
        """Question of adaptive sampling; an empty one for fixed sampling."""
        if not self.adaptive:
            return stopping.Question()
        if self.radii is None and not self.tolerance:
            most = self.sigma * (1 if self.law == "uniform" else _WIDE)
            even = tuple(most * i / (_MANY - 1) for i in range(_MANY))
            return stopping.Question(radii=even)
        radii = tuple(sorted(self.radii or ()))
        return stopping.Question(radii, self.tolerance)

    @property
    def unit(self) -> str:
        """Unit of a radius."""
        if self.transform == "translation":
            return "pixels" if self.units == "pixels" else "half images"
        names = {"pixel": "ℓ2 norm", "rotation": "radians", "affine": "parameters"}
        return names[self.transform]

    def numbers(self, x: Tensor) -> int:
        """Return the number of random numbers in the noise of one input x."""
        return x.numel() if self.transform == "pixel" else _NUMBERS[self.transform]

    def bound(self, p: np.ndarray, numbers: int) -> np.ndarray:
        """Return lower bounds on probabilities under exact noise.

        Computed noise differs slightly from exact noise, so an error is subtracted.

        Args:
            p: lower bounds on probabilities under computed noise.
            numbers: number of random numbers in the noise of one input.
        """
        return np.maximum(p - numbers * lattice.ERROR, 0.0)

    def radius(self, p: np.ndarray, numbers: int) -> np.ndarray:
        """Return the radii that lower bounds on probabilities prove.

        Rounding d numbers to a lattice with spacing h moves two inputs by up to h√d
        towards or away from each other, so h√d is subtracted.

        Args:
            p: lower bounds on probabilities under computed noise.
            numbers: d, the number of random numbers in the noise of one input.
        """
        real = bounds.radius(self.bound(p, numbers), self.sigma, self.law)
        apart = lattice.step(self.sigma) * math.sqrt(numbers)
        return np.asarray(np.maximum(real - apart, 0.0))

    def needed(self, numbers: int) -> tuple[float, ...]:
        """Return the least bounds on probabilities that prove the requested radii."""
        apart = lattice.step(self.sigma) * math.sqrt(numbers)
        far = (np.array(self.asked.radii) + apart) / self.sigma
        real = special.ndtr(far) if self.law == "normal" else (1 + far) / 2
        return tuple((real + numbers * lattice.ERROR + _ROUNDING).tolist())

    def record(self) -> dict[str, Any]:
        """Return all settings by name; a setting without effect on the noise is ""."""
        found = asdict(self) | {"question": self.asked.words()}
        found["lattice"] = lattice.step(self.sigma)
        del found["radii"], found["tolerance"]
        if self.transform == "pixel":
            found |= dict.fromkeys(_READING, "")
        if self.transform != "translation":
            found["units"] = ""
        return found

    def perturb(self) -> Perturb:
        """Return the function that makes noisy copies of an input, one per key."""
        if self.transform == "pixel":
            return partial(_noisy, sigma=self.sigma)
        name = self.transform
        given = {key: getattr(self, key) for key in _READING}
        options = lookup.check("deformation", name, given)
        deform = partial(lookup.find("deformation", name), **options)
        draw = partial(
            lattice.noise, count=_NUMBERS[name], sigma=self.sigma, law=self.law
        )
        pixels = self.units == "pixels" and name == "translation"
        frame = self.frame if pixels else None
        return partial(_deformed, deform=deform, draw=draw, frame=frame)


def _noisy(x: Tensor, keys: Tensor, sigma: float) -> Tensor:
    """Add noise to every number of an input, once per key.

    Noisy images have the channels-last memory format. Input and noise are rounded to
    the same lattice, and their sum is exact in float64. The guarantee allows the
    rounding to float32 after that, because it is a function of the sum alone.
    """
    drawn = lattice.noise(keys, x.numel(), sigma, "normal")
    near = lattice.nearest(x, sigma)
    if x.dim() == 3:
        last = near.permute(1, 2, 0).contiguous()
        noisy = (last + drawn.reshape(-1, *last.shape)).permute(0, 3, 1, 2)
    else:
        noisy = near + drawn.reshape(-1, *x.shape)
    return noisy.float().to(x.device)


def _deformed(
    x: Tensor,
    keys: Tensor,
    deform: Callable[..., Tensor],
    draw: Callable[[Tensor], Tensor],
    frame: Frame | None,
) -> Tensor:
    """Deform the image once per key, with random parameters."""
    parameters = draw(keys)
    if frame is not None:
        down, along = pixels_per_unit(x.shape[-2], x.shape[-1], frame)
        u, v = parameters.unbind(1)
        # the divisors are at least .5, in case an axis has a single pixel
        parameters = torch.stack([u / max(down, 0.5), v / max(along, 0.5)], dim=1)
    out = deform(x.expand(len(keys), *x.shape), parameters.to(x))
    return out.contiguous(memory_format=torch.channels_last)


def _check(s: Smoothing) -> None:
    """Raise Refusal if settings are out of range or contradict each other."""
    if not 0 < s.sigma < math.inf:
        raise Refusal(
            f"sigma = {s.sigma} must be a finite number above 0: certificates need "
            "noise"
        )
    if s.transform == "rotation" and s.sigma > math.pi:
        raise Refusal(
            f"sigma = {s.sigma:g} of a rotation is in radians, and more than a half "
            f"turn, π; for {s.sigma:g} degrees, give {math.radians(s.sigma):.3g}"
        )
    if not 0 < s.alpha < 1:
        raise Refusal(
            f"alpha = {s.alpha} is the probability that a certificate is wrong; it "
            "must lie between 0 and 1, such as 0.001"
        )
    _check_samples(s)
    if not 0 <= s.tolerance < 1:
        raise Refusal(
            f"tolerance = {s.tolerance} is a share of the radius; it must be at least "
            "0 and below 1, such as 0.01"
        )
    if s.radii is not None and not all(0 <= r < math.inf for r in s.radii):
        raise Refusal(f"radii = {list(s.radii)} must be finite numbers of at least 0")
    if s.radii is not None and (s.tolerance or not s.radii):
        raise Refusal(
            "adaptive samples need either at least one of radii, or a tolerance above "
            "0; give one of the two"
        )
    if not s.adaptive and (s.radii is not None or s.tolerance):
        raise Refusal(
            "radii and tolerance have no effect with fixed samples; leave them out, or "
            "set samples = 'adaptive'"
        )


def _check_samples(s: Smoothing) -> None:
    """Raise Refusal if there are too few samples to prove anything."""
    for name in ("n", "n0", "tile"):
        if getattr(s, name) < 1:
            raise Refusal(
                f"{name} = {getattr(s, name)} must be a number of samples, 1 or more"
            )
    if s.n <= (enough := math.log2(1 / s.alpha)):
        raise Refusal(
            f"n = {s.n} samples cannot prove any radius with alpha = {s.alpha:g}, even "
            f"if all of them agree; give at least {math.floor(enough) + 1}, such as "
            "10000"
        )
