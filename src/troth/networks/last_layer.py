"""Estimate every client's optimal last linear layer, from that client's data alone.

The layers before it are those of the shared model for all clients, so that their last
layers can be compared.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor, nn

from troth.types import Data, Refusal

_EXAMPLES = 1024  # number of examples that are computed at once
_PAIRS = 200  # number of examples of a client for the estimate of its curvature


class Heads(NamedTuple):
    """Estimates of the optimal last layers of K clients, one row per client."""

    rows: np.ndarray  # [K, p] estimates, or gradients of the loss at the shared model
    noise: np.ndarray  # [K] trace of the covariance of each estimate's error
    client: np.ndarray  # [K] ids of the clients
    unit: float  # trace of the covariance of the true values over clients, per τ²
    sigma2: float  # noise variance σ² of the examples of benign clients


class Layer(NamedTuple):
    """The last linear layer of a network."""

    name: str
    module: nn.Linear
    alone: bool  # whether no other layer has parameters

    @property
    def width(self) -> int:
        """Number of inputs of one output, plus one if there is a bias."""
        return self.module.in_features + (self.module.bias is not None)


def last(net: nn.Module, x: Tensor) -> Layer:
    """Return the linear layer that computes the outputs; raise Refusal if none does."""
    seen: list[tuple[str, nn.Linear, Tensor]] = []
    hooks = [
        module.register_forward_hook(
            lambda module, given, out, name=name: seen.append((name, module, out))
        )
        for name, module in net.named_modules()
        if isinstance(module, nn.Linear)
    ]
    with torch.no_grad():
        outputs = net(x)
    for hook in hooks:
        hook.remove()
    if not seen or not torch.equal(seen[-1][2], outputs):
        raise Refusal(
            "the theory is about linear models, and this network does not end in a "
            "linear layer (torch.nn.Linear); choose lam by validation instead"
        )
    name, module, _ = seen[-1]
    every, own = (sum(p.numel() for p in m.parameters()) for m in (net, module))
    return Layer(name, module, every == own)


def _clients(
    net: nn.Module, layer: Layer, data: Data
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the inputs of the last layer, its outputs, and y, for each client.

    They are those of the client's training data. If the layer has a bias, a constant 1
    is appended to the inputs. Inputs and outputs are float64.
    """
    train, inputs = data.train, list[Tensor]()
    hook = layer.module.register_forward_pre_hook(lambda m, x: inputs.append(x[0]))
    try:
        for first, size in zip(train.start.tolist(), train.size.tolist(), strict=True):
            inputs.clear()
            own = slice(first, first + size)
            with torch.no_grad():
                parts = torch.split(data.x[train.row[own]], _EXAMPLES)
                outputs = torch.cat([net(x.cpu()) for x in parts])
            phi = torch.cat(inputs).double().numpy()
            if layer.module.bias is not None:
                phi = np.hstack([phi, np.ones((len(phi), 1))])
            yield phi, outputs.double().numpy(), train.y[own].cpu().numpy()
    finally:
        hook.remove()


def least_squares(
    net: nn.Module, layer: Layer, data: Data, hostile: np.ndarray
) -> Heads:
    """Return the least-squares fit ŵ_k of each client k (Ditto, Eq. 14), and σ².

    σ² is the variance of the residuals of benign clients. The error e_k of ŵ_k has tr
    Cov(e_k) = σ² tr(X_kᵀX_k)⁻¹, where X_k are the inputs of the layer (Eq. 13). A
    client is left out if it does not have more examples than the layer has parameters,
    or if its inputs do not determine the parameters. The layer must have one output.
    `hostile` is the mask [n] of malicious clients. Raise Refusal if fewer than two
    benign clients are left.
    """
    p, rows, loose, client = layer.width, [], [], []
    left, free = 0.0, 0
    for k, (x, _, y) in enumerate(_clients(net, layer, data)):
        if len(x) <= p or np.linalg.matrix_rank(x) < p:
            continue
        gram = x.T @ x
        w = np.linalg.solve(gram, x.T @ y)
        rows.append(w)
        loose.append(np.trace(np.linalg.inv(gram)))
        client.append(k)
        if not hostile[k]:
            left += float(((y - x @ w) ** 2).sum())
            free += len(x) - p
    _enough(np.array(client, int), hostile, p + 1)
    sigma2 = left / free
    noise = sigma2 * np.array(loose)
    return Heads(np.array(rows), noise, np.array(client), float(p), sigma2)


