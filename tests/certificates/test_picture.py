"""Certified accuracy over the radius, as a picture."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from troth.certificates.curves import Curves
from troth.certificates.picture import draw


def curves(accuracy: list[list[float]], radii: list[float]) -> Curves:
    n = len(accuracy)
    ones = np.ones(n)
    return Curves(
        np.array(radii), np.arange(n), 10 * ones, np.array(accuracy), *[ones] * 4
    )


SOME = {
    "personal": curves([[1.0, 0.8, 0.2], [0.6, 0.4, 0.0]], [0.0, 0.5, 1.0]),
    "shared": curves([[0.7, 0.5, 0.1], [0.7, 0.3, 0.1]], [0.0, 0.5, 1.0]),
}


def test_the_mean_its_band_and_each_client() -> None:
    left, right = draw(SOME, "A run", "radians").axes
    first, second = left.lines
    np.testing.assert_allclose(first.get_ydata(), [0.8, 0.6, 0.1])
    np.testing.assert_allclose(second.get_ydata(), [0.7, 0.4, 0.1])
    band = left.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.0 and band[:, 1].max() == 1.0
    assert len(right.lines) == 4
    np.testing.assert_allclose(right.lines[1].get_ydata(), [0.6, 0.4, 0.0])


def test_between_two_radii_it_claims_no_more_than_at_the_larger() -> None:
    for axes in draw(SOME, "A run", "pixels").axes:
        assert all(line.get_drawstyle() == "steps-pre" for line in axes.lines)


def test_it_says_what_is_what() -> None:
    left, right = draw(SOME, "A run", "radians").axes
    assert left.get_legend_handles_labels()[1] == ["personal", "shared"]
    assert left.get_title(loc="left").startswith("mean of 2 clients")
    assert left.get_xlabel() == right.get_xlabel() == "radius (radians)"
    alone = {"local": curves([[0.9, 0.1]], [0.0, 1.0])}
    assert draw(alone, "A run", "").axes[0].get_title(loc="left") == "1 client"


@pytest.mark.parametrize("radii", [3, 50])
def test_radii_are_marked_where_they_are_few(radii: int) -> None:
    one = curves([np.linspace(1, 0, radii).tolist()], np.arange(radii).tolist())
    [line] = draw({"else": one}, "", "").axes[0].lines
    assert line.get_marker() == ("o" if radii == 3 else "")


def test_it_can_be_written() -> None:
    file = io.BytesIO()
    draw(SOME, "A run", "radians").savefig(file, format="png")
    with Image.open(file) as picture:
        assert picture.size == (1430, 572)
        assert len(set(picture.convert("L").resize((60, 30)).tobytes())) > 10
