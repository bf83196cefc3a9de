import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth import seeding
from troth.config.schema import PartitionPart
from troth.data import split as splitting
from troth.data.split import deal, pairs, sizes_of
from troth.types import TEST, TRAIN, VALID, Arrays


def made(labels, count=10, marks=None):
    y = np.asarray(labels)
    given = None if marks is None else np.asarray(marks, np.int8)
    return Arrays(np.zeros((len(y), 1), np.float32), y, count, split=given)


def split(arrays, lists, seed, missing=False, **options):
    if not isinstance(options.setdefault("split", (0.72, 0.08, 0.2)), str):
        options["split"] = list(options["split"])
    part = PartitionPart("iid", **options)
    return splitting.split(arrays, lists, seed, part, missing)


def cut(m, *sizes):
    """Lists of these sizes over 0 … m−1."""
    return np.split(np.arange(m), np.cumsum(sizes))[: len(sizes)]


def sizes(shards):
    return [[len(x) for x in part] for part in shards[:3]]


def same(a, b):
    return all(all(map(np.array_equal, *x)) for x in zip(a[:3], b[:3], strict=True))


def test_worked_example():
    """50 examples, 5 of each label: 36 + 4 + 10, and one of each label is tested."""
    arrays = made(np.arange(100) % 10)
    shards, facts = split(arrays, cut(100, 50, 50), 0)
    assert sizes(shards) == [[36, 36], [4, 4], [10, 10]]
    assert all(np.bincount(arrays.y[test]).tolist() == [1] * 10 for test in shards.test)
    assert facts == {"clients": 2, "dropped": [], "repeated": 0, "unused": 0}
    expected = {2: (1, 0, 1), 3: (2, 0, 1), 5: (4, 0, 1), 10: (7, 1, 2), 25: (18, 2, 5)}
    for m, parts in expected.items():
        shards, _ = split(made(np.zeros(m, int)), cut(m, m), 0)
        assert sizes(shards) == [[part] for part in parts]
    shards, _ = split(made(np.arange(10)), cut(10, 5, 5), 0)
    assert sizes(shards) == [[4, 4], [0, 0], [1, 1]]


fractions = st.tuples(
    st.floats(0.01, 1), st.one_of(st.just(0.0), st.floats(0, 1)), st.floats(0.01, 1)
).map(lambda p: tuple(v / sum(p) for v in p))


@given(
    st.lists(st.integers(2, 20), min_size=1, max_size=6),
    fractions,
    st.booleans(),
    st.integers(0, 9),
)
def test_every_example_is_in_one_part_of_one_client(counts, parts, regression, seed):
    m = sum(counts)
    y = np.arange(m) % 7 if not regression else np.arange(m, dtype=np.float32)
    lists = cut(m, *counts)
    shards, facts = split(made(y, 0 if regression else 7), lists, seed, split=parts)
    for k, mine in enumerate(lists):
        back = np.concatenate([part[k] for part in shards[:3]])
        assert np.array_equal(np.sort(back), mine)
        assert len(shards.train[k]) and len(shards.test[k])
    assert facts["repeated"] == 0 == facts["unused"]


def test_every_example_may_be_tested():
    """Over 400 seeds each of 10 examples is tested about 80 times: 5 sd, p < 1e-5."""
    arrays = made(np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2]))
    tested = np.zeros(10)
    for seed in range(400):
        tested[split(arrays, cut(10, 10), seed)[0].test[0]] += 1
    assert np.abs(tested - 80).max() < 5 * math.sqrt(400 * 0.2 * 0.8)


def test_the_seed_and_the_client_decide():
    arrays, lists = made(np.arange(100) % 10), cut(100, 50, 50)
    one = split(arrays, lists, 0)[0]
    assert same(one, split(arrays, lists, 0)[0])
    assert not same(one, split(arrays, lists, 1)[0])
    assert same(one, split(arrays, [x[::-1] for x in lists], 0)[0])
    arrays = made(np.arange(100) % 10)
    one, _ = split(arrays, cut(100, 3, 50, 47), 0)
    other, _ = split(arrays, [np.arange(90, 97), *cut(100, 3, 50)[1:]], 0)
    assert np.array_equal(one.test[1], other.test[1])
    fewer, facts = split(arrays, cut(100, 3, 50, 47), 0, min_examples=4)
    assert facts["clients"] == 2 and facts["dropped"] == [0]
    assert np.array_equal(one.test[1], fewer.test[0])
    assert np.array_equal(one.train[2], fewer.train[1])


