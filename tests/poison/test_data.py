"""Labels of crafted inputs, what is learned from them, and their file."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special
from scipy.special import expit, log_softmax, softmax

from troth.data.corruptions.from_file import from_file
from troth.poison import (
    Examples,
    Head,
    boxed_inputs,
    clipped_inputs,
    data_attack,
    examples_needed,
    labelled,
    probabilities,
    save,
    summary,
    weight_needed,
    whole_numbers,
)
from troth.types import Refusal

HEAD = Head(np.array([[1.0, 0], [0, 1], [-1, 2]]), np.array([0.0, 0.5, -0.5]))
X = np.random.default_rng(0).normal(size=(7, 2))


def test_probabilities_are_the_softmax_and_a_margin_s_the_logistic_function():
    logits = X @ HEAD.weight.T + HEAD.bias
    assert probabilities(HEAD, X) == pytest.approx(softmax(logits, axis=1))
    huge = probabilities(Head(1e6 * HEAD.weight, HEAD.bias), X)
    assert huge.sum(axis=1) == pytest.approx(np.ones(7))
    one = Head(np.array([[2.0, -1]]), np.array([0.3]))
    share = expit(X @ one.weight[0] + 0.3)
    assert probabilities(one, X) == pytest.approx(np.column_stack([1 - share, share]))
    assert one.classes == 2


def test_soft_labels():
    found = labelled(HEAD, X, 0)
    assert found.p == pytest.approx(probabilities(HEAD, X))
    assert np.array_equal(found.y, found.p.argmax(axis=1))
    assert np.array_equal(found.x, X)


def test_sampled_labels_have_the_probabilities():
    """60,000 draws: a share strays by 6 standard errors with probability 2e-9 each."""
    x = np.repeat(X[:2], 30_000, axis=0)
    found, again, other = (labelled(HEAD, x, s, labels="sampled") for s in (4, 4, 5))
    assert found.p is None and found.y.dtype == np.int64
    for first in (0, 30_000):
        p = probabilities(HEAD, x[first : first + 1])[0]
        share = np.bincount(found.y[first : first + 30_000], minlength=3) / 30_000
        assert np.all(np.abs(share - p) <= 6 * np.sqrt(p * (1 - p) / 30_000))
    assert np.array_equal(found.y, again.y) and not np.array_equal(found.y, other.y)


def test_certain_labels_are_never_sampled_otherwise():
    sure = Head(np.array([[0.0], [1e5], [0.0]]), np.zeros(3))
    assert (labelled(sure, np.ones((500, 1)), 0, labels="sampled").y == 1).all()


def test_repeated_labels_by_hand():
    assert whole_numbers(np.array([[0.5, 0.3, 0.2]]), 10).tolist() == [[5, 3, 2]]
    assert whole_numbers(np.array([[0.55, 0.28, 0.17]]), 10).tolist() == [[5, 3, 2]]
    assert whole_numbers(np.full((1, 4), 0.25), 6).tolist() == [[2, 2, 1, 1]]
    found = labelled(HEAD, X[:2], 0, labels="repeated", repeats=20)
    assert found.x.shape == (40, 2) and found.p is None
    counts = [np.bincount(found.y[(found.x == x).all(1)], minlength=3) for x in X[:2]]
    assert np.array_equal(counts, whole_numbers(probabilities(HEAD, X[:2]), 20))


@given(seed=st.integers(0, 10**6), k=st.integers(2, 12), repeats=st.integers(1, 400))
def test_whole_numbers_are_near(seed, k, repeats):
    p = np.random.default_rng(seed).dirichlet(np.full(k, 0.4), 6)
    counts = whole_numbers(p, repeats)
    assert (counts >= 0).all() and (counts.sum(axis=1) == repeats).all()
    assert (np.abs(counts - repeats * p) < 1 + 1e-9).all()


def some(k, d, seed):
    rng = np.random.default_rng([k, d, seed])
    weight = rng.normal(size=(k, d))
    return Head(weight, -weight @ rng.uniform(0.3, 0.7, d))


def learned(found, k, margin=False, lam=0.0, target=None, weight=1.0):
    """What a user learns: weight·cross-entropy + λ·½‖θ − θ†‖², by Newton's method."""
    x = np.column_stack([found.x, np.ones(len(found.x))])
    p, d = np.eye(k)[found.y] if found.p is None else found.p, x.shape[1]
    rows = 1 if margin else k
    to = np.zeros((rows, d)) if target is None else np.column_stack(target)

    def chances(theta):
        z = x @ theta.reshape(rows, d).T
        return log_softmax(np.insert(z, 0, 0, axis=1) if margin else z, axis=1)

    def loss(theta):
        log, away = chances(theta), theta.reshape(rows, d) - to
        slope = (np.exp(log) - p)[:, -rows:].T @ x
        value = -weight * (p * log).sum() + 0.5 * lam * (away**2).sum()
        return float(value), (weight * slope + lam * away).ravel()

    def curvature(theta):
        q = np.exp(chances(theta))[:, -rows:]
        each = np.einsum("na,ab->nab", q, np.eye(rows)) - q[:, :, None] * q[:, None]
        blocks = np.einsum("nab,ni,nj->aibj", each, x, x, optimize=True)
        return weight * blocks.reshape(rows * d, -1) + lam * np.eye(rows * d)

    theta = to.ravel().copy()
    for _ in range(60):
        value, slope = loss(theta)
        step = np.linalg.lstsq(curvature(theta), slope, rcond=1e-13)[0]
        while loss(theta - step)[0] > value and np.abs(step).max() > 1e-13:
            step /= 2
        theta = theta - step
        if np.abs(step).max() < 1e-11:
            break
    matrix = theta.reshape(rows, d)
    return Head(matrix[:, :-1], matrix[:, -1])


