"""What the last layer of a network sees: there it is a linear classifier."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from troth.networks.last_layer import Layer, last
from troth.poison.indifference import Head
from troth.types import Refusal


def embeddings(
    net: nn.Module, x: Tensor, *, batch: int = 1024
) -> tuple[np.ndarray, Head]:
    """Inputs of the last linear layer, and that layer (Section 4.2, Appendix J).

    The layers before it stay as they are, so that the chain runs on embeddings as on
    images: `data_attack(head, …)` gives poisoned ones. Evaluated as in use (no dropout,
    running statistics); the network is left as it was.

    Args:
        net: ends in nn.Linear.
        x: [m, …] what the network takes.
        batch: examples through the network at once.

    Returns:
        [m, e] embeddings and (W, b), b = 0 where the layer has none; float64.

    Departs: an embedding is no image; who reports it needs an input that has it, as
    Appendix J says too.
    """
    if batch < 1 or not len(x):
        raise Refusal(
            f"there are {len(x)} examples and batch = {batch}; give at least 1 of each"
        )
    training = {module: module.training for module in net.modules()}
    net.eval()
    try:
        layer = _last(net, x[:1])
        seen = _inputs(net, layer.module, x, batch)
    finally:
        for module, was in training.items():
            module.training = was
    weight = layer.module.weight.detach().to("cpu", torch.float64).numpy()
    bias = layer.module.bias
    if bias is None:
        return seen, Head(weight, np.zeros(len(weight)))
    return seen, Head(weight, bias.detach().to("cpu", torch.float64).numpy())


def _last(net: nn.Module, x: Tensor) -> Layer:
    try:
        return last(net, x)
    except Refusal:
        raise Refusal(
            f"{type(net).__name__} does not end in a linear layer (torch.nn.Linear), "
            "and only such a layer can be poisoned by itself; put one at its end"
        ) from None


def _inputs(net: nn.Module, module: nn.Module, x: Tensor, batch: int) -> np.ndarray:
    seen: list[Tensor] = []
    hook = module.register_forward_pre_hook(
        lambda module, given: seen.append(given[0].detach().to("cpu", torch.float64))
    )
    try:
        with torch.no_grad():
            for part in torch.split(x, batch):
                net(part)
    finally:
        hook.remove()
    return torch.cat(seen).numpy()
