"""Names of parameters → masks over the flat vector; methods never see names."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from troth.networks import flat
from troth.networks.layers import Normalize
from troth.networks.weights import matched
from troth.types import Refusal

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


class Masks:
    """Which numbers of the flat vector belong to which parts of a network.

    A mask is [d] of bool, on the device of the parameters. Names are those of the
    model itself: the normalisation of inputs that stands before it is not counted.
    What is frozen is not in the vector, and has no name here. A tensor that several
    layers share belongs to each of them.
    """

    def __init__(self, network: nn.Module) -> None:
        self._layout = flat.layout(network)
        self._device = next(network.parameters()).device
        start, model = _bare(network)
        every = {name: [name] for name in self._layout.names}
        for name, first in flat.ties(network).items():
            every.get(first, []).append(name)
        self._names = [[n.removeprefix(start) for n in own] for own in every.values()]
        held = {_layer(name) for name in self.names}
        self._layers = {n: m for n, m in model.named_modules() if n in held}

    @property
    def names(self) -> list[str]:
        """Of all tensors, the second names of those that are shared included."""
        return [name for own in self._names for name in own]

    @property
    def layers(self) -> list[str]:
        """Names of the layers that hold numbers, in the order of the model's modules.

        A layer is a module that has tensors of its own; "" is the model itself.
        """
        return list(self._layers)

    def matching(self, option: str, patterns: list[str]) -> Tensor:
        """All that the patterns choose, as `model.freeze` reads them.

        Args:
            option: what a refusal calls them.
            patterns: names of tensors, or of modules around them, such as "4",
                "4.weight", "features", "layer?.*.bn1"; no pattern chooses nothing.

        Raises:
            Refusal: a pattern that chooses nothing; lists the names.
        """
        return self._mask(matched(option, patterns, self.names))

    def last(self, option: str, number: int) -> Tensor:
        """The last so many layers: with 1, the head; with 0, nothing.

        Args:
            option: what a refusal calls the number.
            number: how many.

        Raises:
            Refusal: the model has fewer.
        """
        if not 0 <= number <= len(self.layers):
            raise Refusal(
                f"{option} = {number} must be at least 0 and at most "
                f"{len(self.layers)}, the layers of this model: {self._listed}"
            )
        return self._in(self.layers[len(self.layers) - number :])

    def norms(self) -> Tensor:
        """All of the normalisation layers, with their running statistics.

        Raises:
            Refusal: the model has none.
        """
        found = [n for n, m in self._layers.items() if isinstance(m, _NORMS)]
        if not found:
            raise Refusal(
                "this model has no normalisation layer that is trained; take one that "
                "has, such as resnet18, vgg13_bn or celeba_cnn, or personalizer "
                f"fedper with some of its layers: {self._listed}"
            )
        return self._in(found)

    def sizes(self) -> Tensor:
        """[d] of float32: how many numbers there are in the tensor of each."""
        return self._spread(self._layout.sizes).float()

    @property
    def _listed(self) -> str:
        return ", ".join(name or "the model itself" for name in self.layers)

    def _in(self, layers: list[str]) -> Tensor:
        return self._mask({name for name in self.names if _layer(name) in layers})

    def _mask(self, wanted: set[str]) -> Tensor:
        hits = [not wanted.isdisjoint(own) for own in self._names]
        return self._spread(hits)

    def _spread(self, values: Sequence[float]) -> Tensor:
        """A value a tensor → [d] one a number."""
        sizes = torch.tensor(self._layout.sizes, device=self._device)
        return torch.tensor(values, device=self._device).repeat_interleave(sizes)


def _bare(network: nn.Module) -> tuple[str, nn.Module]:
    """A model without the normalisation of its inputs, and its name in the network."""
    behind = isinstance(network, nn.Sequential) and len(network) == 2
    first = next(network.children(), None)
    if behind and isinstance(first, Normalize):
        return "1.", network.get_submodule("1")
    return "", network


def _layer(name: str) -> str:
    return name.rpartition(".")[0]
