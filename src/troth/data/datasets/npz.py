"""A user's own data, from one file of numpy arrays."""

from troth.data.datasets._arrays import assembled, read
from troth.types import Arrays


def npz(
    *,
    path: str,
    scale: float = 0.0,
    classes: int | list[str] = 0,
) -> Arrays:
    """Your own data: arrays x, y (and owner, group, split) in one .npz file.

    The file is written by `np.savez(path, x=…, y=…)`. Other arrays in the file are
    ignored.

    - `x` [m, …]: bytes stay bytes, float64 stays float64, and other numbers become
      float32. Bytes [m, h, w] are gray images and become [m, 1, h, w]. Bytes [m, h, w,
      c] with c = 1 or 3 become [m, c, h, w], unless axis 1 already has size 1 or 3.
      Numbers of other types keep their shape. NaN is a missing value, which
      `[features]` can fill in.
    - `y` [m]: whole numbers are labels 0 … C−1 (or −1 and +1, which become 0 and 1).
      Texts are names of classes, numbered in sorted order. Numbers of a float type are
      targets of a regression, in float32 or float64. If `y` is [m, L] with L ≥ 2, its
      entries 0 and 1 say which of L labels an example has.
    - `owner`, `group` [m]: whole numbers, or texts, which are numbered in sorted order.
    - `split` [m]: 0, 1, 2 or "train", "valid", "test".

    Args:
        path: Path of the file.
        scale: Value of x that is scaled to 1; 0: 255 for bytes, otherwise 1.
        classes: Number of classes, or their names in order; some may have no example.
            0: the classes that occur in `y`.
    """
    return assembled(path, read(path), scale, classes)
