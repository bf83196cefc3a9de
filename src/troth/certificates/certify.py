"""Certify any classifier, without a federation."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from troth.certificates import lattice, stopping
from troth.certificates.record import (
    Certificate,
    Certificates,
    Parameters,
    collect,
    fingerprint,
)
from troth.certificates.sampling import BOUNDING, CHOOSING, Classify, Tiles
from troth.certificates.smoothing import Smoothing
from troth.lookup import nearest
from troth.types import Refusal

_TOGETHER = 16  # inputs that a GPU classifies together, so that it is never idle


def certify(
    classify: Classify,
    x: Tensor | np.ndarray,
    *,
    ids: Sequence[int] | np.ndarray | None = None,
    parameters: Parameters | None = None,
    compile: bool | None = None,
    watch: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Certificates:
    """Certify the predictions of a smoothed classifier.

    The smoothed classifier predicts the class that `classify` gives most often to noisy
    copies of an input. The algorithm is CERTIFY of Cohen et al. (2019). The most
    frequent class of n0 noisy samples is chosen. From n further samples, the bound of
    Clopper and Pearson gives a lower bound on the probability of this class. If the
    bound is above ½, it proves a radius (`bounds.radius`). Otherwise the classifier
    abstains.

    Args:
        classify: inputs [b, …] in float32 → scores [b, classes]. The scores of an input
            must not depend on the other inputs. A module must be in `eval` mode.
        x: [m, …] inputs of `classify`; images are [m, channels, height, width]. If
            `classify` is a module, they are moved to its device.
        ids: [m] one integer per input, which seeds its noise; None: 0 … m − 1. The
            certificate of an input does not depend on the other inputs.
        parameters: parameters of the classifier, whose hash is recorded; None: those
            of `classify` if it is a module, otherwise no hash.
        compile: whether to compile noise and classifier as one function; None: only if
            `classify` is a module on a CUDA device.
        watch: function that is called after every input with the number of inputs done
            and the number of all inputs.
        **settings: settings of `Smoothing`: transform, sigma, n0, n, alpha, seed …

    Returns:
        One certificate per input, and the record of all settings.

    Guarantee: for each input, with probability at least 1 − α over the noise, the
    smoothed classifier gives the same label to all inputs nearer than `radius`. For a
    deformation, it gives the same label to the input under all deformations whose
    parameters have a norm below `radius`.

    Departs: the network of Alfarra et al. (2022) adds noise of .01 to all inputs, also
    when it is certified; here it adds none. If the bound is exactly ½, the classifier
    abstains. Noise and inputs are rounded to a lattice, so the guarantee holds in
    floating-point arithmetic.

    Raises:
        Refusal: settings are invalid, inputs of a deformation are not images, or the
            scores have no class axis.

    >>> import numpy as np, torch, troth
    >>> def classify(x):  # 1 where the mean is positive
    ...     return torch.stack([-x.flatten(1).mean(1), x.flatten(1).mean(1)], 1)
    >>> found = troth.certify(classify, np.ones((1, 1, 4, 4)), sigma=0.5, n=100, n0=10)
    >>> found.label.tolist(), bool(found.radius[0] > 0.5)
    ([1], True)

    Read on: `docs/how-to/certificates.md`; `troth certify` certifies a run.
    """
    smoothing = Smoothing(**_known(settings))
    images = inputs(x, smoothing)
    if isinstance(classify, nn.Module):
        images = images.to(next(classify.parameters(), images).device)
    numbers = _numbers(ids, len(images))
    whose = classify if isinstance(classify, nn.Module) else None
    if whose is not None and whose.training:
        raise Refusal(
            "classify is a module in training mode, whose dropout and batch "
            "normalization let inputs depend on chance and on each other; call "
            "classify.eval() first"
        )
    hashed = parameters if parameters is not None else whose
    tiles = Tiles(classify, smoothing, images.device, compile)
    done = []
    for found in each(tiles, images, numbers):
        done.append(found)
        if watch is not None:
            watch(len(done), len(images))
    return collect(done, record(tiles, "" if hashed is None else fingerprint(hashed)))


def record(tiles: Tiles, parameters: str) -> dict[str, Any]:
    """Return everything that certificates depend on: settings, device and hash."""
    where = {"device": tiles.device.type, "compiled": tiles.compiled}
    return tiles.smoothing.record() | where | {"parameters": parameters}


def each(
    tiles: Tiles, x: Tensor, numbers: Sequence[int], together: int = 0
) -> Iterator[Certificate]:
    """Yield the certificates of inputs [m, …], in their order.

    Args:
        tiles: the classifier under noise.
        x: inputs.
        numbers: [m] one integer per input, which seeds its noise.
        together: number of inputs whose samples are classified at once; 0: enough to
            keep the device busy. It does not change the certificates.
    """
    waits = tiles.smoothing.adaptive and tiles.device.type != "cpu"
    together = together or (_TOGETHER if waits else 1)
    for first in range(0, len(x), together):
        some = slice(first, first + together)
        yield from _certified(tiles, list(x[some]), list(numbers[some]))


def _certified(tiles: Tiles, x: list[Tensor], numbers: list[int]) -> list[Certificate]:
    """Certify some inputs; sample each until its question is answered."""
    s, chosen = tiles.smoothing, _chosen(tiles, x, numbers)

    def draw(on: np.ndarray, first: int, last: int) -> np.ndarray:
        wanted = ((x[i], numbers[i], int(chosen[i])) for i in on)
        each = [_counted(tiles, *one, first, last) for one in wanted]
        return np.asarray(torch.stack(each).cpu().numpy())

    d, tile = s.numbers(x[0]), tiles.sizes[BOUNDING]
    plan = stopping.plan(s.n, s.alpha, tile, s.adaptive, s.needed(d))
    radius = partial(s.radius, numbers=d)
    found = stopping.bound(draw, len(x), plan, s.asked, radius)
    p = s.bound(found.p, d)
    columns = np.where(p > 0.5, chosen, -1), radius(found.p), p, *found[1:]
    rows = zip(*(c.tolist() for c in columns), strict=True)
    return [Certificate(*row) for row in rows]


def _chosen(tiles: Tiles, x: list[Tensor], numbers: list[int]) -> np.ndarray:
    """Return the class with the most of n0 votes for each input, [m].

    If several classes have the most votes, the lowest of them is returned.
    """
    size, n0 = tiles.sizes[CHOOSING], tiles.smoothing.n0
    found = []
    for one, number in zip(x, numbers, strict=True):
        votes = [
            tiles.votes(one, number, CHOOSING, t)[: n0 - t * size]
            for t in range(-(-n0 // size))
        ]
        found.append(torch.cat(votes))
    counts = [
        np.bincount(v[v >= 0], minlength=1) for v in torch.stack(found).cpu().numpy()
    ]
    return np.array([c.argmax() for c in counts])


def _counted(
    tiles: Tiles, x: Tensor, number: int, label: int, first: int, last: int
) -> Tensor:
    """Count the votes for a label among samples first … last − 1, on the device."""
    size = tiles.sizes[BOUNDING]
    total = torch.zeros((), dtype=torch.long, device=tiles.device)
    for tile in range(first // size, -(-last // size)):
        votes = tiles.votes(x, number, BOUNDING, tile)
        total += (votes[: last - tile * size] == label).sum()
    return total


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with radii as a tuple; raise Refusal if a name is unknown."""
    names = [f.name for f in fields(Smoothing)]
    for key in settings:
        if key not in names:
            raise Refusal(
                f"certify has no setting '{key}'{nearest(key, names)}; the settings "
                f"are: {', '.join(names)}"
            )
    if settings.get("radii") is not None:
        try:
            radii = np.asarray(settings["radii"], dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise Refusal(
                f"radii = {settings['radii']!r} must be a list of numbers"
            ) from None
        settings = settings | {"radii": tuple(radii.tolist())}
    return settings


def inputs(x: Tensor | np.ndarray, smoothing: Smoothing) -> Tensor:
    """Convert inputs to float32.

    Raise Refusal if they are not finite, not images for a deformation, or too large for
    exact sums with noise.
    """
    given, transform = torch.as_tensor(x), smoothing.transform
    if given.dim() < 2 or given.is_complex() or 0 in given.shape[1:]:
        raise Refusal(
            f"x has shape {list(given.shape)} and type {given.dtype}; give inputs as "
            "[m, …], such as [m, channels, height, width], of real numbers"
        )
    if transform != "pixel" and given.dim() != 4:
        raise Refusal(
            f"transform = '{transform}' deforms images, but an input here has shape "
            f"{list(given.shape[1:])}; give x as [m, channels, height, width], or set "
            "transform = 'pixel'"
        )
    images = given.detach().to(torch.float32)
    bad = ~images.flatten(1).isfinite().all(dim=1)
    if bool(bad.any()):
        raise Refusal(
            f"x has NaN or infinite values in {int(bad.sum())} of {len(images)} "
            "inputs, which cannot be certified; leave these inputs out, or replace the "
            "values"
        )
    most = lattice.largest(smoothing.sigma)
    if transform == "pixel" and bool((images.abs() > most).any()):
        raise Refusal(
            f"x has values up to {float(images.abs().max()):.3g}, and noise of sigma = "
            f"{smoothing.sigma:g} is added exactly to values up to {most:.3g} only; "
            "scale the inputs, or take a larger sigma"
        )
    return images


def _numbers(ids: Sequence[int] | np.ndarray | None, m: int) -> list[int]:
    if ids is None:
        return list(range(m))
    if len(ids) != m:
        raise Refusal(f"there are {len(ids)} ids for {m} inputs; give one id per input")
    try:
        found = np.array([operator.index(i) for i in ids], np.int64)
    except (TypeError, OverflowError):
        raise Refusal("ids must be whole numbers of at most 64 bits") from None
    return list(map(int, found))
