import torch

from troth.networks.losses.auto import auto
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.networks.losses.squared import squared

F64 = torch.float64


def test_it_goes_by_what_is_to_be_predicted():
    f = torch.randn(6, 3, dtype=F64)
    label, several = torch.randint(0, 3, (6,)), torch.randint(0, 2, (6, 3))
    assert torch.equal(auto(f, label), cross_entropy(f, label))
    assert torch.equal(auto(f, several), multi_label(f, several))
    target = torch.randn(6, dtype=F64)
    assert torch.equal(auto(f[:, :1], target), squared(f[:, :1], target))


def test_as_many_examples_as_labels_are_no_riddle():
    f, y = torch.randn(3, 3, dtype=F64), torch.eye(3, dtype=torch.long)
    assert torch.equal(auto(f, y), multi_label(f, y))
    assert torch.equal(auto(f, torch.arange(3)), cross_entropy(f, torch.arange(3)))
