"""What personalizers that go by groups have in common."""

from __future__ import annotations

from typing import Literal

import numpy as np

from troth.types import Groups, Refusal

Without = Literal["refuse", "finetune"]
"""What becomes of clients whose training examples are all of one group."""


def check(name: str, groups: Groups | None, without: Without) -> None:
    """Refuse data without groups and, if so wished, clients with only one.

    Without data (`groups` is None) nothing is refused.
    """
    if groups is None:
        return
    if groups.number == 0:
        raise Refusal(
            f"personalizer '{name}' needs the group of every example, such as aligned "
            "with a shortcut or conflicting, and these data have none; name one "
            "(data.group, or an array group in your file), take data 'colored', or "
            "personalizer 'finetune'"
        )
    lacking = np.flatnonzero(groups.held == 1)
    if without == "refuse" and len(lacking):
        some = ", ".join(map(str, lacking[:4])) + " …" * (len(lacking) > 4)
        raise Refusal(
            f"personalizer '{name}' draws from several groups, and {len(lacking)} of "
            f"{len(groups.held)} clients train on examples of one only (client {some})"
            "; set personalizer.without = 'finetune', which fine-tunes these plainly, "
            "or give them others"
        )
