"""Checks and initial weights for models of images."""

from torch import nn

from troth.types import Refusal


def images(model: str, shape: tuple[int, ...], least: int = 1) -> None:
    """Raise Refusal if examples are not images, or have sides shorter than `least`."""
    if len(shape) != 3 or min(shape) < 1:
        raise Refusal(
            f"model '{model}' needs images [channels, height, width], and one example "
            f"here has shape {list(shape)}; take mlp or linear"
        )
    if min(shape[1:]) < least:
        raise Refusal(
            f"model '{model}' needs images with sides of at least {least}, and these "
            f"are {shape[1]} by {shape[2]}; enlarge them, or take cnn or mlp"
        )


def glorot(network: nn.Module) -> None:
    """Initialize like TensorFlow: uniform ±√(6/(fan_in + fan_out)), zero bias."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.Linear) and part.bias is not None:
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)


def he(network: nn.Module) -> None:
    """Initialize convolutions like torchvision: N(0, 2/fan_out) with zero bias."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
