r"""The residual network with 18 layers, changed for small images.

References: he2016deep, alfarra2022certified.
"""

import math
from typing import Literal, cast

from torch import Tensor, nn

from troth.networks.layers import positive
from troth.networks.models._images import he, images

_GROUPS = 32


class Block(nn.Module):
    """relu(F(x) + s(x)) with two 3×3 convolutions F (He et al. 2016, Fig. 5 left).

    s is the identity, or a 1×1 convolution if the size changes (option B of the paper).
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, outputs, 3, stride)
        self.bn1 = _norm(norm, outputs)
        self.relu = nn.ReLU()
        self.conv2 = _conv(outputs, outputs, 3, 1)
        self.bn2 = _norm(norm, outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            change = _conv(inputs, outputs, 1, stride)
            self.downsample = nn.Sequential(change, _norm(norm, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block: [b, inputs, h, w] → [b, outputs, h/stride, w/stride]."""
        short = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return cast(Tensor, self.relu(self.bn2(self.conv2(out)) + short))


class ResNet(nn.Module):
    """First convolution, four stages of two blocks, global average, linear layer."""

    def __init__(self, channels: int, outputs: int, width: int, norm: str) -> None:
        super().__init__()
        self.conv1 = _conv(channels, width, 3, 1)
        self.bn1 = _norm(norm, width)
        self.relu = nn.ReLU()
        self.layer1 = _stage(width, width, 1, norm)
        self.layer2 = _stage(width, 2 * width, 2, norm)
        self.layer3 = _stage(2 * width, 4 * width, 2, norm)
        self.layer4 = _stage(4 * width, 8 * width, 2, norm)
        self.fc = nn.Linear(8 * width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the outputs: [b, channels, h, w] → [b, outputs]."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return cast(Tensor, self.fc(x.mean(dim=(-2, -1))))


def _conv(inputs: int, outputs: int, side: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)


def _norm(kind: str, channels: int) -> nn.Module:
    if kind == "group":
        return nn.GroupNorm(math.gcd(_GROUPS, channels), channels)
    return nn.BatchNorm2d(channels)


def _stage(inputs: int, outputs: int, stride: int, norm: str) -> nn.Sequential:
    first = Block(inputs, outputs, stride, norm)
    return nn.Sequential(first, Block(outputs, outputs, 1, norm))


def resnet18(
    shape: tuple[int, ...],
    classes: int,
    *,
    width: int = 64,
    norm: Literal["batch", "group"] = "batch",
) -> nn.Module:
    """Build ResNet18 for small images: one 3×3 convolution, then eight residual blocks.

    The network is a 3×3 convolution with 64 channels without pooling, four stages of
    two blocks with 64, 128, 256 and 512 channels, the global average, and a linear
    layer (He et al. 2016, Table 1). Each of the last three stages halves height and
    width. Alfarra et al. 2022 and others use the same first layer for CIFAR-10. The
    network has 11,173,962 parameters for 10 classes. Initial weights are N(0,
    2/fan_out). The names of layers are those of torchvision (`conv1`, `bn1`,
    `layer1.0.conv1` … `fc`), so published weights can be loaded.

    Args:
        shape: Shape of one example, [channels, height, width], with sides of at least
            8.
        classes: Number of classes; 0 means regression.
        width: Number of channels of the first stage; the paper has 64.
        norm: Type of normalization layers: "batch" or "group". Group normalization has
            gcd(32, channels) groups. Its result for an example does not depend on the
            other examples of the batch, and it has no running statistics.

    Returns:
        The network.

    Departs: the first layers of the paper (7×7 convolution of stride 2, then pooling)
    are for images of 224×224. Alfarra et al. add 0.01·N(0, 1) to every normalized
    input; this is left out.
    """
    images("resnet18", shape, least=8)
    positive("model.width", width)
    network = ResNet(shape[0], max(classes, 1), width, norm)
    he(network)
    return network
