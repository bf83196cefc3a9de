"""The coordinate-wise median.

@inproceedings{yin2018byzantine,
  title={Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates},
  author={Yin, Dong and Chen, Yudong and Ramchandran, Kannan and Bartlett, Peter},
  booktitle={ICML}, year={2018}}
"""

from __future__ import annotations

from torch import Tensor

from troth import numerics
from troth.types import Messages


def median(messages: Messages) -> Tensor:
    """The median of every coordinate (Definition 1); even counts take the middle.

    Guarantee: with fewer than half of the rows hostile, every coordinate lies within
    the range of the benign ones.
    """
    return numerics.median(messages.update)
