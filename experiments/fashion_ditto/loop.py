"""Reimplement the Ditto authors' loop: FedAvg on Fashion-MNIST, one step at a time.

    python experiments/fashion_ditto/loop.py "A1 80%" --rounds 5000
    python experiments/fashion_ditto/loop.py "A2 80%" --rule multi-Krum

The loop follows the authors' code where Troth differs. A client's order of examples
continues over the rounds and is shuffled with seeds that count its steps. Random labels
and noise come from numpy's global generator. The first model has Glorot's weights. Only
two things differ: the order of examples in the authors' file, which has no seed, and
TensorFlow's first random numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from troth.build import build
from troth.reproduce import listing
from troth.reproduce.entry import experiment
from troth.reproduce.store import Store

CLIENTS, ASKED, STEPS, BATCH, RATE = 500, 10, 2, 16, 0.05
SHAPES = ((32, 1, 5, 5), (64, 32, 5, 5), (1024, 3136), (10, 1024))


def first() -> list[Tensor]:
    """Return Glorot's uniform weights, and biases of 0."""
    torch.manual_seed(123)
    model = []
    for shape in SHAPES:
        fans = sum(shape[:2]) * int(np.prod(shape[2:]))
        most = (6 / fans) ** 0.5
        model += [torch.empty(shape).uniform_(-most, most), torch.zeros(shape[0])]
    return model


def outputs(p: list[Tensor], x: Tensor) -> Tensor:
    """Return the outputs of two 5×5 convolutions, each with pooling, and two layers."""
    for k in (0, 2):
        x = F.max_pool2d(F.relu(F.conv2d(x, p[k], p[k + 1], padding=2)), 2)
    return F.linear(F.relu(F.linear(x.flatten(1), p[4], p[5])), p[6], p[7])


def batches(size: int) -> Iterator[np.ndarray]:
    """Yield batches of positions in a client's data; an incomplete one is dropped."""
    order, at, step = np.arange(size), size, 0
    while True:
        at += BATCH
        if at + BATCH > size:
            at = 0
            np.random.seed(step + 1)
            np.random.shuffle(order)
        step += 1
        yield order[at : at + BATCH]


def nearest(updates: list[list[Tensor]], near: int) -> np.ndarray:
    """Return Krum's order: by the sum of squared distances to the nearest others."""
    rows = torch.stack([torch.cat([u.flatten() for u in each]) for each in updates])
    far = torch.stack([(rows - row).square().sum(1) for row in rows]).numpy()
    return np.argsort(np.sort(far)[:, : near + 1].sum(1))


class Loop:
    """The whole federation under the attack of one column.

    Args:
        column: such as A1 80%.
        rule: the server's aggregation: mean, Krum or multi-Krum.
    """

    def __init__(self, column: str, rule: str = "mean") -> None:
        (cell,) = listing.find("ditto/table8").at("full", patterns=["global / clean"])
        data = build(experiment(cell.choices[0], 0)).data
        pixels, test = data.x.float(), data.test
        seen = pixels[:60_000].numpy()  # whose sums in float32 are not torch's
        self.x = (pixels - torch.from_numpy(seen.mean(0))) / (seen.std(0) + 0.001)
        sizes, starts = data.train.size.numpy(), data.train.start.numpy()
        self.rows, self.y = list[Tensor](), list[Tensor]()
        for k, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            row, y = (t[start : start + size] for t in data.train[:2])
            by_class = np.lexsort((row.numpy(), (y.numpy() - k) % 10))
            order = np.random.RandomState(k).permutation(by_class)
            self.rows.append(row[order])
            self.y.append(y[order])
        self.share, self.attack = sizes / sizes.sum(), column[:2]
        share = 0 if column == "clean" else int(column[3:-1])
        f = ASKED * share // 100
        self.near = ASKED - f - 2  # neighbors that a score counts
        self.taken = {"mean": ASKED, "Krum": 1, "multi-Krum": ASKED - f}[rule]
        np.random.seed(1234567)
        drawn = np.random.choice(range(CLIENTS), CLIENTS * share // 100, replace=False)
        self.hostile = np.isin(np.arange(CLIENTS), drawn)
        for k in np.flatnonzero(self.hostile):
            self.y[k] = torch.from_numpy(np.random.randint(0, 10, sizes[k]))
        self.batches = [batches(size) for size in sizes]
        benign = np.repeat(~self.hostile, test.size.numpy())
        self.test = self.x[test.row[benign]], test.y[benign]
        self.w, self.round = first(), 0

    def step(self) -> None:
        """Run one round."""
        np.random.seed(self.round + 4)
        asked = np.random.choice(CLIENTS, ASKED, replace=False, p=self.share)
        first = self.near <= 0  # all scores are 0: who was drawn first is taken
        joined = self.taken if first else ASKED
        updates = [self.update(k) for k in asked[:joined]]
        for k in asked[joined:]:  # nobody asks for what they send
            for _ in range(STEPS):
                next(self.batches[k])
        if self.taken < len(updates):
            updates = [updates[k] for k in nearest(updates, self.near)[: self.taken]]
        for w, *each in zip(self.w, *updates, strict=True):
            w += torch.stack(each).mean(0)
        self.round += 1

    def update(self, k: int) -> list[Tensor]:
        """Return the update that a client sends."""
        p = [w.clone().requires_grad_() for w in self.w]
        for _ in range(STEPS):
            at = torch.from_numpy(next(self.batches[k]))
            x, y = self.x[self.rows[k][at]], self.y[k][at]
            gradient = torch.autograd.grad(F.cross_entropy(outputs(p, x), y), p)
            with torch.no_grad():
                for own, g in zip(p, gradient, strict=True):
                    own -= RATE * g
        sent = [own.detach() - w for own, w in zip(p, self.w, strict=True)]
        if self.hostile[k] and self.attack == "A3":
            return [ASKED * u for u in sent]
        if self.hostile[k] and self.attack == "A2":
            std = float(np.std(torch.cat([u.flatten() for u in sent]).numpy()))
            noise = (np.random.normal(0, std, u.shape) for u in sent)
            return [torch.from_numpy(u).float() for u in noise]
        return sent

    @torch.no_grad()
    def accuracy(self) -> float:
        """Return the accuracy on benign clients' test examples."""
        x, y = self.test
        right = sum(
            int((outputs(self.w, x[k : k + 500]).argmax(1) == y[k : k + 500]).sum())
            for k in range(0, len(y), 500)
        )
        return right / len(y)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("column", help="such as 'A1 80%%'")
    parser.add_argument("--rule", default="mean", help="mean, Krum or multi-Krum")
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    loop, found = Loop(given.column, given.rule), dict[int, float]()
    while loop.round < given.rounds:
        loop.step()
        if loop.round % given.every == 0:
            found[loop.round] = round(loop.accuracy(), 5)
            print(given.column, loop.round, found[loop.round], flush=True)
            said = {"column": given.column, "rule": given.rule, "accuracy": found}
            rule = "" if given.rule == "mean" else f"{given.rule}, "
            Store(given.out).put(f"draws/loop/{rule}{given.column}", said)


if __name__ == "__main__":
    main()
