"""What is proven, relied on and detected: certified, audit and verdicts."""

import io

import numpy as np
import pytest
from PIL import Image

from troth import plot
from troth.certificates import bounds
from troth.certificates.curves import Curves
from troth.plot import _style
from troth.plot.trust import certificates, happened

DITTO = "personalizer=ditto+lam=auto"


def test_certified_accuracy_in_the_colours_of_its_models(colours, lines, examined):
    runs = _style.given(examined / "attacked")
    made = plot.certified(runs[-1])
    found = colours(made)
    elsewhere = colours(plot.clients(runs))
    assert found["ditto,lam=auto"] == elsewhere["ditto,lam=auto"]
    assert found["shared model"] == elsewhere["no personalizer"]
    for _, y in lines(made):
        assert all(np.diff(y) <= 0) and 0 <= y[-1] <= y[0] <= 1


def curves(*accuracy):
    n, radii = len(accuracy), np.linspace(0, 1, len(accuracy[0]))
    ones = np.ones(n)
    return Curves(radii, np.arange(n), 10 * ones, np.array(accuracy), *[ones] * 5)


SOME = {
    "personal": curves([1.0, 0.8, 0.2], [0.6, 0.4, 0.0]),
    "shared": curves([0.7, 0.5, 0.1], [0.7, 0.3, 0.1]),
}


def test_a_single_client_has_its_interval():
    figure = certificates({"shared": curves([0.7, 0.5, 0.1])}, "A run", "radians")
    left, _ = figure.axes
    band = left.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(bounds.lower(1, 10, 0.025))
    assert band.max() == pytest.approx(bounds.upper(7, 10, 0.025))
    assert "1 client, with its 95 % interval" in left.get_title(loc="left")


def test_certificates_as_a_picture():
    """The mean and its band, each client; between radii no more than at the larger."""
    figure = certificates(SOME, "A run", "radians")
    left, right = figure.axes
    first, second = left.lines
    np.testing.assert_allclose(first.get_ydata(), [0.8, 0.6, 0.1])
    np.testing.assert_allclose(second.get_ydata(), [0.7, 0.4, 0.1])
    band = left.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.0 and band[:, 1].max() == 1.0
    assert len(right.lines) == 4
    np.testing.assert_allclose(right.lines[1].get_ydata(), [0.6, 0.4, 0.0])
    drawn = [line.get_drawstyle() for axes in figure.axes for line in axes.lines]
    assert {*drawn} == {"steps-pre"}
    assert left.get_legend_handles_labels()[1] == ["personal", "shared"]
    assert left.get_title(loc="left").startswith("mean of 2 clients")
    assert left.get_xlabel() == right.get_xlabel() == "radius (radians)"
    assert len(right.collections) == 4  # an interval of each client and model
    tops = [each.get_paths()[0].vertices[:, 1].max() for each in right.collections]
    assert max(tops) == 1.0 and min(tops) == pytest.approx(bounds.upper(6, 10, 0.025))
    file = io.BytesIO()
    figure.savefig(file, format="png")
    with Image.open(file) as picture:
        assert len({*picture.convert("L").resize((60, 30)).tobytes()}) > 10


def test_one_client_and_radii_that_are_marked_where_they_are_few():
    for radii, mark in ((3, "o"), (50, "None")):
        one = {"local": curves(np.linspace(1, 0, radii).tolist())}
        axes = certificates(one, "", "").axes[0]
        assert axes.lines[0].get_marker() == mark
        assert axes.get_title(loc="left") == "1 client, with its 95 % interval"


def test_audit_draws_every_client(lines, examined):
    figure = plot.audit(examined / "attacked" / DITTO)
    drawn = lines(figure)
    points = [y for x, y in drawn[:-1]]  # the last is the limit
    assert sum(map(len, points)) == 9 and drawn[-1][1] == [0.1, 0.1]
    assert figure.axes[0].get_xlabel() == "client, the largest change first"


def test_verdicts_are_those_of_the_rounds(examined):
    (run, *_) = _style.given(examined / "attacked")
    table = run.column("clipped")
    found = happened(run, "clipped")
    assert np.bincount(found[:, 1], minlength=12).tolist() == table.tolist()
    titles = [axes.get_title(loc="left") for axes in plot.verdicts(run).axes]
    assert [title.split()[0] for title in titles] == ["clipped", "chosen"]
