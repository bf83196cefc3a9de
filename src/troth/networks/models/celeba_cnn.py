r"""The convolutional network of LEAF's CelebA task.

References: caldas2018leaf.
"""

from torch import nn

from troth.networks.layers import positive
from troth.networks.models._images import glorot, images


def celeba_cnn(
    shape: tuple[int, ...], classes: int, *, channels: int = 32, blocks: int = 4
) -> nn.Module:
    """Build LEAF's network for CelebA: convolutions with batch norm, one dense layer.

    Four blocks of a 3×3 convolution with 32 channels, batch normalization, 2×2
    max-pooling and ReLU are followed by a fully connected layer (code of Caldas et al.
    2018, which Ditto uses too). It has 31,202 parameters for 2 classes on 84×84 RGB.
    Halves of odd sides are rounded up (84, 42, 21, 11, 6). Initial weights are uniform
    in ±√(6/(fan_in + fan_out)), and biases are 0, as is TensorFlow's default. The
    authors do not normalize pixels (0 to 255), which is model.normalize = "none".

    Args:
        shape: Shape of one example, [channels, height, width].
        classes: Number of classes; 0 means regression.
        channels: Number of output channels of every convolution.
        blocks: Number of blocks, each of which halves height and width.

    Returns:
        The network.

    Departs: the authors also use the statistics of the batch in tests, so that a
    prediction depends on the other examples. Here, tests use running statistics, with
    torch's momentum of 0.1.
    """
    images("celeba_cnn", shape)
    positive("model.channels", channels)
    positive("model.blocks", blocks)
    depth, height, width = shape
    parts: list[nn.Module] = []
    for _ in range(blocks):
        conv = nn.Conv2d(depth, channels, 3, padding=1)
        norm = nn.BatchNorm2d(channels, eps=1e-3)  # TensorFlow's
        parts += [conv, norm, nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()]
        depth, height, width = channels, -(-height // 2), -(-width // 2)
    parts += [nn.Flatten(), nn.Linear(depth * height * width, max(classes, 1))]
    network = nn.Sequential(*parts)
    glorot(network)
    return network
