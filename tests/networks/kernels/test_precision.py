import subprocess
import sys
import threading

import pytest
import torch

from troth.networks.kernels import precision as digits

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def said():
    matmul = torch.get_float32_matmul_precision()
    return matmul, torch.backends.cuda.matmul.allow_tf32, digits.few()


@pytest.mark.parametrize(
    ("precision", "allowed"),
    [("float32", False), ("tf32", True), ("bfloat16", False), ("float64", False)],
)
def test_products_are_allowed_what_the_precision_says(precision, allowed):
    before = said()
    with digits.products(precision, CPU):  # where nothing is touched
        assert said() == before
    with (
        pytest.raises(ValueError, match="afterwards"),
        digits.products(precision, CUDA),
    ):
        assert said()[1:] == (allowed, allowed)
        raise ValueError("as they were afterwards")
    assert said() == before


def test_of_several_threads_the_last_puts_back_what_was_there():
    before = said()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with digits.products("float32", CUDA):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with digits.products("float32", CUDA):
        thread.start()
        assert inside.wait(10)
    assert not digits.few()  # the other is still inside
    leave.set()
    thread.join()
    assert said() == before


NEWER = """
import torch
from troth.networks.kernels import precision as digits

torch.{name} = "{value}"
parts = torch.backends.cuda.matmul, torch.backends.cudnn.conv
before = [part.fp32_precision for part in parts]
for precision, wanted in (("float32", "ieee"), ("tf32", "tf32")):
    with digits.products(precision, torch.device("cuda")):
        assert [part.fp32_precision for part in parts] == [wanted, wanted]
        assert digits.few() == (precision == "tf32")
    assert [part.fp32_precision for part in parts] == before
"""


NAMED = [("backends.cuda.matmul.fp32_precision", "tf32")]
NAMED += [("backends.fp32_precision", "ieee")]


@pytest.mark.slow("starts real processes")
@pytest.mark.parametrize(("name", "value"), NAMED)
def test_where_someone_speaks_to_torch_in_the_newer_way(name, value):
    """Which the older cannot be mixed with: in a process of its own."""
    words = [sys.executable, "-W", "ignore", "-c", NEWER.format(name=name, value=value)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
