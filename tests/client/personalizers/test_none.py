import torch

from troth.client.personalizers.none import none

from ..hand import number, stepped


def test_predicts_with_the_shared_model_and_does_nothing():
    personal, later = none(), torch.ones(3)
    assert personal.init(number(1.0)) == stepped(personal, (), 4.0, 5.0) == ()
    assert personal.model(later, ()) is later
    assert personal.idle and personal.finish is None
