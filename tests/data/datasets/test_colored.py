"""Colors that go with labels: a white first pixel shows the color as it is."""

import numpy as np
import pytest
from scipy import stats

from troth.config import reader
from troth.data import catalogue, load
from troth.data.datasets import mnist
from troth.data.datasets.colored import PALETTE, colored, dealt
from troth.types import Arrays, Shards

SOURCE = mnist.SOURCE
COLORS = np.array(PALETTE)
PARTS = ("train", "valid", "test")
RARE = 1e-6
CLASSES, CLIENTS, M = 6, 12, 2400


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Grey pictures of 2×2, six classes, by no means alike."""
    x = np.random.default_rng(0).integers(0, 256, (M, 1, 2, 2), dtype=np.uint8)
    x[:, 0, 0, 0] = 255
    file = tmp_path_factory.mktemp("data") / "grey.npz"
    owner = np.arange(M) % 40
    np.savez(file, x=x, y=np.arange(M) % CLASSES, owner=owner, group=np.arange(M))
    return file


def deal(path, seed=0, grey=False, **more):
    """Arrays and shards, in color, or grey with the same pictures in their places."""
    partition = more.pop("partition", {})
    if "name" not in partition:
        partition = {"name": "classes", "clients": CLIENTS, "per_client": 4} | partition
    data = {"name": "npz", "path": str(path)}
    if not grey:
        data = {"name": "colored", "base": "npz", "base_options": {"path": str(path)}}
        data |= {"spread": 0.0} | more
    tree = {"seed": seed, "data": data, "partition": partition}
    return load.deal(reader.from_dict(tree), None)[:2]


def numbers(x):
    """Which color of the palette the first pixel has, exactly."""
    same = (x[:, :, 0, 0][:, None] == COLORS).all(axis=2)
    assert (same.sum(axis=1) == 1).all()
    return same.argmax(axis=1)


def maps(arrays, shards):
    """The color of every client's classes, read off its aligned examples."""
    found = []
    for parts in zip(*shards[:3], strict=True):
        rows = np.concatenate(parts)
        rows = rows[arrays.group[rows] == 0]
        pairs = {*zip(arrays.y[rows].tolist(), numbers(arrays.x[rows]), strict=True)}
        one = {label: int(color) for label, color in pairs}
        assert len(one) == len(pairs) == 4, "a class has one aligned color"
        assert len({*one.values()}) == 4, "no two classes share one"
        found.append(one)
    return found


def test_a_picture_is_its_color_times_its_grey(path):
    grey, places = deal(path, grey=True)
    found, shards = deal(path, correlation=0.7)
    assert found.x.dtype == np.uint8 and found.x.shape[1:] == (3, 2, 2)
    assert found.scale == 255 and found.classes == CLASSES
    for name in PARTS:
        both = getattr(shards, name), getattr(places, name)
        for mine, plain in zip(*both, strict=True):
            assert (found.y[mine] == grey.y[plain]).all()
            assert (found.owner[mine] == grey.owner[plain]).all()
            color = COLORS[numbers(found.x[mine])][:, :, None, None]
            expected = np.rint(grey.x[plain] * (color / 255))
            assert np.abs(found.x[mine] - expected).max() <= 1  # float32's half
    rows = np.concatenate([np.concatenate(p) for p in shards[:3]])
    assert len(np.unique(rows)) == len(rows) == M


def test_the_correlation_is_that_asked_for(path):
    """In every part, each failing one seed in a million."""
    for correlation in (0.98, 0.6):
        arrays, shards = deal(path, correlation=correlation)
        for name in PARTS:
            group = arrays.group[np.concatenate(getattr(shards, name))]
            aligned = int((group == 0).sum())
            p = stats.binomtest(aligned, len(group), correlation).pvalue
            assert p > RARE, (name, aligned, len(group))


