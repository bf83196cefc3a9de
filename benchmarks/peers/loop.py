"""The plain loop over clients that a user of torch would write."""

import copy

import torch
from torch import nn
from workloads import WORKLOADS, data, now

from networks import NETWORKS


def seconds(name: str, device: str = "cpu", precision: str = "float32") -> list[float]:
    """Return when every round ended."""
    work = WORKLOADS[name]
    place = "cuda" if device == "auto" and torch.cuda.is_available() else device
    place = "cpu" if place == "auto" else place
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    x, y = (torch.from_numpy(a).to(place) for a in data(name))
    shared = NETWORKS[work.network]().to(place)
    ends: list[float] = []
    for _ in range(work.rounds):
        total = [torch.zeros_like(p) for p in shared.parameters()]
        for k in range(work.clients):
            own = copy.deepcopy(shared)
            optimizer = torch.optim.SGD(own.parameters(), lr=work.lr)
            order = torch.randperm(x.shape[1], device=place)
            for batch in order.split(work.batch):
                optimizer.zero_grad(set_to_none=True)
                nn.functional.cross_entropy(own(x[k, batch]), y[k, batch]).backward()
                optimizer.step()
            for t, p in zip(total, own.parameters(), strict=True):
                t += p.detach()
        with torch.no_grad():
            for p, t in zip(shared.parameters(), total, strict=True):
                p.copy_(t / work.clients)
        if place != "cpu":
            torch.cuda.synchronize()
        ends.append(now())
    return ends