MARKS = [TRAIN] * 10 + [TEST] * 5 + [TRAIN] * 4 + [VALID] * 2 + [TEST] * 4


def test_given_is_as_the_data_say():
    arrays = made(np.arange(25) % 3, 3, MARKS)
    shards, _ = split(arrays, cut(25, 15, 10), 0, split="given")
    assert [x.tolist() for x in shards.train] == [[*range(10)], [15, 16, 17, 18]]
    assert [x.tolist() for x in shards.valid] == [[], [19, 20]]
    assert [x.tolist() for x in shards.test] == [[*range(10, 15)], [21, 22, 23, 24]]
    arrays = made([0, 1, 0, 1], 2, [TRAIN, TEST, TRAIN, TEST])
    shards, _ = split(arrays, cut(4, 2, 2), 0, split="given", valid=0.9)
    assert sizes(shards) == [[1, 1], [0, 0], [1, 1]]
    arrays = made(np.arange(60) % 5, 5, [TRAIN] * 50 + [TEST] * 10)
    lists = [np.r_[0:20, 50:55], np.r_[20:50, 55:60]]
    shards, _ = split(arrays, lists, 0, split="given", valid=0.25)
    assert sizes(shards) == [[15, 23], [5, 7], [5, 5]]
    assert np.bincount(arrays.y[shards.valid[0]]).tolist() == [1] * 5
    for k, mine in enumerate(lists):
        back = np.concatenate([part[k] for part in shards[:3]])
        assert np.array_equal(np.sort(back), mine)


PLAIN = made(np.arange(20) % 4, 4)
GIVEN = made(np.arange(20) % 4, 4, [TRAIN] * 15 + [VALID] + [TEST] * 4)
X, Y, NAN, INF = np.zeros((6, 1)), np.zeros(6), math.nan, math.inf
ONES = np.ones((6, 2), np.int64)


def listed(*lists):
    return [np.array(mine, np.int64) for mine in lists]


def test_refusals(refuses):
    """Lists of rows, or how many of the first rows each client holds."""
    for arrays, lists, options, words in (
        (PLAIN, (12, 8), {"split": "given"}, "split = 'given' needs data mark.* frac"),
        (PLAIN, (12, 8), {"min_examples": 13}, "= 13 leaves no c.* of 2 holds 12.*12$"),
        (GIVEN, (12, 8), {"split": "given", "valid": 0.1}, "mark 1 examples as valid"),
        (GIVEN, (15, 5), {"split": "given"}, "because no client holds more: give par"),
        (PLAIN, (1, 1), {}, "cannot help: use fewer clients"),
        (PLAIN, listed([0, 1, 20]), {}, "row 20 to client 0, .*one: rows are 0 to 19"),
        (PLAIN, listed([0, 1], [3, 4, 3]), {}, "gives row 3 to client 1, twice"),
        (PLAIN, [], {}, "gives no client any example"),
        (Arrays(X[:3], Y[:2], 0), (2,), {}, "have 3 inputs x and 2 targets y"),
        (
            *(Arrays(np.array([[0, 1], [NAN, 1], [INF, NAN]]), Y[:3], 0), (3,)),
            *({"missing": True}, r"x is .* in 1 of 3 .*row 2\)"),
        ),
        *(
            (Arrays(X[: len(y)], y, classes), (len(y),), {}, words)
            for y, classes, words in (
                (
                    np.array([0, 1, 3]),
                    3,
                    "labels are .* whole numbers 0 to 2, because the",
                ),
                (np.arange(3.0), 3, "the labels are float64 .* whole numbers 0 to 2"),
                (ONES, 3, r"y has shape \(6, 2\): it must be \(6,\), or"),
                (ONES[:, :0], 0, r"y has shape \(6, 0\): it must be \(6,\), or"),
            )
        ),
    ):
        lists = cut(sum(lists), *lists) if isinstance(lists, tuple) else lists
        refuses(words, split, arrays, lists, 0, **options)


