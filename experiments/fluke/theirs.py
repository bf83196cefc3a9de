"""Train fluke's side on the data and first weights that `ours.py` saved.

    python experiments/fluke/theirs.py

Run it in an environment with fluke (see README.md), which need not have Troth.
"published" is fluke without changes. "repaired" has the changes of this file's
subclasses and no others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fluke import DDict, FlukeENV
from fluke.algorithms import CentralizedFL
from fluke.algorithms.apfl import APFL, APFLClient
from fluke.algorithms.ditto import Ditto
from fluke.algorithms.fedrep import FedRep
from fluke.algorithms.pfedme import PFedMe, PFedMeClient, PFedMeOptimizer
from fluke.comm import Message
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.nets import EncoderGlobalHeadLocalNet, EncoderHeadNet
from fluke.utils.model import merge_models, safe_load_state_dict
from settings import HIDDEN, METHODS, SEEDS, TRAIN
from torch import nn
from torch.nn.utils import parameters_to_vector

HERE = Path(__file__).parent


class Given(FastDataLoader):
    """The batches of a client of Troth, round by round.

    Args:
        epochs: epochs of a round, in the order in which the client uses them.
        order: [rounds, epochs, steps, batch] rows; -1: none.
    """

    def __init__(self, x: Any, y: Any, epochs: list[int], order: Any) -> None:
        batch = order.shape[-1]
        super().__init__(x, y, num_labels=10, batch_size=batch, skip_singleton=False)
        self.epochs, self.order, self.passes = epochs, order, 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        """The next epoch."""
        round_, nth = divmod(self.passes, len(self.epochs))
        self.passes += 1
        for rows in self.order[round_, self.epochs[nth]]:
            seen = torch.from_numpy(rows[rows >= 0]).long()
            yield tuple(values[seen] for values in self.tensors)


class RepairedAPFLClient(APFLClient):
    """APFL whose v is trained and stays v: Algorithm 1 of the paper.

    As published, the gradient is taken at a copy and never reaches v, and v is
    overwritten by the mixture at the end of a round.
    """

    def fit(self, override_local_epochs: int = 0) -> float:
        """A round: each batch moves v at the mixture, and then w."""
        if self.optimizer is None:
            self.optimizer, self.scheduler = self._optimizer_cfg(self.model)
            both = self._optimizer_cfg(self.personalized_model)
            self.pers_optimizer, self.pers_scheduler = both
        share = self.hyper_params.lam
        for _ in range(self.hyper_params.local_epochs):
            for x, y in self.train_set:
                mixture = merge_models(self.model, self.personalized_model, share)
                self.hyper_params.loss_fn(mixture(x), y).backward()
                pairs = zip(
                    self.personalized_model.parameters(),
                    mixture.parameters(),
                    strict=True,
                )
                for v, at in pairs:
                    v.grad = share * at.grad
                self.pers_optimizer.step()
                self.optimizer.zero_grad()
                self.hyper_params.loss_fn(self.model(x), y).backward()
                self.optimizer.step()
        return 0.0


class RepairedAPFL(APFL):
    """APFL with such clients."""

    def get_client_class(self) -> type[APFLClient]:
        """The repaired one."""
        return RepairedAPFLClient


class RepairedPFedMeClient(PFedMeClient):
    """pFedMe that pulls θ towards w_k and sends w_k: Algorithm 1.

    As published, θ is pulled towards itself, and θ is sent in place of w_k. `model` is
    θ, as there, and `internal_model` w_k.
    """

    def receive_model(self) -> None:
        """Both start from the shared model."""
        super().receive_model()
        safe_load_state_dict(self.internal_model, self.model.state_dict())

    def fit(self, override_local_epochs: int = 0) -> float:
        """A round: for each batch some steps of θ, and one of w_k."""
        if self.optimizer is None:
            self.optimizer, self.scheduler = self._optimizer_cfg(self.model)
        group = self.optimizer.param_groups[0]
        pull = group["lr"] * group["lamda"]
        for _ in range(self.hyper_params.local_epochs):
            for x, y in self.train_set:
                for _ in range(self.hyper_params.k):
                    self.optimizer.zero_grad()
                    self.hyper_params.loss_fn(self.model(x), y).backward()
                    self.optimizer.step(list(self.internal_model.parameters()))
                pairs = zip(
                    self.model.parameters(),
                    self.internal_model.parameters(),
                    strict=True,
                )
                for theta, w in pairs:
                    w.data = w.data - pull * (w.data - theta.data)
        self.own = deepcopy(self.model)
        return 0.0

    def send_model(self) -> None:
        """w_k."""
        message = Message(self.internal_model, "model", self.index, inmemory=True)
        self.channel.send(message, "server")


class RepairedPFedMe(PFedMe):
    """pFedMe with such clients."""

    def get_client_class(self) -> type[PFedMeClient]:
        """The repaired one."""
        return RepairedPFedMeClient


PASSES = {  # epochs of a round that fluke's client goes through, one after the other
    "ditto": [0, 0],  # Troth moves both models by the same batches
    "apfl": [0],
    "pfedme": [0],
    "fedrep": [0, 1, 2],  # two for the head, one for the rest
}
CLASSES: dict[str, dict[str, type[CentralizedFL]]] = {
    "published": {"ditto": Ditto, "apfl": APFL, "pfedme": PFedMe, "fedrep": FedRep},
    "repaired": {"apfl": RepairedAPFL, "pfedme": RepairedPFedMe},
}


def network(file: Path, kind: torch.dtype) -> EncoderHeadNet:
    """The same network from the same first weights."""
    state = torch.load(file, weights_only=True)
    first, last = nn.Linear(784, HIDDEN), nn.Linear(HIDDEN, 10)
    for layer, name in ((first, "1"), (last, "3")):
        own = {key: state[f"{name}.{key}"] for key in ("weight", "bias")}
        layer.load_state_dict(OrderedDict(own))
    encoder = nn.Sequential(nn.Flatten(), first, nn.ReLU())
    return EncoderHeadNet(encoder, last).to(kind)


def examples(place: Path, seed: int, part: int, kind: torch.dtype) -> list[Any]:
    """Every client's inputs and labels of a part."""
    with np.load(place / f"seed {seed}.npz") as held:
        x, y, owner, split = (held[key] for key in ("x", "y", "owner", "split"))
    rows = [(owner == k) & (split == part) for k in range(int(owner.max()) + 1)]
    return [(torch.from_numpy(x[r]).to(kind), torch.from_numpy(y[r])) for r in rows]


