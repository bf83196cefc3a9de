"""What becomes of every client on the way of personalization (Figs. 5, 6 and 7).

    python experiments/shortcuts/along.py              # all, three seeds
    python experiments/shortcuts/along.py --part 0/4   # every fourth

From the shared models of train.py, with the options of `choice.json`. Forty times all
clients' models are looked at: on test data, on conflicting ones, and on adversarial
examples of the shared model made from test data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import Changes, merged
from problems import PROBLEMS, again, choice, model, ours
from tune import PARTED

from troth import numerics
from troth.build import Built, build
from troth.client.client import adversarial
from troth.config import reader
from troth.data import labels
from troth.engine.local_training import Plan
from troth.networks import flat
from troth.reproduce.store import Store
from troth.types import CONFLICTING, Batch

MOMENTS = 40  # how often clients are looked at
EARLY = "finetune, early"  # the first batches, one by one: most happens there
PARTS = {  # Fig. 7
    "a": "finetune",
    "b": "adversarial alone",
    "c": "distance alone",
    "d": "transfer",
}


class Looker:
    """Looks at all clients' models at once."""

    def __init__(self, built: Built, ids: np.ndarray) -> None:
        self.engine, self.w = built.federation.engine, built.federation.broadcast.w
        data, feed = built.data, self.engine.feed
        self.sets = {"": feed.whole(ids, data.test)}
        self.sets["conflicting_"] = feed.whole(ids, data.tests[CONFLICTING])
        self.sets["adv_"] = self._worst(built, self.sets[""])
        same = self.w.expand(len(ids), -1)
        self.before = self.scores(same)

    def _worst(self, built: Built, batch: Batch) -> Batch:
        """Adversarial examples of the shared model, from all clients' test data."""
        e, task = built.experiment, self.engine.task
        made = adversarial(e.adversarial, task, built.facts["scale"])
        x, y = batch.x.flatten(0, 1), batch.y.flatten(0, 1)
        none = torch.zeros((), dtype=torch.long, device=x.device)
        found = []
        for i in range(0, len(x), 1024):
            some = x[i : i + 1024]
            weight = self.w.new_full((len(some),), 1 / len(some))
            one = Batch(some, y[i : i + 1024], weight, none, none, none)
            found.append(made.worst(self.w, one).x)
        return batch._replace(x=torch.cat(found).reshape(batch.x.shape))

    @torch.no_grad()
    def scores(self, models: Tensor) -> dict[str, Tensor]:
        """Accuracy and loss of each client on each set, NaN without examples."""
        found = {}
        for name, batch in self.sets.items():
            there = batch.weight > 0
            count = there.sum(1)
            outputs = self.engine.predict(models, batch.x).flatten(0, 1)
            y = batch.y.flatten(0, 1)
            right = labels.right(outputs, y).reshape(there.shape)
            loss = self.engine.objective.per_example(outputs, y).reshape(there.shape)
            found[f"{name}accuracy"] = (right * there).sum(1) / count
            found[f"{name}loss"] = (loss * there).sum(1) / count
        return found

    def __call__(self, models: Tensor) -> dict[str, list[float]]:
        """All that is said of a moment, a number a client."""
        now, before = self.scores(models), self.before
        rise = [s["adv_loss"] - s["loss"] for s in (before, now)]
        now["l_trans"] = rise[0] - rise[1]  # Appendix C.1
        apart = numerics.off_tail(models - self.w, self.engine.task.tail)
        now["distance"] = apart.norm(dim=1)
        return {k: [round(float(a), 5) for a in v] for k, v in now.items()}


def walk(built: Built, every: int, seen: Callable[[int, Tensor], None]) -> None:
    """Personalize all clients in one chunk and show their models on the way.

    The engine's own step is replayed; only what it returns is looked at.
    """
    f, done = built.federation, 0
    lift = f.engine._lift

    def watched(name: str) -> Any:
        made = lift(name)
        if name != "finish.step":
            return made

        def step(*arguments: Any) -> Any:
            nonlocal done
            carry = made(*arguments)
            done += 1
            if done % every == 0:
                seen(done, flat.leaves(carry)[0].clone())
            return carry

        return step

    f.engine._lift = watched  # type: ignore[assignment]
    for _ in f.finish(f.population.n):
        pass


def trace(problem: str, part: str, seed: int, device: str) -> dict[str, Any]:
    """One curve of every client."""
    found = choice()[problem]
    lr, steps = found["rate"][0], MOMENTS if part == EARLY else found["rate"][1]
    own: Changes = {"name": "finetune"}
    if part not in ("finetune", EARLY):
        own = {"name": "transfer", "w1": found[part][0], "w2": found[part][1]}
    base = {k: v for k, v in reader.read(ROOT / "base.toml").items() if k != "grid"}
    sections = merged(PROBLEMS[problem], ours(problem))
    changes = again(sections, {**own, "keep": "last"}, rate=(lr, steps))
    start = {"model": {"weights": str(model(problem, seed))}, "seed": seed}
    tree = merged(merged(merged(base, changes), start), {"engine": {"device": device}})
    e = reader.from_dict(tree)
    built = build(e, plan=Plan("vmap", 50))
    f = built.federation
    ids = f.groups(f.members, f.population.n)[0]
    f.engine.use(Plan("vmap", len(ids)))
    look = Looker(built, ids)
    moments: list[dict[str, Any]] = [look(look.w.expand(len(ids), -1))]
    every = steps // MOMENTS
    walk(built, every, lambda _, models: moments.append(look(models)))
    said = {"problem": problem, "part": part, "seed": seed, "eps": found["eps"]}
    said["steps"] = list(range(0, steps + 1, every))
    said["client"] = ids.tolist()
    said["conflicting"] = built.data.tests[CONFLICTING].size.cpu().numpy()[ids].tolist()
    curves = {name: [moment[name] for moment in moments] for name in moments[0]}
    said["end"] = {name: float(np.nanmean(v)) for name, v in moments[-1].items()}
    return {**said, "label": f"{problem}, {part}", "curves": curves}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="labels that contain this")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th, from the i-th")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=ROOT)
    given = parser.parse_args()
    first, step = map(int, given.part.split("/"))
    every = [
        (problem, part, seed)
        for problem in PARTED
        for part in (*PARTS.values(), EARLY)
        for seed in range(given.seeds)
        if given.only in f"{problem}, {part}"
        and (problem == "mnist" or "finetune" in part)  # Fig. 7 is of one problem
    ]
    for problem, part, seed in every[first::step]:
        name = f"along/{problem}, {part}, seed {seed}"
        if (
            Store(given.out).get(name)
            or problem not in choice()
            or not model(problem, seed).exists()
        ):
            continue
        Store(given.out).put(name, trace(problem, part, seed, given.device))
        print(name, flush=True)


if __name__ == "__main__":
    main()