def test_refuses_clients_that_cannot_be_tested_and_the_remedy_works(refuses):
    lists = cut(20, 1, 6, 1, 0, 5, 1, 1, 5)
    assert refuses("lack", split, PLAIN, lists, 0) == (
        "5 of 8 clients lack training or test data: 0 (1 example, none to test on), "
        "2 (1 example, none to test on), 3 (0 examples, none to train on), 5 (1 "
        "example, none to test on) and 1 more; set partition.min_examples = 2, which "
        "keeps 3 clients"
    )
    shards, facts = split(PLAIN, lists, 0, min_examples=2)
    assert facts["clients"] == 3 and facts["dropped"] == [0, 2, 3, 5, 6]
    assert [len(x) for x in shards.train] == [4, 4, 4]


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_refuses_what_is_not_finite(value, dtype, refuses):
    x, y, lists = np.zeros((6, 2, 2), dtype), np.zeros(6, dtype), cut(6, 6)
    x[[3, 3, 5], 0, [0, 1, 1]] = value
    words = r"x is NaN or infinite in 2 of 6 .*row 3\)"
    refuses(words, split, Arrays(x, y, 0), lists, 0)
    if math.isnan(value):  # may be filled in later
        assert sizes(split(Arrays(x, y, 0), lists, 0, missing=True)[0])
    y[4] = value
    words = r"y is NaN or infinite in 1 of 6 .*row 4\)"
    refuses(words, split, Arrays(np.zeros_like(x), y, 0), lists, 0, missing=True)


def test_several_labels_and_shared_examples():
    y = np.stack([np.arange(20) % 2, np.arange(20) % 3 == 0], axis=1).astype(np.int64)
    shards, _ = split(Arrays(np.zeros((20, 1)), y, 2), cut(20, 10, 10), 0)
    assert sizes(shards) == [[7, 7], [1, 1], [2, 2]]
    arrays = made(np.arange(30) % 3, 3, [TRAIN] * 20 + [TEST] * 10)
    lists = [np.r_[0:15, 20:28], np.r_[10:20, 26:30]]
    _, facts = split(arrays, lists, 0, split="given")
    assert facts["repeated"] == 5 + 2 and facts["unused"] == 0
    _, facts = split(arrays, [np.arange(28)] * 3, 0)
    assert facts["repeated"] == 56 and facts["unused"] == 2


def owned(owner, marks=None):
    arrays = made(np.zeros(len(owner), int), marks=marks)
    return arrays._replace(owner=np.asarray(owner))


@given(
    st.lists(
        st.lists(st.integers(1, 6), min_size=2, max_size=9), min_size=1, max_size=4
    ),
    fractions,
    st.integers(0, 9),
)
def test_owners_are_never_on_two_sides(counts, parts, seed):
    """Clients with owners of these many examples, in whatever order."""
    flat = [count for mine in counts for count in mine]
    order = np.random.default_rng(seed).permutation(sum(flat))
    owner = np.repeat(np.arange(len(flat)) * 3 - 7, flat)[np.argsort(order)]
    lists = np.split(order, np.cumsum([sum(mine) for mine in counts])[:-1])
    shards, _ = split(owned(owner), lists, seed, split=parts, split_by="owner")
    units = made(np.zeros(len(flat), int)), cut(len(flat), *map(len, counts))
    alike, _ = split(*units, seed, split=parts)
    for k in range(len(counts)):
        back = np.concatenate([part[k] for part in shards[:3]])
        assert np.array_equal(np.sort(back), np.sort(lists[k]))
        names = [set(owner[part[k]].tolist()) for part in shards[:3]]
        assert sum(map(len, names)) == len(set.union(*names)) == len(counts[k])
        assert [len(n) for n in names] == [len(part[k]) for part in alike[:3]]


