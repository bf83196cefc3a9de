"""The target model of an attack, read from a file."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from troth.types import Refusal


def read(path: str, size: int) -> Tensor:
    """Read a target model [size] from .npy, or from the array `target` of .npz.

    Raise Refusal if the file cannot be read or does not fit the model.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise Refusal(
            f"there is no target {path!r}; give a .npy or .npz file with the wanted "
            "model as one vector (`troth poison` writes one)"
        )
    found = _load(str(file), file.stat().st_mtime_ns)
    if found.numel() != size:
        raise Refusal(
            f"the target in {path!r} has {found.numel()} numbers, and this model has "
            f"{size}; make the target from a model of the same kind"
        )
    return found


@lru_cache(maxsize=4)
def _load(path: str, changed: int) -> Tensor:
    """Read a file; a cache avoids reading it again unless `changed` differs."""
    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            found = found["target"]
        vector = torch.from_numpy(np.asarray(found, dtype=np.float64).reshape(-1))
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise Refusal(
            f"{path!r} holds no target ({error}); give a .npy file with one vector, or "
            "a .npz file with an array `target`"
        ) from None
    if not bool(vector.isfinite().all()):
        raise Refusal(f"the target in {path!r} is not finite; give finite numbers")
    return vector