def apart(one, other):
    """How far two heads are apart, up to what all classes have in common."""
    away = np.column_stack(one) - np.column_stack(other)
    return float(np.linalg.norm(away - (away.mean(axis=0) if len(away) > 1 else 0)))


@pytest.mark.parametrize("inputs", ["free", "box", "clip"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_model_is_recovered_from_soft_labels(k, inputs):
    """One row is a margin."""
    head = some(k, 8, seed=0)
    found = data_attack(head, 200, 1, inputs=inputs, width=3.0, noise=0.2)
    assert found.x.shape == (200, 8)
    assert apart(learned(found, max(2, k), k == 1), head) < 1e-6


def test_on_v_itself_the_scale_is_not_learned():
    """Without noise every multiple of θ♠ fits: the shortest is learned, not θ♠."""
    found = data_attack(some(3, 6, seed=2), 200, 3, width=2.0, noise=0.0)
    weight = learned(found, 3).weight
    assert np.linalg.norm(weight - weight.mean(axis=0)) < 1e-5


def test_hard_labels_come_near_and_nearer_with_repeats():
    head = some(3, 5, seed=3)

    def miss(number, **labels):
        found = data_attack(head, number, 4, width=2.0, noise=1.0, **labels)
        return apart(learned(found, 3), head)

    size = apart(head, Head(np.zeros((3, 5)), np.zeros(3)))
    many = miss(400, labels="repeated", repeats=100)
    assert many < miss(400, labels="repeated", repeats=5) and many < 0.02 * size
    assert miss(8000, labels="sampled") < 0.2 * size


def test_few_examples_leave_directions_open():
    head = some(3, 30, seed=5)
    few, enough = (data_attack(head, m, 5, noise=0.2) for m in (20, 60))
    zero = Head(np.zeros((3, 30)), np.zeros(3))
    assert weight_needed(head, zero, few.x, lam=1.0, tolerance=0.01) == math.inf
    assert apart(learned(enough, 3), head) < 1e-5


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("tolerance", [0.3, 0.05])
def test_the_weight_keeps_the_model_where_it_should_be(k, tolerance):
    """Close to V the first order is exact, as far as labels stay equally likely."""
    head, target = some(k, 6, seed=6), some(k, 6, seed=7)
    near, to = (Head(0.005 * h.weight, 0.005 * h.bias) for h in (head, target))
    found = data_attack(near, 60, 8, width=1.0, noise=0.5)
    weight = weight_needed(near, to, found.x, lam=2.0, tolerance=tolerance)
    got = learned(found, max(2, k), k == 1, lam=2.0, target=to, weight=weight)
    assert apart(got, near) / apart(near, to) == pytest.approx(tolerance, rel=0.02)


def test_the_box_needs_less_weight_than_clipping():
    head, target = some(4, 30, seed=9), some(4, 30, seed=10)
    large = Head(4 * head.weight, 4 * head.bias)
    boxed, clipped = (
        weight_needed(large, target, make(large, 300, 0, noise=0.05), lam=1.0)
        for make in (boxed_inputs, clipped_inputs)
    )
    assert boxed < clipped
    assert weight_needed(large, large, boxed_inputs(large, 9, 0), lam=1.0) == 0


SIX = some(3, 6, seed=0)
INFINITE = Head(HEAD.weight, np.array([0, math.inf, 0]))
FOUR = np.ones((4, 6))


@pytest.mark.parametrize(
    ("call", "given", "options", "words"),
    [
        (labelled, (HEAD, X, 0), {"labels": "repeated", "repeats": 0}, "repeats = 0"),
        (labelled, (HEAD, np.ones((3, 4)), 0), {}, r"the model needs \[m, 2\]"),
        (probabilities, (INFINITE, X), {}, "NaN or infinite"),
        (
            data_attack,
            (SIX, 1, 0),
            {},
            "1 poisoned example is enough for a linear regression",
        ),
        (data_attack, (SIX, -4, 0), {}, "the number of poisoned examples is -4"),
        (data_attack, (SIX, 10, 0), {"width": 0}, "width|box from"),
        (weight_needed, (SIX, SIX, FOUR), {"lam": 0}, "lam = 0 must be"),
        (weight_needed, (SIX, SIX, FOUR), {"lam": 1, "tolerance": 1}, "tolerance = 1"),
        (weight_needed, (SIX, some(3, 5, 0), FOUR), {"lam": 1}, r"has shape \(3, 5\)"),
        (summary, (np.ones((1, 1)), -1), {}, "others = -1"),
    ],
)
def test_refusals(call, given, options, words):
    with pytest.raises(Refusal, match=words):
        call(*given, **options)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_one_example_makes_up_for_no_more_than_lamberts_w(classes):
    """κ = max over logits of max z − softmax(z)·z, by search."""
    random = np.random.default_rng(classes)

    def less(z):
        return -float(z.max() - softmax(z) @ z)

    starts = random.normal(size=(20, classes))
    found = [optimize.minimize(less, z, method="Nelder-Mead").fun for z in starts]
    equal = np.linspace(0, 6, 6001)[:, None] * (np.arange(classes) == 0)
    kappa = float(special.lambertw((classes - 1) / np.e).real)
    assert -min(*found, *map(less, equal)) == pytest.approx(kappa, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_no_data_hold_a_model_with_fewer_than_needed(seed):
    """Any examples at all: where their minimum lies, they were enough for it."""
    random = np.random.default_rng(seed)
    k, d, m, lam, nu = (2, 3, 10)[seed % 3], 4, 30, 0.3, 0.02 * (seed % 2)
    x = random.normal(size=(m, d)) * 3
    p = random.dirichlet(np.full(k, 0.2), size=m)
    rho = random.normal(size=(k, d + 1))
    wanted = Head(rho[:, :-1], rho[:, -1])
    # λ/2·‖θ − ρ‖² + ν‖θ‖² is one square, but for a constant
    center = Head(*(part * lam / (lam + 2 * nu) for part in wanted))
    held = learned(Examples(x, p.argmax(1), p), k, lam=lam + 2 * nu, target=center)
    needed = examples_needed(held, wanted, lam=lam, nu=nu)
    assert needed <= m
    further = Head(9 * held.weight, 9 * held.bias)  # so far they cannot hold it
    assert examples_needed(further, wanted, lam=lam, nu=nu) > 9 * needed


def test_what_asks_nothing_needs_nothing():
    head = Head(np.ones((3, 2)), np.zeros(3))
    assert examples_needed(head, head, lam=1.0) == 0.0
    other = Head(np.full((3, 2), 7.0), np.ones(3))  # the same answers
    assert examples_needed(other, head, lam=1.0) == pytest.approx(0.0, abs=1e-12)


HEAD_FILES = Head(np.array([[1.0, 2, 0], [0, 1, 3]]), np.array([0.5, 0.0]))


def test_saved_and_read(tmp_path):
    """As an archive without pickles, and by the corruption that reads it."""
    found = data_attack(HEAD_FILES, 20, 0)
    place = tmp_path / "bad.npz"
    told = save(place, found.x, found.y, found.p, others=180)
    norm = np.linalg.norm(found.x, axis=1).max()
    assert told == (20, pytest.approx(0.1), pytest.approx(norm))
    with np.load(place) as file:
        assert {*file} == {"x", "y", "p", "scale", *told._fields}
        assert np.array_equal(file["x"], found.x) and np.array_equal(file["p"], found.p)
        assert file["y"].tolist() == file["p"].argmax(axis=1).tolist()
        assert [file[name] for name in ("scale", *told._fields)] == [1, *told]
    assert [p.name for p in tmp_path.iterdir()] == ["bad.npz"]
    save(place, found.x, p=found.p)
    own = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
    x, y = from_file(*own, 2, torch.tensor(7), path=str(place), take="all")
    assert x.numpy() == pytest.approx(found.x)
    assert y.numpy() == pytest.approx(found.p)


def test_answers_and_hard_labels_have_no_p(tmp_path):
    def read(x, y, **options):
        save(tmp_path / "a", x, np.array(y), **options)
        return dict(np.load(tmp_path / "a"))

    answers = read(np.ones((3, 2)), [0.5, 1.5, 2.0])
    assert "p" not in answers and answers["y"].dtype == np.float64
    pixels = read(np.ones((3, 1, 2, 2), np.uint8), [0, 1, 1])
    assert [pixels[key] for key in ("scale", "share", "largest_norm")] == [255, 1, 2]
    assert read(np.ones((3, 2)), [0, 1, 1], scale=16)["scale"] == 16
    assert summary(np.array([[3.0, 4.0], [0.0, 1.0]]), 8) == (2, 0.2, 5.0)


def test_what_was_there_stays_when_it_fails(tmp_path):
    place, x, y = tmp_path / "bad.npz", np.ones((3, 2)), np.array([0, 1, 1])
    save(place, x, y)
    before = place.read_bytes()
    for where, inputs, words in (
        (place, x * np.nan, "x has type float64 or NaN"),
        (tmp_path / "no" / "bad.npz", x, "cannot be written .* folder that exists"),
        ("/", x, "'/' is not a file name"),
        (tmp_path, x, "cannot be written"),
    ):
        with pytest.raises(Refusal, match=words):
            save(where, inputs, y)
    assert place.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["bad.npz"]


@pytest.mark.parametrize(
    ("x", "y", "p", "words"),
    [
        (np.ones((2, 2)), None, None, "y and p are both missing"),
        (
            np.ones((2, 2)),
            np.zeros(3),
            None,
            r"shape \(2, 2\), and the numbers of labels are \[3\]",
        ),
        (np.ones(2), np.zeros(2), None, "give x as"),
        (np.ones((2, 2)), None, np.ones((2, 2)), "row 0 adds up to 2"),
        (np.ones((2, 2)), None, np.array([[2.0, -1]] * 2), "negative"),
        (np.ones((2, 2)), None, np.ones(2), "two axes"),
        (
            np.ones((2, 2)),
            np.zeros(2),
            np.eye(2),
            "1 labels in y are not the most likely",
        ),
        (np.full((2, 2), np.inf), np.zeros(2), None, "x has type float64 or NaN"),
        (np.ones((2, 2)), np.array(["a", "b"]), None, "y has type <U1"),
    ],
)
def test_refusals_files(tmp_path, x, y, p, words):
    with pytest.raises(Refusal, match=words):
        save(tmp_path / "bad.npz", x, y, p)
    assert not [*tmp_path.iterdir()]
