r"""Examples drawn at random for each client, independently of other clients.

References: farhadkhani2022equivalence.
"""

import numpy as np

from troth import seeding
from troth.types import Arrays, Refusal


def draws(arrays: Arrays, seed: int, *, sizes: list[int]) -> list[np.ndarray]:
    """Draw random examples for each client; the examples of clients may overlap.

    These are the experiments of the paper on the equivalence of attacks: ten clients
    with 6,000 digits each, and in Appendix E one client with all digits and ten clients
    with 10.

    Args:
        arrays: Data to divide.
        seed: Seed of the experiment.
        sizes: Number of examples of each client, drawn without replacement within a
            client.
    """
    m = len(arrays.y)
    if not sizes or min(sizes) < 1 or max(sizes) > m:
        raise Refusal(
            f"partition.sizes = {sizes} must give every client a number of examples "
            f"from 1 to {m}, all that there are"
        )
    random = (seeding.generator(seed, "partition", k) for k in range(len(sizes)))
    pairs = zip(random, sizes, strict=True)
    return [np.sort(draw.choice(m, size, replace=False)) for draw, size in pairs]
