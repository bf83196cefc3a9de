"""The convolutional network of LEAF's and Ditto's image tasks.

References: li2021ditto, glorot2010understanding.
"""

from typing import Literal

from torch import nn

from troth.networks.layers import dense, positive
from troth.networks.models._images import glorot, images
from troth.types import Refusal


def cnn(
    shape: tuple[int, ...],
    classes: int,
    *,
    channels: list[int] = [32, 64],  # noqa: B006
    widths: list[int] = [1024],  # noqa: B006
    kernel: int = 5,
    init: Literal["glorot", "torch"] = "glorot",
    dropout: list[float] = [],  # noqa: B006
) -> nn.Module:
    """Build convolutions with ReLU and 2×2 max-pooling, then fully connected layers.

    The defaults are Ditto's network for Fashion MNIST (code of Li et al. 2021): two 5×5
    convolutions with 32 and 64 channels, each followed by pooling, then dense layers
    with 1024 and 10 outputs. It has 3,274,634 parameters on 28×28. Convolutions keep
    height and width. If a side is odd, pooling drops the last row or column. Ditto's
    network for FEMNIST is `channels = [16, 32]`, `widths = [128]`, `dropout = [0.25,
    0.5]`. It has 222,078 parameters on 28×28 with 62 classes.

    Args:
        shape: Shape of one example, [channels, height, width].
        classes: Number of classes; 0 means regression.
        channels: Output channels of each convolution. Each one is followed by a pooling
            that halves height and width.
        widths: Widths of the hidden dense layers. [] means none.
        kernel: Side of the convolutions' kernels in pixels, an odd number.
        init: Initial weights. "glorot" is uniform ±√(6/(fan_in + fan_out)) with zero
            bias, as is TensorFlow's default (Glorot and Bengio 2010, Eq. 16). "torch"
            is torch's default.
        dropout: Dropout probabilities of the inputs of the dense layers, including the
            last one. [] means no dropout. Dropout acts only in training.

    Returns:
        The network.

    Departs: pooling comes before ReLU. The function and the gradient are the same (max
    and ReLU are monotone), with a quarter of the work for ReLU. In the authors' code
    for FEMNIST, dropout is active in tests too.
    """
    _fits(shape, channels, kernel)
    depth, height, width = shape
    parts: list[nn.Module] = []
    for out in channels:
        conv = nn.Conv2d(depth, out, kernel, padding=kernel // 2)
        parts += [conv, nn.MaxPool2d(2), nn.ReLU()]
        depth, height, width = out, height // 2, width // 2
    inputs = depth * height * width
    parts += [nn.Flatten(), *dense(inputs, widths, max(classes, 1), dropout)]
    network = nn.Sequential(*parts)
    if init == "glorot":
        glorot(network)
    return network


def _fits(shape: tuple[int, ...], channels: list[int], kernel: int) -> None:
    images("cnn", shape)
    if not channels:
        raise Refusal("model.channels is empty; name at least one width, or take mlp")
    positive("model.channels", channels)
    if kernel < 1 or kernel % 2 == 0:
        raise Refusal(f"model.kernel = {kernel} must be an odd number, such as 5")
    side, most = min(shape[1:]), min(shape[1:]).bit_length() - 1
    if most < len(channels):
        raise Refusal(
            f"model.channels has {len(channels)} entries, each of which halves the "
            f"image, so its sides must be at least {2 ** len(channels)}, and they are "
            f"{shape[1]} and {shape[2]}; a side of {side} allows at most {most} entries"
        )
