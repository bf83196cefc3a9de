"""Every score against scikit-learn, on random predictions."""

import numpy as np
import pytest
from sklearn import metrics

from troth import lookup

NAMES = lookup.names("score")


def data(seed, classes, m=60):
    draw = np.random.default_rng(seed)
    probability = draw.dirichlet(np.ones(classes), m)
    y = draw.integers(0, classes, m)
    return y, probability.argmax(axis=1), probability


def value(name, y, predicted, probability, classes, **options):
    given = {"y": y, "predicted": predicted, "probability": probability}
    return lookup.call(lookup.find("score", name), options, classes=classes, **given)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 5])
def test_as_in_scikit_learn(seed, classes):
    y, predicted, probability = data(seed, classes)
    given = y, predicted, probability, classes
    average = "binary" if classes == 2 else "macro"
    assert value("f1", *given) == pytest.approx(
        metrics.f1_score(y, predicted, average=average)
    )
    recall = metrics.recall_score(y, predicted, average=None)
    assert list(value("recall", *given).values()) == pytest.approx(recall)
    assert value("sensitivity", *given) == pytest.approx(recall[1])
    other = metrics.recall_score(y != 1, predicted != 1)
    assert value("specificity", *given) == pytest.approx(other)
    last = classes - 1
    one = value("sensitivity", *given, positive=last)
    assert one == pytest.approx(recall[last])


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_examples_does_not_matter(name):
    y, predicted, probability = data(7, 3)
    order = np.random.default_rng(0).permutation(len(y))
    before = value(name, y, predicted, probability, 3)
    after = value(name, y[order], predicted[order], probability[order], 3)
    assert after == pytest.approx(before)


@pytest.mark.parametrize("name", NAMES)
def test_refuses_what_has_no_classes(refuses, name):
    several = np.zeros((4, 3), int)
    for y, classes in ((np.zeros(4), 0), (several, 3)):
        refuses(
            f"score '{name}' is for data with one class per example",
            lambda y=y, c=classes: value(name, y, y, np.zeros((4, max(c, 1))), c),
        )


def test_no_example_of_a_class_is_no_value():
    none = np.zeros(3, int)
    sure = np.array([[1.0, 0.0]] * 3)
    assert np.isnan(value("sensitivity", none, none, sure, 2))
    assert np.isnan(value("f1", none, none, sure, 2))
    assert np.isnan(value("specificity", none + 1, none, sure, 2))
    assert value("calibration_error", none, none, sure, 2) == 0