def test_given_parts_may_keep_owners_apart():
    owner, given = [0, 0, 1, 1, 2, 2, 3, 3], {"split": "given", "split_by": "owner"}
    marks = [TRAIN, TRAIN, TRAIN, TRAIN, VALID, VALID, TEST, TEST]
    shards, _ = split(owned(owner, marks), cut(8, 8), 0, **given)
    assert sizes(shards) == [[4], [2], [2]]
    marks = [TRAIN] * 6 + [TEST] * 2
    arrays = owned(owner, marks)
    for seed in range(9):
        shards, _ = split(arrays, cut(8, 8), seed, valid=0.4, **given)
        assert sizes(shards) == [[4], [2], [2]]
        assert len(set(arrays.owner[shards.valid[0]])) == 1


def test_refuses_owners(refuses):
    for arrays, options, words in (
        (PLAIN, {}, "split_by = 'owner' needs data with an owner for each example"),
        (owned(np.arange(20) % 4), {}, "needs each owner on one client, and owner 0 "),
        (owned(np.arange(20) // 10 * 2), {}, "owner 2 is on clients 0 and 1: use "),
        (owned(np.arange(20) // 12), {}, "2 of 2 clients have fewer, the first client"),
        (owned(np.maximum(np.arange(20), 11)), {}, "1 of 2 clients have .* client 0:"),
        (
            *(owned(np.arange(20) // 2, [TRAIN] * 9 + [TEST] * 11), {"split": "given"}),
            "the data mark examples of owner 4 both for training and for test: give",
        ),
    ):
        refuses(words, split, arrays, cut(20, 12, 8), 0, split_by="owner", **options)


def alone(labels, parts, random):
    """The same as `deal`, written for one client."""
    _, code = np.unique(labels, return_inverse=True)
    row = random.permutation(len(labels))
    row = row[np.argsort(random.permutation(len(labels))[code[row]], kind="stable")]
    part, sizes = np.full(len(labels), TRAIN), sizes_of(len(labels), parts)
    for mark in (TEST, VALID):
        count, start = sizes[mark], random.integers(max(len(row), 1))
        taken = (np.arange(count) * len(row) + start) // max(count, 1)
        part[row[taken]] = mark
        row = np.delete(row, taken)
    return part


@given(
    st.lists(st.lists(st.integers(-3, 4), max_size=30), min_size=1, max_size=6),
    fractions,
    st.integers(0, 9),
)
def test_all_at_once_is_one_by_one(labels, parts, seed):
    number = np.arange(len(labels)) * 5 + 2
    client = np.repeat(np.arange(len(labels)), [len(mine) for mine in labels])
    flat = np.array([label for mine in labels for label in mine], np.int64)
    part = deal(flat, client, number, parts, seed)
    for k, mine in enumerate(labels):
        random = seeding.generator(seed, "split", int(number[k]))
        expected = alone(np.array(mine, np.int64), parts, random)
        assert part[client == k].tolist() == expected.tolist()


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=60), fractions, st.integers(0, 9)
)
def test_laws_of_dealing(labels, parts, seed):
    labels = np.array(labels)
    part = deal(labels, np.zeros(len(labels), np.int64), np.array([seed]), parts, seed)
    m, count = len(labels), np.bincount(part, minlength=3)
    assert count.sum() == m and count[TRAIN] >= 1 and count[TEST] >= 1
    off = 1 if min(parts[TRAIN], parts[TEST]) * m >= 1 else 2  # none may be empty
    assert all(abs(count[i] - parts[i] * m) <= off + 1e-6 for i in range(3))
    for label in np.unique(labels):
        mine = part[labels == label]
        share, tested = len(mine) * count / m, (mine == TEST).sum()
        assert math.floor(share[TEST]) <= tested <= math.ceil(share[TEST])
        assert all(abs((mine == i).sum() - share[i]) < 2 for i in (TRAIN, VALID))


def test_results_stay_what_they_were():
    """As the first release dealt, so that runs can be repeated."""
    labels = np.arange(20) * 7 % 5
    part = deal(labels, np.arange(20) // 10, np.arange(2), (0.6, 0.2, 0.2), 0)
    assert part.tolist() == [0, 1, 0, 2, 0, 2, 0, 1, 0, 0, 1, 0, 2, 0, 0, 0, 2, 1, 0, 0]
    client, value = np.array([0, 0, 0, 1, 1]), np.array([9, 4, 9, 9, -2])
    first, code = pairs(client, value)
    assert first.tolist() == [1, 0, 4, 3] and code.tolist() == [1, 0, 1, 3, 2]