def loaders(place: Path, seed: int, name: str, kind: torch.dtype) -> list[Given]:
    """Every client's training examples, in Troth's batches."""
    with np.load(place / f"order, seed {seed}.npz") as held:
        order, per_epoch = held["order"], held["per_epoch"]
    found = []
    for k, (x, y) in enumerate(examples(place, seed, 0, kind)):
        steps = order[:, : 3 * per_epoch[k], k]
        epochs = steps.reshape(len(steps), 3, per_epoch[k], -1)
        found.append(Given(x, y, PASSES[name], epochs))
    return found


def translated(name: str, net: nn.Module) -> DDict:
    """Return the settings with fluke's names."""
    train: dict[str, Any] = TRAIN
    own = METHODS[name]["personalizer"]
    optimizer: dict[str, Any] = {"name": "SGD", "lr": train["lr"]}
    client = {"local_epochs": train["epochs"], "batch_size": train["batch"]}
    server: dict[str, Any] = {"weighted": False}
    model: nn.Module = net
    if name == "ditto":
        client |= {"lam": own["lam"], "tau": train["epochs"], "model": net}
    elif name == "apfl":
        client |= {"lam": own["alpha"], "model": net}
        server["tau"] = 1
    elif name == "pfedme":
        optimizer = {"name": PFedMeOptimizer, "lr": train["lr"]}
        optimizer |= {"lamda": own["lam"], "mu": 0.0}
        client["k"] = own["inner"]
        server["beta"] = METHODS[name]["server"]["lr"]
    else:
        client |= {"local_epochs": own["epochs"], "tau": train["epochs"], "model": net}
        model = net.encoder
    client |= {"loss": "CrossEntropyLoss", "optimizer": optimizer, "scheduler": None}
    return DDict(client=DDict(**client), server=DDict(**server), model=deepcopy(model))


