import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data import leakage
from troth.types import Arrays, Refusal, Shards


def made(x, y=None, classes=2, labels=()):
    x = np.asarray(x)
    y = np.zeros(len(x), np.int64) if y is None else np.asarray(y)
    return Arrays(x, y, classes, labels=labels)


def shards(train, valid, test):
    """One list a client, of each part."""
    return Shards(*([np.array(r, np.int64) for r in p] for p in (train, valid, test)))


COPIES = np.array([[1.0], [2], [3], [1], [2], [4]], np.float32)


def test_leaks_by_hand():
    for y, parts, leaked, duplicates in (
        # rows 3 and 4 are copies of 0 and 1; row 4's twin is only validated on
        (None, ([[0], [2]], [[1], []], [[3, 4], [5]]), 0, 2),
        # copies within one side are none
        (None, ([[0, 3, 1, 4]], [[]], [[2, 5]]), 0, 0),
        # another label makes no copy
        ([0, 1, 0, 1, 1, 0], ([[0, 1]], [[]], [[3, 4]]), 0, 1),
        # the same row on both sides is leaked, and no copy of itself
        (None, ([[0, 2], [1, 5]], [[], []], [[1], [0]]), 2, 0),
        (None, ([[0, 2], [1, 3]], [[], []], [[5], [0]]), 1, 1),
    ):
        facts = leakage.examine(made(COPIES, y), shards(*parts), "record")
        assert facts == {"leaked": leaked, "duplicates": duplicates}
        facts = leakage.examine(made(COPIES, y), shards(*parts), "allow")
        assert facts == {"leaked": leaked}  # copies need not be looked for


def test_leaks_are_refused_where_asked(refuses):
    def examine(*parts):
        return leakage.examine(made(COPIES), shards(*parts), "refuse")

    assert refuses("leakage", examine, [[0, 1]], [[]], [[5, 4]]) == (
        "partition.leakage = 'refuse', and of 2 test examples, 0 are also trained "
        "on by another client and 1 have a copy that is trained on (the first is row "
        "4): remove the copies and give no example to two clients, or set "
        "partition.leakage = 'record'"
    )
    words = r"1 are also trained on .* \(the first is row 0"
    refuses(words, examine, [[0], [1]], [[], []], [[2], [0]])
    assert examine([[0, 3]], [[]], [[2, 5]])["duplicates"] == 0


SHAPES = st.tuples(st.integers(1, 7), st.integers(1, 3))


@given(
    st.sampled_from([np.uint8, np.float32, np.float64, np.int64, np.bool_]),
    SHAPES,
    st.integers(2, 60),
    st.booleans(),
    st.integers(0, 99),
)
def test_keys_are_equal_where_examples_are(dtype, shape, m, several, seed):
    """Against comparing the bytes, one by one; few values, so that copies abound."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, (m, *shape)).astype(dtype)
    x[random.integers(0, m, m)] = x[random.integers(0, m, m)]
    y = random.integers(0, 2, (m, 3) if several else m)
    key = leakage.keys(Arrays(x, y, 2))
    raw = [a.tobytes() + b.tobytes() for a, b in zip(x, y, strict=True)]
    same = np.array([[one == other for other in raw] for one in raw])
    assert np.array_equal(key[:, None] == key, same)


def test_keys_of_zeros_gaps_bits_and_layout():
    """−0 is 0; a missing value is like itself and like nothing else; one bit tells."""
    x = np.zeros((8 * 777 + 1, 777), np.uint8)
    bit = np.arange(8 * 777)
    x[1 + bit, bit // 8] = 1 << bit % 8
    assert len(np.unique(leakage.keys(made(x)))) == len(x)
    x = np.array([[0.0], [-0.0], [np.nan], [np.nan], [1]], np.float32)
    key = leakage.keys(made(x))
    assert key[0] == key[1] and key[2] == key[3] and len(set(key.tolist())) == 3
    y = np.array([0.0, -0.0], np.float64)
    key = leakage.keys(Arrays(np.zeros((2, 1)), y, 0))
    assert key[0] == key[1]
    x = np.random.default_rng(0).integers(0, 9, (50, 4, 6)).astype(np.float32)
    turned = np.ascontiguousarray(x.transpose(2, 1, 0)).transpose(2, 1, 0)
    assert np.array_equal(leakage.keys(made(turned)), leakage.keys(made(x)))


def test_refuses_a_class_seen_only_in_test():
    for y, classes, labels, words in (
        ([0, 0, 1, 0], 2, ("no", "yes"), r"class 'yes' \(1 example\); leave"),
        ([0, 0, 2, 1], 3, (), r"class 1 \(1 example\), 2 \(1 example\); leave"),
        ([[1, 0], [1, 0], [0, 1], [1, 1]], 2, (), r"class 1 \(2 examples\); leave"),
    ):
        arrays = made(np.zeros((4, 1)), y, classes, labels)
        with pytest.raises(Refusal, match=words):
            leakage.examine(arrays, shards([[0], [1]], [[], []], [[2], [3]]), "allow")


def test_a_class_may_be_validated_on_or_trained_on_alone(refuses):
    arrays = made(COPIES, [0, 1, 2, 0, 0, 0], 3)
    leakage.examine(arrays, shards([[0, 1]], [[2]], [[3]]), "allow")
    arrays = made(COPIES, [0, 1, 2, 0, 2, 0], 3)
    refuses("class 2", leakage.examine, arrays, shards([[0, 1]], [[2]], [[4]]), "allow")
    many = made(np.zeros((9, 1)), np.arange(9), 9)
    with pytest.raises(Refusal, match=r"4 \(1 example\) and 4 more; leave"):
        leakage.examine(many, shards([[0]], [[]], [range(1, 9)]), "allow")
    arrays = Arrays(COPIES, np.arange(6, dtype=np.float32), 0)
    facts = leakage.examine(arrays, shards([[0, 1]], [[]], [[3, 5]]), "record")
    assert facts == {"leaked": 0, "duplicates": 0}
