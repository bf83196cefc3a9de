import numpy as np
from scipy import stats
from sklearn.datasets import load_digits

from troth import devices, lookup
from troth.data.datasets.made_digits import _moved, made_digits

DIGITS = load_digits()


def images(**given):
    return made_digits(0, **given).x[:, 0]


def test_shapes_owners_and_seeds():
    made = made_digits(0, clients=30, per_client=7)
    assert made.x.shape == (210, 1, 8, 8) and made.x.dtype == np.uint8
    assert made.y.shape == (210,) and made.y.dtype == np.int64
    assert (made.classes, made.scale) == (10, 255.0)
    assert np.bincount(made.owner).tolist() == [7] * 30
    one, two = (made_digits(seed, clients=5, per_client=5) for seed in (0, 1))
    assert (one.x != two.x).any() and (one.y != two.y).any()
    flat = one.x.reshape(25, -1)
    assert len({row.tobytes() for row in flat}) == 25


def test_without_style_and_noise_they_are_the_digits_themselves():
    made = made_digits(3, clients=40, per_client=9, style=0.0, noise=0.0)
    source = {
        (image * 15).astype(np.uint8).tobytes(): label
        for image, label in zip(DIGITS.images, DIGITS.target, strict=True)
    }
    assert [source[x[0].tobytes()] for x in made.x] == made.y.tolist()


def test_an_owner_has_the_same_whatever_the_others_are():
    for clients, per_client in ((11, 6), (7, 9), (3, 1)):
        few = made_digits(5, clients=clients, per_client=per_client)
        many = made_digits(5, clients=40_000, per_client=9)  # several pieces of them
        x = many.x.reshape(40_000, 9, 64)[:clients, :per_client]
        assert (few.x.reshape(clients, per_client, 64) == x).all()
        assert (few.y == many.y.reshape(-1, 9)[:clients, :per_client].reshape(-1)).all()


def test_a_row_is_moved_by_quarters_of_a_pixel():
    """An oracle that interpolates, for every move of every row."""
    picture = (DIGITS.images[:20] * 15).astype(np.uint8)
    moved = _moved(picture)[..., None].view(np.uint8)
    for q in range(25):
        at = np.arange(8) - (q / 4 - 3)
        for k in range(20):
            for row in range(8):
                wide = np.interp(at, np.arange(-4, 12), np.pad(picture[k, row], 4))
                assert (moved[q, k, row] == np.floor(wide)).all()
    assert (moved[:, :, 8] == 0).all()


def test_style_is_the_owners_own():
    """Where its ink lies tells an owner; examples of one owner lie alike."""
    far = []
    for style in (0.0, 1.0):
        x = images(clients=60, per_client=40, noise=0.0, style=style)
        x = x.reshape(60, 40, 8, 8).astype(float)
        columns = (x.sum(2) * np.arange(8)).sum(-1) / x.sum((2, 3))
        far.append(columns.mean(1).std() / (columns.std(1).mean() / np.sqrt(40)))
    assert far[0] < 1.5 and far[1] > 3


def test_noise_is_even_and_digits_come_alike_often():
    """Chi-square of 53 values of noise and ten classes; each fails once in 10⁶."""
    clean, noisy = (images(clients=50, per_client=40, noise=n) for n in (0.0, 0.1))
    off, most = noisy.astype(int) - clean, 26  # 0.1 of 255, rounded
    assert np.abs(off).max() == most
    seen = off[(clean >= most) & (clean <= 255 - most)]  # not cut off at 0 or 255
    byte = np.arange(256) * (2 * most + 1) >> 8  # every value is made by 4 or 5 bytes
    expected = np.bincount(byte) / 256 * seen.size
    assert stats.chisquare(np.bincount(seen + most), expected).pvalue > 1e-6
    made = made_digits(0, clients=500, per_client=20)
    share = np.bincount(DIGITS.target) / len(DIGITS.target)
    counts = np.bincount(made.y, minlength=10)
    assert stats.chisquare(counts, share * len(made.y)).pvalue > 1e-6


def test_refusals(refuses):
    for options, words in (
        ({"per_client": -2}, "data.per_client = -2 must be at least 1"),
        ({"style": 1.5}, "data.style = 1.5 must be at least 0 and at most 1"),
        ({"noise": float("nan")}, "data.noise = nan must be at least 0 and at most 1"),
    ):
        given = lookup.check("data", "made_digits", options)
        assert refuses("^data", made_digits, 0, **given) == words


def test_more_than_memory_is_refused(refuses, monkeypatch):
    monkeypatch.setattr(devices, "free", lambda device: 10**6)
    refuses("lower data.clients or data.per_client", made_digits, 0, per_client=10)
