"""What every system trains: three networks, their data, and the size of a round."""

import os
import time
from typing import NamedTuple

import numpy as np


class Workload(NamedTuple):
    """FedAvg with plain SGD; all clients take part in every round.

    Attributes:
        network: Name of the network.
        shape: Shape of one example.
        clients: Number of clients.
        batch: Number of examples per step.
        steps: Number of steps of a client in a round: one epoch.
        rounds: Number of rounds; the first three are not measured.
        lr: Learning rate.
    """

    network: str
    shape: tuple[int, ...]
    clients: int
    batch: int
    steps: int
    rounds: int
    lr: float = 0.05


WORKLOADS = {
    "W1": Workload("W1", (784,), 100, 10, 6, 33),
    "W2": Workload("W2", (1, 28, 28), 10, 16, 2, 13),
    "W2x100": Workload("W2", (1, 28, 28), 100, 16, 2, 13),
    "W3": Workload("W3", (3, 32, 32), 50, 10, 5, 8),
}
if "PEERS_ROUNDS" in os.environ:
    WORKLOADS = {
        name: work._replace(rounds=int(os.environ["PEERS_ROUNDS"]))
        for name, work in WORKLOADS.items()
    }
ABOUT = {
    "W1": "linear 784→10, cohort 100, batch 10, 6 steps",
    "W2": "conv5×5-32, pool, conv5×5-64, pool, FC 1024, cohort 10, batch 16, 2 steps",
    "W2x100": "the same with cohort 100",
    "W3": "conv3×3-32, conv3×3-64, pool, FC 128, cohort 50, batch 10, 5 steps",
}
WARM = 3


def now() -> float:
    """Return the time in seconds.

    It is the processor time of this process if `PEERS_CLOCK` is "cpu".
    """
    cpu = os.environ.get("PEERS_CLOCK") == "cpu"
    return time.process_time() if cpu else time.perf_counter()


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs [clients, examples, …] and labels of ten classes."""
    work, generator = WORKLOADS[name], np.random.default_rng(0)
    size = (work.clients, work.batch * work.steps)
    x = generator.standard_normal((*size, *work.shape), dtype=np.float32)
    return x, generator.integers(0, 10, size)


def client_steps(name: str) -> int:
    """Return how many steps all clients make in a round."""
    return WORKLOADS[name].clients * WORKLOADS[name].steps
