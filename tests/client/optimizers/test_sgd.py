import torch

from troth.client.optimizers.sgd import sgd


def test_by_hand():
    v, g = torch.tensor([1.0, 2.0]), torch.tensor([10.0, -4.0])
    moved, moments = sgd().step(v, g, (), torch.tensor(0.5))
    assert moved.tolist() == [-4.0, 4.0]
    assert moments == ()
