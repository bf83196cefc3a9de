"""Certificates of some inputs, and the hash of the model's parameters."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from troth.types import Refusal

Parameters = nn.Module | Tensor | Mapping[str, Tensor]


class Certificate(NamedTuple):
    """Certificate of one input."""

    label: int  # class that the smoothed classifier predicts; −1: it abstains
    radius: float  # all inputs nearer than this get the same label
    p_lower: float  # lower bound on the probability of the class under noise
    votes: int  # votes for the class
    used: int  # number of samples from which the bound is computed
    settled: bool  # whether adaptive sampling answered its question; True if fixed


class Certificates(NamedTuple):
    """Certificates of some inputs, one value per input, and their settings.

    The guarantee holds for each input separately, with probability at least 1 − α over
    the noise: the smoothed classifier predicts `label` for all inputs nearer than
    `radius`. For a deformation, the distance is the norm of its parameters.
    """

    label: np.ndarray  # [m] int64; −1: the classifier abstains
    radius: np.ndarray  # [m]
    p_lower: np.ndarray  # [m]
    votes: np.ndarray  # [m] int64
    used: np.ndarray  # [m] int64
    settled: np.ndarray  # [m] bool
    record: dict[str, Any]  # transform, sigma, n0, n, alpha, seed, precision …

    def certified(self, radii: ArrayLike) -> np.ndarray:
        """Return whether each input is certified at each radius: bool [m, radii]."""
        return certified(self.label, self.radius, radii)

    def accuracy(self, y: ArrayLike, radii: ArrayLike) -> np.ndarray:
        """Return the share of inputs both correct and certified at each radius.

        Args:
            y: [m] true classes.
            radii: radii at which inputs must be certified.

        Returns:
            Certified accuracy, [radii].
        """
        right = self.label == np.asarray(y)
        return np.asarray((self.certified(radii) & right[:, None]).mean(axis=0))

    def check(self, parameters: Parameters) -> None:
        """Raise Refusal if parameters differ from the certified ones, by their hash."""
        matching(self.record["parameters"], fingerprint(parameters), "this model")


def collect(found: list[Certificate], record: dict[str, Any]) -> Certificates:
    """Gather certificates into one array per field."""
    kinds = (np.int64, np.float64, np.float64, np.int64, np.int64, np.bool_)
    columns = zip(*found, strict=True) if found else [()] * len(kinds)
    named = zip(Certificate._fields, columns, kinds, strict=True)
    arrays: dict[str, Any] = {n: np.array(c, dtype=k) for n, c, k in named}
    return Certificates(**arrays, record=record)


def certified(label: np.ndarray, radius: np.ndarray, radii: ArrayLike) -> np.ndarray:
    """Return whether each input is certified at each radius: bool [m, radii].

    At radius 0, an input is certified if the classifier does not abstain. If it
    abstains, the input is certified at no radius.

    Args:
        label: [m] certified classes; −1: the classifier abstains.
        radius: [m] certified radii.
        radii: radii at which inputs may be certified.
    """
    wanted = np.asarray(radii, dtype=np.float64)
    return np.asarray((radius[:, None] >= wanted) & (label[:, None] >= 0))


def fingerprint(parameters: Parameters) -> str:
    """Compute the SHA-256 of names, types, shapes and values of parameters and buffers.

    The result is a hexadecimal string.
    """
    if isinstance(parameters, Tensor):
        parameters = {"": parameters}
    named = parameters.state_dict() if isinstance(parameters, nn.Module) else parameters
    digest = hashlib.sha256()
    for name in sorted(named):
        value = named[name].detach().cpu().contiguous()
        digest.update(f"{name}/{value.dtype}/{list(value.shape)}/".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def matching(recorded: str, found: str, whose: str) -> None:
    """Raise Refusal if a hash differs from the recorded one.

    Args:
        recorded: hash of the certified parameters; "" if it was not recorded.
        found: hash of the present parameters.
        whose: name of their model, for the error message.
    """
    if not recorded:
        raise Refusal(
            "these certificates do not record the hash of the model's parameters; "
            "certify with parameters=, or give a torch.nn.Module as classify"
        )
    if recorded != found:
        raise Refusal(
            f"these certificates are for parameters with SHA-256 {recorded[:12]}…, "
            f"but {whose} has {found[:12]}…: it was changed after certification; "
            "certify it again, or restore the old parameters"
        )
