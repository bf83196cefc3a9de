"""The kernel beside the plain code, on a GPU; without one there is nothing to run."""

import pytest
import torch

from troth.networks.kernels import precision as digits

products = pytest.importorskip("troth.networks.kernels.products")
pytestmark = pytest.mark.usefixtures("gpu")

CUDA = torch.device("cuda")
SHAPES = [
    (3, 16, 100, 70),  # n, i, k, j
    (2, 130, 25, 32),
    (4, 32, 5000, 25),  # a long sum of few numbers: in parts
    (1, 1, 3000, 33),
    (3, 10, 16, 130),
    (5, 16, 3136, 1024),
]


def drawn(*shape, turned, dtype=torch.float32):
    n, i, k = shape
    wanted = (n, k, i) if turned else shape
    found = torch.randn(*wanted, device="cuda", dtype=dtype)
    return found.mT if turned else found


def far(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "precision", "most", "turned"),
    [
        (torch.float32, "float32", 2e-6, (False, False)),
        (torch.float32, "float32", 2e-6, (True, False)),
        (torch.float32, "float32", 2e-6, (False, True)),
        (torch.float32, "tf32", 1e-3, (False, False)),
        (torch.bfloat16, "bfloat16", 1e-2, (False, False)),
    ],
)
def test_products_are_those_of_torch(shape, dtype, precision, most, turned):
    n, i, k, j = shape
    a = drawn(n, i, k, turned=turned[0], dtype=dtype)
    b = drawn(n, k, j, turned=turned[1], dtype=dtype)
    assert products.fits(a, b)
    with digits.products(precision, CUDA):
        ours = products.multiply(a, b)
    assert ours.dtype == dtype
    assert far(ours, torch.bmm(a.double(), b.double())) < most


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("each", [False, True])
def test_what_is_added_is_rate_times_the_product(shape, each):
    n, i, k, j = shape
    a, b = drawn(n, i, k, turned=True), drawn(n, k, j, turned=False)
    rows = torch.randn(n, i * j + 7, device="cuda")  # what lies around it stays
    rate = torch.randn(n, 1, device="cuda") if each else torch.tensor(-0.1).cuda()
    wanted = rows.double()
    inside = wanted[:, 3 : 3 + i * j].view(n, i, j)
    inside += rate.double().reshape(-1, 1, 1) * torch.bmm(a.double(), b.double())
    with digits.products("float32", CUDA):
        products.add_product(rows[:, 3 : 3 + i * j].view(n, i, j), a, b, rate)
    assert torch.equal(rows[:, :3], wanted[:, :3].float())
    assert torch.equal(rows[:, 3 + i * j :], wanted[:, 3 + i * j :].float())
    assert far(rows, wanted) < 2e-6


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_client_alone_gets_the_same_bits(shape, precision):
    _, i, k, j = shape
    a, b = drawn(9, i, k, turned=False), drawn(9, k, j, turned=True)
    rate = torch.tensor(0.1, device="cuda")
    with digits.products(precision, CUDA):
        whole = products.multiply(a, b)
        added = whole.clone()
        products.add_product(added, a, b, rate)
        for own in (slice(4, 5), slice(2, 9)):
            alone = products.multiply(a[own], b[own])
            assert torch.equal(alone, whole[own])
            products.add_product(alone, a[own], b[own], rate)
            assert torch.equal(alone, added[own])


def test_sums_keep_their_digits():
    rows, ones = drawn(3, 5000, 20, turned=False), torch.ones(1, 1, 1).cuda()
    with digits.products("tf32", CUDA):
        found = products.multiply(ones.expand(3, 1, 5000), rows, exact=True)
    assert far(found[:, 0], rows.double().sum(dim=1)) < 2e-6


def test_which_products_the_kernel_takes():
    a, b = drawn(2, 3, 4, turned=False), drawn(2, 4, 5, turned=False)
    assert products.fits(a, b) and not products.fits(a, b.double())
    assert not products.fits(a.double(), b.double())
    assert not products.fits(a[:0], b[:0]) and not products.fits(a[:, :, :0], b[:, :0])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_is_added_to_what_all_share(shape, dtype):
    n, i, k, j = shape
    a = drawn(n, i, k, turned=True, dtype=dtype)
    b = drawn(n, k, j, turned=False, dtype=dtype)
    w, rate = torch.randn(i * j, device="cuda"), torch.tensor(-0.1).cuda()
    base, out = w.expand(n, -1).view(n, i, j), torch.full((n, i, j), torch.nan).cuda()
    plain = base.clone()
    with digits.products("float32", CUDA):
        products.add_product(out, a, b, rate, base)
        products.add_product(plain, a, b, rate)
        stored = torch.addcmul(base, products.multiply(a, b).float(), rate)
    assert torch.equal(out, plain)
    few, most = (2e-6, 2e-6) if dtype == torch.float32 else (4e-4, 4e-3)
    assert far(out, stored) < few  # a product in bfloat16 is rounded, in both
    assert far(out, base - 0.1 * torch.bmm(a.double(), b.double())) < most


@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_are_rounded_in_the_product(shape):
    n, i, k, j = shape
    a = drawn(n, i, k, turned=False, dtype=torch.bfloat16)
    b = drawn(n, k, j, turned=True)
    assert products.fits(a, b)
    rounded = products.multiply(a, b.to(torch.bfloat16))
    assert torch.equal(products.multiply(a, b), rounded)
