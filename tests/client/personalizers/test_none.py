from __future__ import annotations

import pytest
import torch

from troth import lookup
from troth.client.personalizers.none import none
from troth.types import Anchor, Batch, Refusal

NOTHING = Batch(*(torch.zeros(0) for _ in range(5)))


def test_predicts_with_the_shared_model() -> None:
    first, later = torch.zeros(3), torch.ones(3)
    personal = none()
    state = personal.init(first)
    assert state == ()
    assert personal.model(later, state) is later


def test_its_step_does_nothing_and_says_so() -> None:
    personal = none()
    anchor = Anchor(torch.ones(3), torch.ones(3), torch.ones(3))
    assert personal.step((), anchor, NOTHING, NOTHING, torch.ones(())) == ()
    assert personal.idle
    assert personal.finish is None


def test_has_no_options() -> None:
    with pytest.raises(Refusal, match="'none' has no option 'lam'"):
        lookup.check("personalizer", "none", {"lam": 1.0})
