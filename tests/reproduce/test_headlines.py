"""The two sentences of the paper."""

import headlines
import pytest


def numbers(robust, ditto):
    columns = ["clean", *(f"A{a} {k}%" for a in (1, 2, 3) for k in (20, 50, 80))]
    found: headlines.Numbers = {}
    for row in headlines.ROBUST:
        found |= {(row, c): (robust - 0.01 * (row != "Krum"), 0.1) for c in columns}
    found |= {("dynamic λ's", c): (ditto, 0.05) for c in columns}
    return found | {("fair", "clean"): (0.8, 0.1)}


def test_the_two_sentences_by_hand():
    found = headlines.headline(numbers(0.7, 0.9))
    assert found is not None and found.strongest == "Krum"
    assert found.gain == pytest.approx(0.2)
    assert found.less_variance == pytest.approx(0.75)
    assert found.more_accuracy == pytest.approx(0.1) and found.between is None
    printed = headlines.headline(numbers(0.7, 0.9), digits=0.01)
    assert printed is not None  # .05 is .045 to .055, and .1 is .095 to .105
    least, most = 1 - (0.055 / 0.095) ** 2, 1 - (0.045 / 0.105) ** 2
    assert printed.between == pytest.approx((least, most))
    assert printed._replace(between=None) == found
    few = {k: v for k, v in numbers(0.7, 0.9).items() if k != ("median", "A2 50%")}
    assert headlines.headline(few) is None and headlines.headline({}) is None
    assert headlines.headline(numbers(0.7, 0.9), "best λ") is None
    best = {("best λ", c): (0.75, 0.1) for _, c in numbers(0.7, 0.9)}
    other = headlines.headline(numbers(0.7, 0.9) | best, "best λ")
    assert other is not None and other.gain == pytest.approx(0.05)
    assert (other.strongest, other.less_variance) == ("Krum", 0.0)
