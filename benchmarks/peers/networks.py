"""The networks as a user of torch writes them; Troth imports them by name."""

from torch import nn


class W1(nn.Sequential):
    """A linear model."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, 10))


class W2(nn.Sequential):
    """3.27 million parameters."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10)),
        )


class W3(nn.Sequential):
    """The network of pfl-research's CIFAR-10 benchmark, without its dropout."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(3, 32, 3, padding="valid"), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, padding="valid"), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(12544, 128), nn.ReLU(), nn.Linear(128, 10)),
        )


NETWORKS = {"W1": W1, "W2": W2, "W3": W3}
