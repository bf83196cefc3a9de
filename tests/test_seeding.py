"""Statistical tests here run on fixed seeds: they pass or fail for good.

Where a chi-square is tested, correct numbers fail with probability 1e-6 a statistic
(over the choice of the seed, not over runs).
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from troth import seeding

F64 = torch.float64
ALPHA = 1e-6


def permuted(clients, size, positions):
    """[clients, positions] by a permutation of `size` each."""
    keys = seeding.keys(0, "permute", 0, torch.arange(clients)).numpy()
    return seeding.permute(keys[:, None], positions[None], np.array([[size]]))


def assert_uniform(counts):
    assert stats.chisquare(counts).pvalue > ALPHA, counts


def test_same_draw_alone_and_in_a_cohort():
    ids = torch.tensor([5, 0, 17, 2**40])
    together = seeding.keys(3, "batch", 7, ids)
    square = seeding.keys(3, "batch", 7, ids.reshape(2, 2))
    assert torch.equal(square, together.reshape(2, 2))
    folded = seeding.fold(together[:, None], torch.arange(4))
    for i, client in enumerate(ids):
        alone = seeding.keys(3, "batch", 7, client)
        assert torch.equal(alone, together[i])
        for draw in (seeding.bits, seeding.uniform, seeding.normal):
            assert torch.equal(draw(alone, 9), draw(together, 9)[i])
        assert torch.equal(seeding.fold(alone, torch.tensor(2)), folded[i, 2])


def test_a_longer_draw_begins_with_the_shorter():
    k = seeding.keys(0, "test", 0, torch.arange(3))
    for draw in (seeding.bits, seeding.uniform):
        assert torch.equal(draw(k, 50)[:, :7], draw(k, 7))
    more, less = (seeding.choose(0, "c", 0, 50, count) for count in (9, 4))
    assert (more[:4] == less).all()


def test_whatever_differs_in_the_key_gives_other_numbers():
    seeds, purposes, rounds = (0, 1, 10, 2**70), ("a", "b", "0/a"), (0, 1, 11)
    numbers = torch.stack(
        [
            seeding.bits(seeding.keys(*about, torch.arange(20)), 8)
            for about in itertools.product(seeds, purposes, rounds)
        ]
    ).flatten()
    assert len(numbers.unique()) == len(numbers)  # collides with probability 2e-12


def test_folded_keys_differ_from_each_other_and_from_the_key():
    k = seeding.keys(0, "test", 0, torch.arange(100))
    folded = seeding.fold(k[:, None], torch.arange(100))
    everything = torch.cat([k, folded.flatten()])
    assert len(everything.unique()) == len(everything)


def test_neighbouring_clients_and_counts_are_independent():
    """Every bit of the xor of neighbors is a fair coin (128 statistics)."""
    k = seeding.keys(0, "test", 0, torch.arange(20_001))
    b = seeding.bits(seeding.key(0, "test", 0, 0), 20_001)
    for stream in (k, b):
        changed = (stream[1:] ^ stream[:-1]).numpy().view(np.uint64)
        ones = [(changed >> np.uint64(i) & np.uint64(1)).sum() for i in range(64)]
        z = (np.array(ones, dtype=np.float64) - 10_000) / math.sqrt(5_000)
        assert np.abs(z).max() < stats.norm.isf(ALPHA / 2)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_uniform_is_uniform_and_never_0_or_1(dtype):
    u = seeding.uniform(seeding.keys(0, "u", 0, torch.arange(100)), 2_000, dtype)
    assert u.dtype == dtype and u.shape == (100, 2_000)
    assert u.min() > 0 and u.max() < 1
    assert stats.kstest(u.flatten().double().numpy(), "uniform").pvalue > ALPHA


@pytest.fixture
def ends(monkeypatch):
    """Draws of no bit set and of all bits set."""
    made = torch.tensor([0, -1])
    monkeypatch.setattr(seeding, "bits", lambda key, count: made)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_uniform_at_the_ends_of_the_bits(dtype, ends):
    u = seeding.uniform(ends, 2, dtype)
    assert 0 < u[0] < 1e-6 and 1 - 1e-6 < u[1] < 1
    assert torch.isfinite(seeding.normal(ends, 2, dtype)).all()


@pytest.mark.parametrize("law", ["normal", "normal64", "noise"])
def test_standard_normal(law):
    """|z| of each of four moments < 4.9, Kolmogorov-Smirnov, two tails: 7 · 1e-6."""
    k = seeding.keys(0, "n", 0, torch.arange(50))
    if law == "noise":
        found = seeding.noise(k, 20_001)
        for i in (0, 7):
            assert torch.equal(seeding.noise(k[i], 20_001), found[i])
    else:
        dtype = F64 if law == "normal64" else torch.float32
        found = seeding.normal(k, 4_001, dtype)
        assert found.dtype == dtype
    assert found.shape == (50, 20_001 if law == "noise" else 4_001)
    z = found.double().flatten().numpy()
    m, bound = len(z), stats.norm.isf(ALPHA / 2)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - mean) < bound * math.sqrt(variance / m)
    assert stats.kstest(z, "norm").pvalue > ALPHA
    for tail in (z > 3.5, z < -3.5):
        assert stats.binomtest(tail.sum(), m, stats.norm.sf(3.5)).pvalue > ALPHA


def test_noise_at_the_ends_of_the_bits(ends):
    z = seeding.noise(ends, 4)
    assert z.isfinite().all() and 6.7 < z.abs().max() < 6.8
    assert z[1] == z[3] == 0  # the smallest radius


def test_halves_are_uncorrelated():
    """Both numbers of a pair come from the same bits, or radius (5 sigma: 6e-7)."""
    one = seeding.key(0, "test", 0, 0)
    for z in (seeding.noise(one, 200_000).double(), seeding.normal(one, 100_000, F64)):
        half = len(z) // 2
        for a, b in ((z[:half], z[half:]), (z[:-1], z[1:])):
            assert abs(float((a * b).mean())) < 5 / math.sqrt(len(a))
            assert abs(float((a**2 * b**2).mean()) - 1) < 5 * math.sqrt(8 / len(a))


@pytest.mark.parametrize("limit", [2, 3, 10, 1000, 2**31 - 1])
def test_below_is_in_range_and_uniform(limit):
    random = seeding.bits(seeding.keys(0, "below", limit, torch.arange(40)), 1_000)
    drawn = seeding.below(random, torch.tensor(limit))
    assert int(drawn.min()) >= 0 and int(drawn.max()) < limit
    cells = min(limit, 50)
    assert_uniform(np.bincount((drawn * cells // limit).flatten(), minlength=cells))


def test_below_at_the_ends_of_the_bits():
    """Of no bits and all, of the largest number and the smallest; a limit each."""
    limits = torch.tensor([[1], [7], [2**31 - 1]])
    drawn = seeding.below(torch.tensor([0, -1, 2**63 - 1, -(2**63)]), limits)
    assert drawn[:, :2].tolist() == [[0, int(limit) - 1] for limit in limits]
    assert ((drawn >= 0) & (drawn < limits)).all()


def test_permute_is_a_permutation_of_every_size():
    for size in [*range(1, 201), 99_991]:
        out = permuted(4 if size < 201 else 1, size, np.arange(size))
        assert (np.sort(out, axis=1) == np.arange(size)).all(), size
    other = permuted(50, 100, np.arange(100))  # by every key another
    assert len(np.unique(other, axis=0)) == 50


@pytest.mark.parametrize("size", [10**6, 2**30 + 7, 2**31 - 1, 2**31])
def test_permute_of_large_sizes_asks_for_positions_only(size):
    ends = np.concatenate([np.arange(3_000), size - 1 - np.arange(3_000)])
    out = permuted(2, size, ends)
    assert out.dtype == np.int64 and out.min() >= 0 and out.max() < size
    assert all(len(np.unique(row)) == len(ends) for row in out)
    assert_uniform(np.bincount((out * 20 // size).flatten(), minlength=20))


def test_permute_takes_sizes_and_keys_of_each_client():
    keys = seeding.keys(0, "test", 0, torch.arange(4)).numpy()
    sizes, positions = np.array([1, 5, 12, 400]), np.arange(12)
    out = seeding.permute(keys, positions[:, None], sizes)  # [positions, clients]
    assert (out < sizes).all()
    for i in range(4):
        alone = seeding.permute(keys[i : i + 1], positions, sizes[i : i + 1])
        assert out[:, i].tolist() == alone.tolist()
    assert (out[5:10, 1] == out[:5, 1]).all()  # beyond the size: modulo


@pytest.mark.parametrize("size", [2, 3, 5, 7, 31])
def test_positions_and_pairs_are_uniform(size):
    """Every position, and every pair among the first three and the last."""
    out = permuted(30_000, size, np.arange(size))
    for position in range(size):
        assert_uniform(np.bincount(out[:, position], minlength=size))
    some = sorted({0, 1, 2, size - 1} & set(range(size)))
    for a, b in itertools.combinations(some, 2):
        cells = np.bincount(out[:, a] * size + out[:, b], minlength=size**2)
        assert_uniform(cells.reshape(size, size)[~np.eye(size, dtype=bool)])


def test_whole_permutations_are_uniform():
    for size in (3, 4, 5):
        out = permuted(30_000, size, np.arange(size))
        _, counts = np.unique(out, axis=0, return_counts=True)
        assert len(counts) == math.factorial(size)
        assert_uniform(counts)


def test_choose_is_distinct_and_keyed():
    for n, count in ((1, 1), (5, 2), (10, 10), (10**9, 20)):
        found = seeding.choose(0, "cohort", 3, n, count)
        assert len(set(found.tolist())) == count
        assert found.min() >= 0 and found.max() < n
    draws = [
        tuple(seeding.choose(seed, purpose, r, 1_000, 10))
        for seed, purpose, r in itertools.product((0, 1), "ab", range(3))
    ]
    assert len(set(draws)) == len(draws)
    assert len(seeding.choose(0, "cohort", 0, 10, 0)) == 0


def test_generators_are_keyed_and_start_anew():
    def draw(seed, purpose, count=0):
        return float(seeding.generator(seed, purpose, count).random())

    assert draw(0, "a") == draw(0, "a", 0)
    assert len({draw(0, "a"), draw(1, "a"), draw(0, "b"), draw(0, "a", 1)}) == 4


# Golden values: runs that are on disk depend on them; never change them.


def test_golden_bits():
    k = seeding.keys(0, "golden", 0, torch.tensor([0, 1, 1_000_000]))
    assert k.tolist() == [2494978833128807501, 783744076654551887, 8758910152086409773]
    other = seeding.keys(7, "golden", 3, torch.tensor(5))
    assert other.tolist() == 4444926977690151060
    assert seeding.fold(k[0], torch.tensor(4)).tolist() == 178414141724118938
    bits = [-3277116767108893769, -505784938190990937, -1386014246902402835]
    assert seeding.bits(k[0], 3).tolist() == bits


def test_splitmix64_as_published():
    """The first outputs of SplitMix64 seeded with 1234567 (Vigna's reference code)."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    found = seeding.bits(torch.tensor(1234567), 3).tolist()
    assert [value % 2**64 for value in found] == expected


def test_golden_numbers():
    k = seeding.keys(0, "golden", 0, torch.tensor(0))
    uniform = [0.8223471440805933, 0.9725813435601441, 0.9248640171206278]
    normal = [0.5570355190657152, -0.1157317645575707, -0.28442352900656814]
    assert seeding.uniform(k, 3, F64).tolist() == uniform
    assert seeding.uniform(k, 3).tolist() == pytest.approx(uniform, rel=0, abs=1e-6)
    assert seeding.normal(k, 3, F64).tolist() == pytest.approx(normal, rel=0, abs=1e-6)
    below = seeding.below(seeding.bits(k, 5), torch.tensor(100))
    assert below.tolist() == [82, 97, 92, 33, 19]
    numpy = seeding.generator(0, "golden").integers(1000, size=3)
    assert numpy.tolist() == [153, 529, 971]


def test_golden_permutations_and_choices():
    k = seeding.keys(0, "golden", 0, torch.tensor([0])).numpy()
    for size, expected in (
        (100_000, [80821, 55836, 94866, 59976, 12511]),
        (7, [4, 3, 6, 5, 0]),
        (40, [3, 34, 1, 33, 22]),
        (200, [59, 188, 119, 80, 156]),
    ):
        assert seeding.permute(k, np.arange(5), np.array([size])).tolist() == expected
    assert seeding.choose(0, "golden", 0, 10, 4).tolist() == [4, 3, 9, 6]
    found = seeding.choose(0, "golden", 0, 1_000, 5).tolist()
    assert found == [852, 773, 238, 740, 281]


def test_one_key_is_the_key_of_one():
    for client, round_ in itertools.product((0, 1, 77, 2**40), (0, 3, 10**9)):
        one = seeding.key(5, "test", round_, client)
        assert one.shape == () and one.dtype == torch.long
        assert one == seeding.keys(5, "test", round_, torch.tensor(client))


def test_torchs_generator_is_seeded_within_the_block_only():
    before = torch.random.get_rng_state()
    found = []
    for key in (seeding.key(0, "x", 1), seeding.key(0, "x", 1), None, None):
        with seeding.seeded(key):
            found.append(torch.rand(3))
    assert torch.equal(found[0], found[1]) and torch.equal(found[2], found[3])
    assert not torch.equal(found[0], found[2])
    assert torch.equal(torch.random.get_rng_state(), before)