def test_the_correlation_and_who_conflicts(path):
    arrays, shards = deal(path, correlation=0.7)
    for one, *parts in zip(maps(arrays, shards), *shards[:3], strict=True):
        rows = np.concatenate(parts)
        color = numbers(arrays.x[rows])
        aligned = np.array([one[label] for label in arrays.y[rows].tolist()])
        assert ((color != aligned) == arrays.group[rows]).all()
        assert {*color.tolist()} == {*one.values()}, "only colors of its own"
    first = maps(*deal(path, seed=1))
    assert maps(*deal(path, seed=1, correlation=0.9)) == first
    assert maps(*deal(path, seed=2)) != first
    assert len({tuple(sorted(one.items())) for one in first}) > CLIENTS / 2
    meanings = {color: set() for color in range(CLASSES)}
    for one in first:
        for label, color in one.items():
            meanings[color].add(label)
    assert all(len(labels) > 1 for labels in meanings.values()), "reused otherwise"


def test_one_map_for_all_and_central_training(path):
    """Class c has color c, also at a single client with all classes."""
    for partition in ({}, {"name": "iid", "clients": 1}):
        arrays, shards = deal(path, maps="fixed", partition=partition)
        assert len(shards.train) == partition.get("clients", CLIENTS)
        color = numbers(arrays.x)
        assert ((color == arrays.y) == (arrays.group == 0)).all()
        assert {*color.tolist()} == {*range(CLASSES)}


def test_a_base_of_ones_own_is_read_again_when_it_changed(tmp_path):
    x = np.full((40, 2, 2), 255, np.uint8)
    data = {"name": "colored", "base": "npz", "maps": "fixed", "spread": 0.0}
    data |= {"correlation": 1.0, "base_options": {"path": str(tmp_path / "own.npz")}}
    e = reader.from_dict({"data": data, "partition": {"name": "iid", "clients": 2}})
    for label in (0, 1):
        save(tmp_path, x, np.where(np.arange(40) < 20 + label, 0, 1))
        arrays, shards, _ = load.deal(e, None)
        held = np.concatenate([np.concatenate(part) for part in shards[:3]])
        assert (arrays.y[held] == 0).sum() == 20 + label


def test_the_conflicting_test_is_the_same_pictures_recolored(path):
    grey, places = deal(path, grey=True)
    arrays, shards = deal(path, correlation=0.7)
    counts = np.zeros(3)
    assert list(shards.tests) == ["conflicting"]
    tests = shards.test, shards.tests["conflicting"], places.test
    every = zip(maps(arrays, shards), *tests, strict=True)
    for one, plain, other, source in every:
        assert len(plain) == len(other)
        assert (arrays.y[other] == grey.y[source]).all()
        assert (arrays.group[other] == 1).all()
        color = numbers(arrays.x[other])
        bright = COLORS[color][:, :, None, None] / 255
        assert np.abs(arrays.x[other] - np.rint(grey.x[source] * bright)).max() <= 1
        own = sorted(one.values())
        for label, got in zip(arrays.y[other].tolist(), color.tolist(), strict=True):
            rest = [c for c in own if c != one[label]]
            counts[rest.index(got)] += 1  # fails on the aligned color
        kept = arrays.group[plain] == 1
        assert (plain[kept] == other[kept]).all(), "those that conflict stay"
        assert not np.isin(other[~kept], np.concatenate([*shards.test])).any()
    assert stats.chisquare(counts).pvalue > RARE  # each of the others as often


def test_all_or_none(path, refuses):
    for correlation, group in ((1.0, 0), (0.0, 1)):
        arrays, shards = deal(path, correlation=correlation)
        for name in PARTS:
            assert (arrays.group[np.concatenate(getattr(shards, name))] == group).all()
        rows = np.concatenate(shards.tests["conflicting"])
        assert (arrays.group[rows] == 1).all()
        assert len(arrays.x) == M + (0 if group else len(rows)), "no picture more"
        partition = {"conflicting": "copied"}  # it needs no second conflicting set
        refuses("'copied' needs data with a group", deal, path, partition=partition)


def test_a_client_with_one_class_takes_colors_of_others(path):
    arrays, shards = deal(path, correlation=0.5, partition={"per_client": 1})
    for plain, other in zip(shards.train, shards.tests["conflicting"], strict=True):
        group, color = arrays.group[plain], numbers(arrays.x[plain])
        (aligned,) = {*color[group == 0].tolist()}
        assert aligned not in color[group == 1] and (color < CLASSES).all()
        again = numbers(arrays.x[other])
        assert aligned not in again and len({*again.tolist()}) > 2


