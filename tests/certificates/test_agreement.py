"""The same model certified by the adversarial-robustness-toolbox."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import troth

N, ALPHA, M = 1000, 0.01, 120


@pytest.fixture(scope="module")
def smoothing():
    name = "art.estimators.certification.randomized_smoothing"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, exc_type=ImportError)


@pytest.fixture(scope="module")
def problem():
    """Logistic regression on digits, trained with noise, and test pictures."""
    x, y = load_digits(return_X_y=True)
    pictures = torch.from_numpy(x / 16).float().reshape(-1, 1, 8, 8)
    labels = torch.from_numpy(y)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        noisy = pictures[:1200] + 0.25 * torch.randn(1200, 1, 8, 8)
        loss = nn.functional.cross_entropy(net(noisy), labels[:1200])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval(), pictures[1200 : 1200 + M], labels[1200 : 1200 + M]


@pytest.mark.slow("trains a model, and certifies it with another library")
@pytest.mark.parametrize("sigma", [0.1, 0.25, 0.5])
def test_certified_accuracies_agree(smoothing, problem, sigma):
    """Within three standard errors at every radius, as two independent draws are."""
    net, x, y = problem
    ours = troth.certify(net, x, sigma=sigma, n=N, n0=100, alpha=ALPHA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = smoothing.PyTorchRandomizedSmoothing(
            model=net,
            loss=nn.CrossEntropyLoss(),
            input_shape=(1, 8, 8),
            nb_classes=10,
            sample_size=100,
            scale=sigma,
            alpha=ALPHA,
            device_type="cpu",
        )
        np.random.seed(0)
        label, radius = theirs.certify(x.numpy(), n=N, batch_size=N)
    label, radius = np.asarray(label), np.asarray(radius, dtype=float)
    for at in np.linspace(0, 2 * sigma, 9):
        own = np.asarray(ours.accuracy(y.numpy(), [at])).item()
        other = float(((label == y.numpy()) & (radius >= at) & (label >= 0)).mean())
        p = (own + other) / 2
        assert abs(own - other) <= 3 * np.sqrt(2 * p * (1 - p) / M) + 1 / M
    both = (label >= 0) & (np.asarray(ours.label) == label)
    assert both.mean() > 0.7
    # the same counts but for chance: Φ(r/σ) is the lower bound of p_A
    apart = np.asarray(ours.radius)[both] - radius[both]
    assert abs(np.median(apart)) < 0.05 * sigma
