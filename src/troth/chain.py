r"""From a gradient attack to a few poisoned examples, each stage trained afresh.

@inproceedings{farhadkhani2022equivalence,
  title={An Equivalence Between Data Poisoning and Byzantine Gradient Attacks},
  author={Farhadkhani, Sadegh and Guerraoui, Rachid and Hoang, L{\^e}-Nguy{\^e}n and
    Villemaud, Oscar},
  booktitle={ICML}, year={2022}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import api, config, flat, folder, lookup, poison, runs
from troth.build import Built, build
from troth.layers import Normalise
from troth.loading import Run
from troth.optimizers.adam import adam
from troth.runs import Watch
from troth.types import Batch, Refusal

Stage = Literal["gradient", "model", "data"]
STAGES: tuple[Stage, ...] = ("gradient", "model", "data")


class Reached(NamedTuple):
    """How far one stage bends the shared model."""

    stage: str
    start: float  # ‖ρ − θ†‖ before the first round
    distance: float  # after the last
    accuracy: float  # of ρ on all test data, by true labels
    aimed: float  # by the labels that the attacker wants
    personal: float  # mean accuracy of the benign clients' own models
    examples: int = 0  # poisoned
    share: float = 0.0  # of all training examples
    largest: float = 0.0  # norm of a poisoned input


class Options(NamedTuple):
    """What the chain is to do."""

    target: str = "shift_labels"  # a corruption of labels, or a file with a vector
    stage: Stage = "data"
    examples: int = 2000
    inputs: Literal["free", "box", "clip"] = "free"
    labels: Literal["soft", "sampled", "repeated"] = "soft"
    noise: float = 0.01
    weight: float = 1.0
    epochs: int = 100  # of training the target
    lr: float = 0.02


def chain(
    sections: dict[str, Any],
    out: Path,
    options: Options,
    *,
    data_dir: str | None = None,
    watch: Watch | None = None,
) -> list[Reached]:
    """Attack a coupled federation by reports, then by a model, then by data.

    Args:
        sections: an experiment with personalizer `coupled` and an adversary.
        out: a new folder: `target.npy`, `model.npy`, `poison.npz`, and a run a stage.
        options: what to do.
        data_dir: where data sets are looked for first.
        watch: called after every round.

    Returns:
        The federation as it is without an attack, then every stage.
    """
    folder.check_free(out)
    e = config.from_dict(sections)
    if e.personalizer.name != "coupled" or not e.adversary.present():
        raise Refusal(
            "the chain needs personalizer 'coupled' and an adversary; set "
            "personalizer.name = 'coupled' and adversary.count = 1"
        )
    work = _Work(sections, out, options, data_dir, watch)
    found = [work.trained("none", {"attack": "none", "corruption": "none"})]
    for stage in STAGES[: STAGES.index(options.stage) + 1]:
        found.append(getattr(work, stage)())
    return found


class _Work:
    """The stages, each from what the one before it left."""

    def __init__(
        self,
        sections: dict[str, Any],
        out: Path,
        options: Options,
        data_dir: str | None,
        watch: Watch | None,
    ) -> None:
        self.sections, self.out, self.options = sections, out, options
        self.given: dict[str, Any] = {"data_dir": data_dir, "watch": watch}
        plain = {**sections, "attack": "none", "corruption": "none"}
        self.built = build(
            config.from_dict(plain), data_dir=data_dir, plan=runs.UNMEASURED
        )
        self.target = self._target()
        self.start = float((self.built.federation.broadcast.w - self.target).norm())
        self.run: Run | None = None
        self.poisoned = (0, 0.0, 0.0)

    def gradient(self) -> Reached:
        """Counter-gradient."""
        attack = {"name": "counter_gradient", "target": self._saved("target.npy")}
        return self.trained("gradient", {"attack": attack, "corruption": "none"})

    def model(self) -> Reached:
        """A model that never learns, and reports honestly (Lemma 3)."""
        rho, own = self._ended()
        e, k = self.built.experiment, int(self.built.hostile.sum())
        lam = e.personalizer.options["lam"]
        name: Any = e.regularizer.name
        regularizer = lookup.call(
            lookup.find("regularizer", name),
            e.regularizer.options,
            task=self.built.federation.engine.task,
        )
        nothing: Any = None
        pull = sum(regularizer.grad(theta, rho, nothing) for theta in own) * lam
        frozen = poison.model_attack(rho, pull / k, lam=lam, regularizer=name)
        np.save(self.out / "model.npy", frozen.numpy())
        attack = {"name": "frozen_model", "target": str(self.out / "model.npy")}
        return self.trained("model", {"attack": attack, "corruption": "none"})

    def data(self) -> Reached:
        """Examples from which that model is learned."""
        o, e = self.options, self.built.experiment
        head = self._head(np.load(self.out / "model.npy"))
        made = poison.data_attack(
            head,
            o.examples,
            e.seed,
            inputs=o.inputs,
            labels=o.labels,
            noise=o.noise,
        )
        shape = self.built.facts["shape"]
        others = int(self.built.data.train.size[~self.built.hostile].sum())
        file = self.out / "poison.npz"
        said = poison.save(
            file, made.x.reshape(-1, *shape), made.y, made.p, others=others, scale=1.0
        )
        self.poisoned = (said.number, said.share, said.largest_norm)
        corruption = {"name": "from_file", "path": str(file), "weight": o.weight}
        changes = {"attack": "none", "corruption": corruption}
        return self.trained("data", changes)

    def trained(self, stage: str, changes: dict[str, Any]) -> Reached:
        """A run of the federation with this attack, and what it comes to."""
        tree = {**self.sections, **changes}
        [self.run] = api.run(tree, out=self.out / stage, **self.given)
        rho, _ = self._ended()
        self.built.federation.broadcast = self.built.federation.broadcast._replace(
            w=rho.to(self.built.federation.broadcast.w)
        )
        true, aimed = self._judged(rho)
        own = self.run.summary["personal"]["accuracy_mean"]
        away = float((rho - self.target).norm())
        return Reached(stage, self.start, away, true, aimed, own, *self.poisoned)

    def _ended(self) -> tuple[Tensor, list[Tensor]]:
        """ρ and the benign clients' own models after the last round."""
        assert self.run is not None
        rho = flat.flatten(self.run.network()).double()
        file = self.run.path / folder.PERSONAL
        honest = np.flatnonzero(~self.built.hostile)
        return rho, [folder.load_model(file, int(k)).double() for k in honest]

    def _target(self) -> Tensor:
        """θ†: from a file, or a model of everyone's data with the labels changed."""
        o, engine = self.options, self.built.federation.engine
        d = engine.task.d
        self.out.mkdir(parents=True)
        if o.target not in lookup.names("corruption"):
            from troth.attacks import _target

            return _target.read(o.target, d)
        split, data = self.built.data.train, self.built.data
        x = data.x[split.row]
        y = self._wanted(split.y)
        weight = torch.full((len(y),), 1 / len(y), dtype=engine.feed.dtype)
        zero = torch.tensor(0)
        batch = Batch(x, y, weight.to(x.device), zero, zero + 1)
        v = self.built.federation.broadcast.w.clone()
        optimizer = adam()
        moments = optimizer.init(v)
        for _ in range(o.epochs):
            g = engine.task.grad(v, batch)
            v, moments = optimizer.step(v, g, moments, v.new_tensor(o.lr))
        np.save(self.out / "target.npy", v.double().cpu().numpy())
        return v.double().cpu()

    def _saved(self, name: str) -> str:
        own = self.options.target
        return own if own not in lookup.names("corruption") else str(self.out / name)

    def _wanted(self, y: Tensor) -> Tensor:
        """Labels as the attacker wants them."""
        made = lookup.call(
            lookup.find("corruption", self.options.target),
            lookup.check("corruption", self.options.target, {}),
            x=y[:, None],
            y=y,
            classes=self.built.facts["classes"],
        )
        changed: Tensor = made[1]
        return changed

    def _judged(self, rho: Tensor) -> tuple[float, float]:
        """Accuracy on all test data by true labels, and by those that are wanted."""
        engine, data = self.built.federation.engine, self.built.data
        w = rho.to(self.built.federation.broadcast.w)
        with torch.no_grad():
            said = engine.task.predict(w, data.x[data.test.row]).argmax(1)
            if self.options.target in lookup.names("corruption"):
                wanted = self._wanted(data.test.y)
            else:
                goal = self.target.to(w)
                wanted = engine.task.predict(goal, data.x[data.test.row]).argmax(1)
        true = (said == data.test.y).double().mean()
        return float(true), float((said == wanted).double().mean())

    def _head(self, theta: np.ndarray) -> poison.Head:
        """θ♠ as a linear classifier of inputs in units of the data's scale."""
        first = _normalised(self.built)
        facts = self.built.facts
        features, scale = int(np.prod(facts["shape"])), facts["scale"]
        head = poison.head_of(theta, facts["classes"], features)
        mean = first.mean.double().cpu().numpy().reshape(-1) / scale
        std = 1 / first.inverse.double().cpu().numpy().reshape(-1) / scale
        return poison.before(head, mean, std)


def _normalised(built: Built) -> Normalise:
    """How a linear model's inputs are normalised."""
    if built.experiment.model.name != "linear":
        raise Refusal(
            f"data are made for linear models, and this one is "
            f"'{built.experiment.model.name}'; take model.name = 'linear', or stop at "
            "--stage model"
        )
    first = next(built.network.children())
    assert isinstance(first, Normalise)
    return first
