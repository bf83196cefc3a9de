"""Flower's own FedAvg on digits with an MLP, as its documentation writes apps."""

import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import torch
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits
from torch import nn

CLIENTS, STEPS, BATCH, LR = 10, 8, 16, 0.1
client = ClientApp()
server = ServerApp()


def network() -> nn.Module:
    """9,610 parameters."""
    hidden = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(nn.Flatten(), *hidden)


@lru_cache(maxsize=16)
def examples(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What client k trains on: 72 % of a tenth."""
    x, y = load_digits(return_X_y=True)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    mine = order[k::CLIENTS][: int(0.72 * len(y) / CLIENTS)]
    return torch.tensor(x, dtype=torch.float32)[mine] / 16, torch.tensor(y)[mine]


@client.train()
def train(message: Message, context: Context) -> Message:
    """A round of plain SGD."""
    torch.set_num_threads(1)
    net = network()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = examples(int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    order = torch.randperm(len(y))
    for step in range(STEPS):
        batch = order[step * BATCH % len(y) :][:BATCH]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
    told = {"train_loss": float(loss.detach()), "num-examples": len(y)}
    content = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord(told),
    }
    return Message(RecordDict(content), reply_to=message)


class Timed(FedAvg):
    """FedAvg that notes when each round begins."""

    def __init__(self, times: str) -> None:
        super().__init__(fraction_train=1.0, fraction_evaluate=0.0)
        self.times = times

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As FedAvg does it."""
        with Path(self.times).open("a") as file:
            file.write(f"{time.monotonic()}\n")
        return super().configure_train(server_round, arrays, config, grid)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds."""
    strategy = Timed(str(context.run_config["times"]))
    first = ArrayRecord(network().state_dict())
    rounds = int(context.run_config["rounds"])
    strategy.start(grid=grid, initial_arrays=first, num_rounds=rounds)
