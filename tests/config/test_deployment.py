import pytest

from troth.config.deployment import Deployment
from troth.types import Refusal


def test_names_give_the_sizes():
    """Features and labels say how long an example is and how many classes there are."""
    made = Deployment(features=["age", "sex=f"], labels=["ill", "well", "dead"])
    assert made.shape == [2] and made.classes == 3
    same = Deployment(
        features=["age", "sex=f"], labels=["ill", "well", "dead"], shape=[2], classes=3
    )
    assert made == same
    assert Deployment().shape == [] and Deployment().classes is None


def test_sizes_that_contradict_the_names():
    with pytest.raises(Refusal, match="features names 2 features and .*shape = .3."):
        Deployment(features=["age", "sex=f"], shape=[3])
    with pytest.raises(Refusal, match="labels names 2 classes and .*classes = 3"):
        Deployment(labels=["ill", "well"], classes=3)