def own_model(name: str, version_: str, client: Any, shared: nn.Module) -> nn.Module:
    """Return the model of a client after the last round, defined as in Troth."""
    if name == "ditto" or (name, version_) == ("apfl", "published"):
        return client.personalized_model  # apfl: the mixture with the client's last w_k
    if name == "apfl":
        return merge_models(shared, client.personalized_model, client.hyper_params.lam)
    if name == "pfedme":  # `model` has received the shared one by now
        return client.internal_model if version_ == "published" else client.own
    return client.model  # fedrep: the shared encoder, received at the end, own head


def trained(name: str, version_: str, seed: int, place: Path) -> list[nn.Module]:
    """Every client's model."""
    kind = getattr(torch, TRAIN["precision"])
    env = FlukeENV()
    env.set_seed(seed)
    env.set_device("cpu")
    env.set_eval_cfg(pre_fit=False, post_fit=False, server=False, locals=False)
    net = network(place / f"seed {seed}.pt", kind)
    clients = loaders(place, seed, name, kind)
    data = DummyDataContainer(clients, [None] * len(clients), None, num_classes=10)
    settings = translated(name, net)
    federation = CLASSES[version_][name](len(clients), DataSplitter(data), settings)
    if name == "fedrep":  # its clients would share one network
        for client in federation.clients:
            client.model = EncoderGlobalHeadLocalNet(deepcopy(net))
    federation.run(n_rounds=TRAIN["rounds"], eligible_perc=1.0)
    shared = federation.server.model
    return [own_model(name, version_, c, shared) for c in federation.clients]


@torch.no_grad()
def accuracy(models: list[nn.Module], place: Path, seed: int) -> list[float]:
    """Return the accuracy of each client's model on its own test data."""
    found = []
    tests = examples(place, seed, 2, getattr(torch, TRAIN["precision"]))
    for model, (x, y) in zip(models, tests, strict=True):
        found.append(round(float((model(x).argmax(1) == y).double().mean()), 6))
    return found


def apart(models: list[nn.Module], file: Path) -> float:
    """Return the largest parameter difference from Troth's, relative to the largest."""
    ours = torch.load(file, weights_only=True)
    theirs = [parameters_to_vector(m.parameters()).detach().double() for m in models]
    return float((torch.stack(theirs) - ours).abs().max() / ours.abs().max())


EVERY = [(name, v) for v in reversed(CLASSES) for name in CLASSES[v]]


def accuracies(seed: int, place: Path) -> dict[str, Any]:
    """Return the accuracies of the runs of a seed."""
    file = place / f"seed {seed}.npz"
    said: dict[str, Any] = {
        "seed": seed,
        "fluke-fl": version("fluke-fl"),
        "torch": torch.__version__,
        "data_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "accuracy": {v: {} for v in CLASSES},
        "apart": {v: {} for v in CLASSES},
        "seconds": {v: {} for v in CLASSES},
    }
    for name, v in EVERY:
        began = time.perf_counter()
        models = trained(name, v, seed, place)
        found = accuracy(models, place, seed)
        away = apart(models, place / f"{name}, seed {seed}.pt")
        said["apart"][v][name] = away
        said["accuracy"][v][name] = found
        said["seconds"][v][name] = round(time.perf_counter() - began, 1)
        print(name, v, seed, np.mean(found).round(4), away, flush=True)
    return said


def main() -> None:
    """Train all methods on all seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--exchange", type=Path, default=Path("runs/fluke"))
    place = parser.parse_args().exchange.absolute()
    warnings.simplefilter("ignore", DeprecationWarning)
    for seed in SEEDS:
        file = HERE / "loose" / f"theirs-seed-{seed}~fluke.json"
        if not file.exists():  # Troth is not installed here: a loose result by hand
            said = {"name": f"theirs, seed {seed}", "version": 1}
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(said | accuracies(seed, place)) + "\n")


if __name__ == "__main__":
    main()