def slopes(net: nn.Module, layer: Layer, data: Data, hostile: np.ndarray) -> Heads:
    """Return the gradient g_k of each client's cross-entropy at the shared model w.

    To first order, g_k = H_k(w − w_k) + noise, where H_k is the Hessian of client k,
    and w_k its optimal last layer. If the w_k vary between clients with variance τ² per
    parameter, then tr Cov(g) = τ² E tr H_k². The noise is estimated from the variance
    of gradients over the client's examples. σ² = 1, because cross-entropy is a negative
    log-likelihood; for the mean over L labels, σ² = 1/L. E tr H_k² is estimated from
    benign clients alone. `hostile` is the mask [n] of malicious clients. Raise Refusal
    if fewer than two benign clients have two examples.
    """
    rows, noise, client, curved = [], [], [], []
    labels = 1
    for k, (x, outputs, y) in enumerate(_clients(net, layer, data)):
        m = len(x)
        if m < 2:
            continue
        labels = outputs.shape[1] if _several(y) else 1
        share, residual = _residual(outputs, y)
        slope = residual.T @ x / m
        each = float(((residual**2).sum(1) * (x**2).sum(1)).mean())
        rows.append(slope.ravel())
        noise.append((each - float((slope**2).sum())) / (m - 1))
        client.append(k)
        if not hostile[k]:
            softmax = not _several(y) and outputs.shape[1] > 1
            curved.append(_curvature(x[:_PAIRS], share[:_PAIRS], softmax) / labels**2)
    _enough(np.array(client, int), hostile, 2)
    slope_rows = np.array(rows) / labels
    unit = float(np.mean(curved))
    loose = np.array(noise) / labels**2
    return Heads(slope_rows, loose, np.array(client), unit, 1 / labels)


def _several(y: np.ndarray) -> bool:
    """Return whether y has several labels per example, and not soft labels (floats)."""
    return y.ndim == 2 and y.dtype.kind != "f"


def _residual(outputs: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted probabilities and their difference from y, each [m, outputs]."""
    k = outputs.shape[1]
    if not _several(y) and k > 1:
        share = softmax(outputs, axis=1)
        return share, share - (np.eye(k)[y] if y.ndim == 1 else y)
    share = expit(outputs)
    if not _several(y) and y.ndim == 2:
        y = y[:, 1]  # probability of class 1, whose logit is the single output
    return share, share - y.reshape(share.shape)


def _curvature(x: np.ndarray, share: np.ndarray, softmax: bool) -> float:
    """Return an estimate of tr H² of a client, from pairs of different examples.

    The Hessian is H = E[Λ ⊗ xxᵀ] over inputs x. With probabilities p (`share`), Λ is
    diag(p) − ppᵀ for a softmax, and diag(p(1 − p)) for separate labels.
    """
    if softmax:
        alike, cross = share @ share.T, share @ (share**2).T
        both = alike - cross - cross.T + alike**2
    else:
        both = (share * (1 - share)) @ (share * (1 - share)).T
    every = both * (x @ x.T) ** 2
    m = len(x)
    return float((every.sum() - np.trace(every)) / (m * (m - 1)))


def _enough(client: np.ndarray, hostile: np.ndarray, examples: int) -> None:
    count = int((~hostile[client]).sum())
    if count < 2:
        raise Refusal(
            f"{count} of the benign clients have the {examples} training examples that "
            "an estimate of this model needs, with inputs that differ, and at least "
            "two such clients are needed; choose lam by validation instead"
        )
