import pytest
import torch

from troth.networks.losses.auto import auto
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.networks.losses.squared import squared

F64 = torch.float64


@pytest.mark.parametrize("b", [6, 3])  # as many examples as labels are no riddle
def test_it_goes_by_what_is_to_be_predicted(b):
    f, label = torch.randn(b, 3, dtype=F64), torch.randint(0, 3, (b,))
    assert torch.equal(auto(f, label), cross_entropy(f, label))
    several, target = torch.randint(0, 2, (b, 3)), torch.randn(b, dtype=F64)
    assert torch.equal(auto(f, several), multi_label(f, several))
    assert torch.equal(auto(f[:, :1], target), squared(f[:, :1], target))
