r"""VGG with 13 layers and batch normalization.

References: simonyan2015very, farhadkhani2022equivalence.
"""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn

from troth.networks.layers import positive
from troth.networks.models._images import he, images
from troth.types import Refusal


class VGG(nn.Module):
    """Convolutions, average over the remaining pixels, fully connected layers."""

    def __init__(
        self, stages: list[int], widths: list[int], outputs: int, dropout: float
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for inputs, channels in pairwise(stages):
            for before in (inputs, channels):
                conv = nn.Conv2d(before, channels, 3, padding=1)
                parts += [conv, nn.BatchNorm2d(channels), nn.ReLU()]
            parts.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*parts)
        parts = []
        for a, b in pairwise([stages[-1], *widths]):
            parts += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout)]
        last = nn.Linear([stages[-1], *widths][-1], outputs)
        self.classifier = nn.Sequential(*parts, last)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the outputs: [b, channels, h, w] → [b, outputs]."""
        return cast(Tensor, self.classifier(self.features(x).mean(dim=(-2, -1))))


def vgg13_bn(
    shape: tuple[int, ...],
    classes: int,
    *,
    width: int = 64,
    widths: list[int] = [4096, 4096],  # noqa: B006
    dropout: float = 0.5,
) -> nn.Module:
    """Build VGG13 with batch norm: ten convolutions, then fully connected layers.

    There are five stages of two 3×3 convolutions with 64, 128, 256, 512 and 512
    channels. Every convolution is followed by batch normalization and ReLU, and every
    stage ends with pooling that halves height and width. Then come dense layers with
    4096, 4096 and `classes` outputs, with dropout between them (Simonyan and Zisserman
    2015, Table 1, configuration B). The defaults are a network for CIFAR-10, of which
    Farhadkhani et al. 2022 (Figs. 17–19) use the 4096 inputs of the last layer as
    features. The default network has 28,334,410 parameters for 10 classes. Initial
    weights of convolutions are N(0, 2/fan_out), those of dense layers N(0, 0.01²), and
    biases are 0. The names of layers are those of torchvision (`features.0` …,
    `classifier.0` …),
       so published weights can be loaded.

    Args:
        shape: Shape of one example, [channels, height, width], with sides of at least
            32.
        classes: Number of classes; 0 means regression.
        width: Number of channels of the first stage; the paper has 64.
        widths: Widths of the hidden dense layers. [] means a single linear layer with
            8·width inputs; the network then has 9,416,010 parameters (10 classes).
        dropout: Probability that a hidden unit is dropped in training; 0 means no
            dropout.

    Returns:
        The network.

    Departs: the remaining pixels are averaged; the paper flattens a remaining image of
    7×7. The paper has no batch normalization, which was invented later.
    """
    images("vgg13_bn", shape, least=32)
    positive("model.width", width)
    positive("model.widths", widths)
    if not 0 <= dropout < 1:
        raise Refusal(f"model.dropout = {dropout} must be at least 0 and below 1")
    stages = [shape[0], *(width * factor for factor in (1, 2, 4, 8, 8))]
    network = VGG(stages, widths, max(classes, 1), dropout)
    he(network)
    for part in network.classifier:
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, 0, 0.01)
            nn.init.zeros_(part.bias)
    return network
