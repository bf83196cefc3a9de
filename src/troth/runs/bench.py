"""Measure the speed of training on this machine, against a plain loop over clients.

The loop is what a careful user would write: an eager `nn.Module` per client, data on
the device, `torch.optim.SGD(foreach=True)`, gradients set to None, and the same
precision as the engine. The loop gets prepared batches. The time of the engine includes
drawing and gathering the batches.
"""

import copy
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from troth import build, lookup
from troth.config import reader
from troth.engine import plan
from troth.engine.local_training import Engine
from troth.engine.population import Population
from troth.networks import task
from troth.networks.kernels import precision
from troth.types import Arrays, Broadcast, Data, Split

_BATCH, _EXAMPLES, _REPEATS = 16, 64, 5


class Case(NamedTuple):
    """A model to measure, and the number of steps in one measurement."""

    label: str
    name: str
    options: dict[str, Any]
    steps: int


CASES = (
    Case("linear 784→10", "linear", {}, 50),
    Case("MLP-128", "mlp", {"widths": [128]}, 30),
    Case("CNN(8,16,64)", "cnn", {"channels": [8, 16], "widths": [64]}, 8),
    Case("CNN(32,64,1024)", "cnn", {"channels": [32, 64], "widths": [1024]}, 4),
)


def measure(
    quick: bool = False,  # measure only the first two models, without compilation
    device: str = "auto",
    n: int = 0,  # clients in a round; 0 means 10 on a CPU, 100 on a GPU
    cases: tuple[Case, ...] = CASES,
) -> list[dict[str, Any]]:
    """Measure the microseconds of a step of one client, by the loop and by the engine.

    Return one dictionary per model.
    """
    where = build.device(device)
    n = n or (10 if where.type == "cpu" else 100)
    return [_measure(case, where, n, quick) for case in cases[: 2 if quick else None]]


def _measure(case: Case, where: torch.device, n: int, quick: bool) -> dict[str, Any]:
    net: nn.Module = lookup.call(
        lookup.find("model", case.name), case.options, shape=(1, 28, 28), classes=10
    )
    net, data = net.to(where), _data(where, n)
    engine, broadcast, rows, ids = _engine(net, data, where, n, case.steps, quick)
    loop = _loop(net, data, n, case.steps)
    cuda = where.type == "cuda"
    sync: Callable[[], None] = torch.cuda.synchronize if cuda else lambda: None

    def ours() -> None:
        engine.run("local", broadcast, rows, ids, 0)

    times: dict[str, list[float]] = {"loop": [], "engine": []}
    for _ in range(_REPEATS):  # alternate, so that other programs slow both equally
        for name, work in (("loop", loop), ("engine", ours)):
            sync()
            began = time.perf_counter()
            work()
            sync()
            took = time.perf_counter() - began
            times[name].append(took / (n * case.steps) * 1e6)
    loop_us, engine_us = (statistics.median(t) for t in times.values())
    return {
        "model": case.label,
        "clients": n,
        "device": str(where),
        "loop_us": loop_us,
        "engine_us": engine_us,
        "ratio": loop_us / engine_us,
        "plan": engine.plan._asdict(),
        "loop_all_us": times["loop"],
        "engine_all_us": times["engine"],
    }


def _data(where: torch.device, n: int) -> Data:
    draw = torch.Generator().manual_seed(0)
    slots = n * _EXAMPLES
    x = torch.rand(slots, 1, 28, 28, generator=draw).to(where)
    y = torch.randint(0, 10, (slots,), generator=draw).to(where)
    size = torch.full((n,), _EXAMPLES, device=where)
    start = torch.arange(n, device=where) * _EXAMPLES
    split = Split(torch.arange(slots, device=where), y, start, size)
    return Data(x, split, split, split)


def _engine(
    net: nn.Module, data: Data, where: torch.device, n: int, steps: int, quick: bool
) -> tuple[Engine, Broadcast, Tensor, np.ndarray]:
    """Build the engine, trained in the way that is chosen for a long run."""
    train = {"steps": steps, "batch": _BATCH, "lr": 0.05}
    experiment = reader.from_dict({"train": train})
    arrays = Arrays(np.zeros(0), np.zeros(0), classes=10)
    engine = build.make_engine(experiment, net, data, arrays, n, None)
    w0 = task.flatten(net)
    key = w0.new_zeros((), dtype=torch.long)
    broadcast = Broadcast(w0, w0.new_zeros(0), w0.new_ones(()), key)
    population = Population(n, engine.start(w0), where)
    ids = np.arange(n)
    work = 1.0 if quick else 1e9
    engine.use(plan.choose(engine, broadcast, population, ids, work))
    rows = population.read(ids)
    engine.run("local", broadcast, rows, ids, 0)  # traces and compiles
    return engine, broadcast, rows, ids


def _loop(net: nn.Module, data: Data, n: int, steps: int) -> Callable[[], None]:
    """Return the loop over clients, each with a separate module and optimizer."""
    modules = [copy.deepcopy(net) for _ in range(n)]
    optimizers = [
        torch.optim.SGD(m.parameters(), lr=0.05, foreach=True) for m in modules
    ]
    batches = _EXAMPLES // _BATCH

    @precision.products("float32", data.x.device)
    def work() -> None:
        for k, t in itertools.product(range(n), range(steps)):
            first = k * _EXAMPLES + (t % batches) * _BATCH
            x = data.x[first : first + _BATCH]
            y = data.train.y[first : first + _BATCH]
            optimizers[k].zero_grad(set_to_none=True)
            cross_entropy(modules[k](x), y).backward()  # type: ignore[no-untyped-call]
            optimizers[k].step()

    work()
    return work
