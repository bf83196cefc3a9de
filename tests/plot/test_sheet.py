"""Pictures say what is: their words, bars and colours are read back."""

import io

import numpy as np
import pytest
from PIL import Image

from troth.plot import sheet as gallery
from troth.types import Arrays


def titled(figure, words):
    (found,) = [a for a in figure.get_axes() if a.get_title("left").startswith(words)]
    return found


def rendered(figure):
    """The picture itself; matplotlib must be able to draw it without a warning."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return np.asarray(Image.open(file).convert("RGB"))


def images(m=60, classes=3, channels=1, side=4):
    """Each picture is as bright as its label."""
    y = np.arange(m) % classes
    x = np.zeros((m, channels, side, side), np.uint8)
    x += (y * 255 // max(classes - 1, 1)).astype(np.uint8)[:, None, None, None]
    return Arrays(x, y, classes, scale=255.0)


def split(m, *sizes):
    return np.split(np.arange(m)[: sum(sizes)], np.cumsum(sizes)[:-1])


def test_words_and_bars():
    figure = gallery.draw(images(), split(60, 10, 30, 20), "sixty")
    assert figure.get_suptitle() == "sixty"
    sizes = titled(figure, "Examples per client: 10 to 30, median 20")
    assert [bar.get_height() for bar in sizes.patches] == [30, 20, 10]
    assert [tick.get_text() for tick in sizes.get_xticklabels()] == ["1", "2", "0"]
    below = titled(figure, "Classes per client: 3 of 3")
    assert below.get_xlabel() == "3 clients, the largest first"
    assert rendered(figure).std() > 10


def heat(figure, words="Classes"):
    (found,) = titled(figure, words).get_images()
    return found


def test_the_heat_map_has_the_share_of_each_class():
    """Client 0 has only class 0; client 1 has two of class 1 and one of class 2."""
    figure = gallery.draw(images(), [np.array([0, 3]), np.array([1, 4, 2])], "")
    found = heat(figure, "Classes per client: 1 to 2 of 3")
    assert np.allclose(found.get_array(), [[0, 1], [2 / 3, 0], [1 / 3, 0]])
    assert found.get_clim() == (0, 1)


def test_equal_clients_have_no_median_line_and_equal_shares_are_half_as_dark():
    figure = gallery.draw(images(60, 6), split(60, 30, 30), "")
    assert titled(figure, "Examples per client: 30").get_lines() == []
    assert heat(figure).get_clim() == (0, pytest.approx(2 / 6))


@pytest.mark.parametrize(("classes", "rows"), [(3, 9), (20, 20)])
def test_one_row_per_class_in_its_own_brightness(classes, rows):
    figure = gallery.draw(images(200, classes), split(200, 100, 100), "")
    sheet = titled(figure, "Examples (1×4×4)")
    pixels = np.asarray(sheet.get_images()[0].get_array())
    names = [tick.get_text() for tick in sheet.get_yticklabels()]
    assert names == [str(k) for k in range(classes)]
    each = rows // classes
    gap = 3 * (each > 1)
    tops = [i * 5 + i // each * gap for i in range(rows)]
    assert pixels.shape[0] == tops[-1] + 4
    shades = [(i // each * 255 // (classes - 1)) / 255 for i in range(rows)]
    assert np.allclose(pixels[tops, 0], np.array(shades)[:, None])


def test_very_many_classes_have_no_rows_of_their_own():
    figure = gallery.draw(images(200, 62), split(200, 100, 100), "")
    sheet = titled(figure, "Examples (1×4×4)")
    assert sheet.get_yticklabels() == []
    assert sheet.get_images()[0].get_array().shape[:2] == (10 * 5 - 1, 10 * 5 - 1)


def test_names_of_classes_stand_beside_those_that_somebody_has():
    arrays = images()._replace(labels=("cat", "dog", "a very long name indeed"))
    keep = arrays.y != 1
    arrays = arrays._replace(x=arrays.x[keep], y=arrays.y[keep])
    sheet = titled(gallery.draw(arrays, split(40, 40), ""), "Examples (")
    names = [tick.get_text() for tick in sheet.get_yticklabels()]
    assert names == ["cat", "a very long nam…"]


def test_colours_and_large_pictures():
    arrays = images(30, 3, channels=3, side=320)
    arrays.x[:, 1:] = 0
    found = heat(gallery.draw(arrays, split(30, 30), ""), "Examples (3×320×320)")
    pixels = np.asarray(found.get_array())
    assert pixels.shape[0] < 2000 and np.allclose(pixels[-1, 0], [1, 0, 0])


def table(classes, m=40, d=5):
    random = np.random.default_rng(0)
    y = np.arange(m) % classes if classes else random.normal(size=m)
    return Arrays(random.normal(size=(m, d)), y, classes)


@pytest.mark.parametrize(
    ("d", "shown", "words"), [(5, 5, "Features"), (30, 16, "16 of 30 features")]
)
def test_tables_have_histograms(d, shown, words):
    figure = gallery.draw(table(2, d=d), split(40, 25, 15), "")
    drawn = [a for a in figure.get_axes() if a.get_title("left").startswith("feature ")]
    assert len([a for a in drawn if a.get_visible()]) == shown
    assert sum(patch.get_height() > 0 for patch in drawn[0].patches) > 5
    assert words in {text.get_text() for part in figure.subfigs for text in part.texts}


def test_missing_values_are_counted_and_left_out():
    arrays = table(2)
    arrays.x[:10, 1] = np.nan
    arrays.x[:, 2] = np.nan
    arrays = arrays._replace(names=("age", "weight", "none", "d", "e"))
    figure = gallery.draw(arrays, split(40, 40), "")
    titles = {a.get_title("left") for a in figure.get_axes()}
    assert {"age", "weight (25% missing)", "none (100% missing)"} <= titles
    rendered(figure)


def test_targets_of_a_regression():
    arrays = table(0)
    figure = gallery.draw(arrays, split(40, 30, 10), "")
    (line,) = titled(figure, "Targets per client").get_lines()
    expected = [np.median(arrays.y[:30]), np.median(arrays.y[30:])]
    assert np.allclose(line.get_ydata(), expected)
    rendered(figure)


def test_several_labels_an_example():
    y = np.zeros((20, 4), np.int64)
    y[:10, 0] = 1
    y[:, 3] = 1
    arrays = Arrays(np.zeros((20, 2), np.float32), y, 4)
    figure = gallery.draw(arrays, split(20, 10, 10), "")
    found = heat(figure, "Classes per client: 1 to 2 of 4")
    assert np.allclose(found.get_array(), [[1, 0], [0, 0], [0, 0], [1, 1]])
    rendered(figure)
    many = np.zeros((20, 200), np.int64)
    many[0, :7] = many[19, 5:8] = 1
    figure = gallery.draw(arrays._replace(y=many, classes=200), split(20, 10, 10), "")
    titled(figure, "Classes per client: 3 to 7")


@pytest.mark.slow("draws very large sheets")
def test_very_many_classes_and_clients():
    m = 6000
    arrays = Arrays(np.zeros((m, 1, 2, 2), np.uint8), np.arange(m) % 500, 500)
    clients = np.split(np.arange(m), 2000)
    titled(gallery.draw(arrays, clients, ""), "Classes per client: 3 to 3")
    figure = gallery.draw(arrays._replace(y=arrays.y % 5, classes=5), clients, "")
    found = heat(figure, "Classes per client: 3")
    assert found.get_array().shape == (5, 1500)
    assert [*found.get_extent()[:2]] == [-0.5, 1999.5]
    rendered(figure)


def test_clients_of_very_different_sizes_and_one_alone():
    figure = gallery.draw(images(1200), split(1200, 1000, 2), "")
    assert titled(figure, "Examples per client").get_yscale() == "log"
    figure = gallery.draw(images(), [np.arange(60), np.arange(0)], "")
    titled(figure, "Examples per client: 0 to 60")
    rendered(figure)
    rendered(gallery.draw(table(0), [np.arange(40), np.arange(0)], ""))
    rendered(gallery.draw(images(1, 1), [np.arange(1)], ""))
