import pytest
import torch

from troth.networks import kernels


@pytest.fixture(scope="session")
def gpu():
    """Skip where kernels cannot run."""
    if not torch.cuda.is_available() or not kernels.ready(torch.zeros(1).cuda()):
        pytest.skip("needs a GPU with Triton")
