r"""The plain average.

@inproceedings{mcmahan2017communication,
  title={Communication-Efficient Learning of Deep Networks from Decentralized Data},
  author={McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and
    Ag{\"u}era y Arcas, Blaise},
  booktitle={AISTATS}, year={2017}}
"""

from __future__ import annotations

from torch import Tensor

from troth import numerics
from troth.types import Messages


def mean(messages: Messages) -> Tensor:
    """The unweighted mean of the updates (Ditto's Algorithm 2, line 8).

    Where clients are drawn in proportion to their sizes, this is the weighted
    objective. No robustness: one message moves it anywhere.
    """
    return numerics.average(messages.update)
