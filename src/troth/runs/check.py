"""Check how the layers of a network are computed, and how fast the network is.

A layer that `torch.func.vmap` supports is computed for many clients at once. If a
network has a layer that vmap does not support, clients are trained one at a time.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from troth import build
from troth.config import reader
from troth.engine.local_training import Engine, Plan
from troth.networks import build as networks
from troth.networks import task
from troth.networks.validate import sentence
from troth.types import Arrays, Broadcast, Data, Split

_CLIENTS, _BATCH, _STEPS = 8, 16, 2
_SECONDS = 2.0  # limit of the time of a measurement, in seconds
TOGETHER, PRODUCT = "together", "together, as matrix products"
SLOWLY, APART = "together, but slowly", "one client at a time"


def check(
    name: str,
    shape: Sequence[int],
    classes: int = 10,
    options: dict[str, Any] | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Check a network on random data: 8 clients with 16 examples each.

    Args:
        name: Name of a model, or `module:function`.
        shape: Shape of one example.
        classes: Number of classes; 0 means a regression.
        options: Options of the model.
        device: Device to compute on, such as `cpu` or `cuda`.

    Returns:
        `layers` (for each one its name, kind, number of parameters, the way in which it
        is computed, and the reason), `parameters`, `device`, `plans` (possible ways to
        train the clients), `milliseconds` of a step of one client for the measured
        plans, and `note`, a sentence about layers that slow the training down, or "".

    Example:
        >>> found = check("mlp", (4,), 3, device="cpu")
        >>> [layer["kind"] for layer in found["layers"]], found["layers"][0]["path"]
        (['Linear', 'ReLU', 'Linear'], 'together')
    """
    where = build.device(device)
    settings = {"name": name, "normalize": "none", **(options or {})}
    train = {"steps": _STEPS, "batch": _BATCH, "lr": 0.01}
    e = reader.from_dict({"model": settings, "train": train})
    data = _data(tuple(shape), classes, where)
    arrays = Arrays(np.zeros(0), np.zeros(0), classes)
    net = networks.network(e, tuple(shape), classes, np.zeros(0), 1.0).to(where)
    made = build.make_engine(e, net, data, arrays, _CLIENTS, Plan("loop", 1))
    model = made.objective.net.get_submodule("1")
    return {
        "model": name,
        "device": str(where),
        "parameters": made.task.d - made.task.tail,
        "layers": _layers(model, made),
        "plans": list(made.ways),
        "milliseconds": _speeds(made),
        "note": sentence(obstacles) if (obstacles := made.objective.obstacles) else "",
    }


def _layers(model: nn.Module, made: Engine) -> list[dict[str, Any]]:
    """Describe every layer, and every larger module that vmap does not support."""
    obstacles = {o.layer: o for o in made.objective.obstacles}
    products = nn.Conv1d, nn.Conv2d
    rows = []
    for name, part in model.named_modules():
        known = obstacles.get(name)
        if known is None and any(part.children()):
            continue
        path, why = TOGETHER, ""
        if made.device.type == "cuda" and isinstance(part, products):
            path = PRODUCT
        if known is not None:
            path, why = (SLOWLY if "vmap" in known.plans else APART), known.why
        own = part.parameters() if known else part.parameters(recurse=False)
        size = sum(p.numel() for p in own)
        row = {"layer": name, "kind": type(part).__name__, "parameters": size}
        rows.append(row | {"path": path, "why": why})
    return rows


def _speeds(made: Engine) -> dict[str, float]:
    """Measure milliseconds of a step per client, one at a time and together."""
    w = task.flatten(made.objective.net)
    zero = torch.zeros((), dtype=torch.long, device=w.device)
    sent = Broadcast(w, w.new_zeros(0), w.new_ones(()), zero)
    times = {"loop": _least(made, sent, Plan("loop", 1))}
    if "vmap" in made.ways:
        fits = int(_SECONDS / (times["loop"] * _STEPS))
        times["vmap"] = _least(made, sent, Plan("vmap", max(2, min(_CLIENTS, fits))))
    return {how: 1000 * seconds for how, seconds in times.items()}


def _least(made: Engine, sent: Broadcast, plan: Plan) -> float:
    """Return the shortest measured time of a step of one client, in seconds."""
    made.use(plan)
    ids, times, began = np.arange(plan.chunk), list[float](), time.monotonic()
    rows = made.start(sent.w).expand(len(ids), -1)
    while len(times) < 2 or (len(times) < 5 and time.monotonic() < began + _SECONDS):
        start = time.perf_counter()  # the first call traces
        made.run("local", sent, rows, ids, 0)
        if made.device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / (len(ids) * _STEPS))
    return min(times)


def _data(shape: tuple[int, ...], classes: int, where: torch.device) -> Data:
    """Draw random examples, the same in every call."""
    rows = _CLIENTS * _BATCH
    x = torch.linspace(0, 1, rows * int(np.prod(shape))).reshape(rows, *shape)
    y: Tensor = torch.arange(rows) % classes if classes else torch.zeros(rows)
    size = torch.full((_CLIENTS,), _BATCH)
    start = torch.arange(_CLIENTS) * _BATCH
    split = Split(*(t.to(where) for t in (torch.arange(rows), y, start, size)))
    return Data(x.to(where), split, split, split)