def test_the_noise_is_the_pictures_own(path):
    plain, _ = deal(path, maps="fixed", correlation=1.0)
    noisy, _ = deal(path, maps="fixed", correlation=1.0, spread=0.04)
    assert len(plain.x) == len(noisy.x)
    color = COLORS[plain.y]
    inner = ((color > 45) & (color < 210)).all(axis=1)  # not cut off at 0 or 255
    inner &= np.arange(len(inner)) < M  # the second test set has other colors
    noise = (noisy.x[inner, :, 0, 0] - plain.x[inner, :, 0, 0].astype(float)) / 255
    n = noise.size
    assert n > 500
    low, high = stats.chi2.ppf([RARE / 2, 1 - RARE / 2], n)
    assert low < (noise**2).sum() / 0.04**2 < high


def test_pixels_of_any_scale_become_bytes():
    grey = Arrays(np.float32([[[[0.0, 0.5], [1.0, 0.25]]]] * 2), np.arange(2), 2)
    one = [np.array([0])], [np.array([], np.int64)], [np.array([1])]
    given = {"maps": "fixed", "correlation": 1.0, "spread": 0.0}
    arrays, shards = dealt(grey, Shards(*one), 0, **given)
    assert arrays.scale == 255 and arrays.x.dtype == np.uint8
    assert arrays.x[0, 0].tolist() == [[0, 126], [251, 63]]  # 251/2 and 251/4, rounded
    assert arrays.x[0, 2].tolist() == [[0, 22], [43, 11]]
    assert arrays.x[2, :, 1, 0].tolist() == list(PALETTE[0])  # class 1 in 0's color
    assert shards.tests["conflicting"][0].tolist() == [2]
    apart = np.abs(COLORS[:, None] - COLORS).sum(axis=2) + 999 * np.eye(20)
    assert apart.min() > 70 and COLORS.min() >= 0 and COLORS.max() <= 255


def test_digits_through_the_front():
    found = catalogue.deal("colored", ["data.base=digits"])
    assert found.arrays.x.shape[1:] == (3, 8, 8) and len(found.clients) == 10
    assert sum(map(len, found.clients)) == 1797 < len(found.arrays.x)


def save(tmp_path, x, y):
    np.savez(tmp_path / "own.npz", x=np.asarray(x), y=np.asarray(y))
    return tmp_path / "own.npz"


BYTES = np.zeros((42, 2, 2), np.uint8)
MANY = np.stack([np.arange(42) % 2, np.arange(42) // 21], axis=1)


def test_refuses_what_has_no_colors(tmp_path, refuses):
    for x, y, words in (
        (np.zeros((42, 3, 2, 2), np.uint8), MANY[:, 0], "examples of 3 channels, and"),
        (np.zeros((42, 3)), MANY[:, 0], r"examples of shape \(3,\), and only gray"),
        (BYTES, np.arange(42) // 2, "21 classes, and colors go with"),
        (BYTES, np.linspace(0, 1, 42), "0 classes"),
        (BYTES, MANY, "several labels each"),
        (BYTES - 0.5, MANY[:, 0], "pixels from -0.5 to -0.5, and they"),
    ):
        options = {"base_options": {"path": str(save(tmp_path, x, y))}}
        refuses(f"'npz' has .*{words}", colored, base="npz", **options)


def test_refuses_options(refuses):
    for options, words in (
        ({"correlation": -0.1}, "data.correlation = -0.1 must be a share"),
        ({"spread": -0.1}, "data.spread = -0.1 must be at least 0"),
        ({"base": "colored"}, "data.base = 'colored' is colored already"),
        ({"base": "mnits"}, "there is no data 'mnits'.*did you mean 'mnist'"),
        ({"base": "npz"}, "needs the option 'path'"),
    ):
        refuses(words, colored, **options)


@pytest.mark.data
def test_real_mnist_and_objects(real):
    assert len(colored(real, pool="all").y) == 70_000
    assert colored(real).x.shape == (60_000, 1, 28, 28)
    small = colored(real, base="coil20", base_options={"side": 32})
    assert small.x.shape == (1440, 1, 32, 32) and small.group is None
    assert small.classes == len(PALETTE)
