"""Attack a federation by gradients, by a model and by data, one run per stage.

ρ is the shared model, θ† the model that the attacker wants it to be, and θ♠ a model of
the attackers that moves ρ to θ†. The paper is Farhadkhani et al. (2022), *An
Equivalence Between Data Poisoning and Byzantine Gradient Attacks*.

References: farhadkhani2022equivalence.
"""

import json
import math
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

import numpy as np
from torch import Tensor

from troth import api, files, lookup
from troth.build import Built, build
from troth.config import reader
from troth.networks import flat, target_model
from troth.poison import craft
from troth.poison.goal import Goal, goal, judged
from troth.runs import train
from troth.runs.load import Run
from troth.runs.train import Watch
from troth.types import Refusal

Stage = Literal["gradient", "model", "data"]
FILE = "stages.csv"
ATTACK = "counter_gradient"


class Options(NamedTuple):
    """Options of the attack.

    Args:
        target: θ†: a .npy file with a vector, or the name of a corruption of labels, on
            which θ† is trained.
        stage: the last stage: gradient, model or data.
        examples: number of poisoned examples of each attacker.
        inputs: inputs of these examples: free, box or clip (`poison.data_attack`).
        labels: labels of these examples: soft, sampled or repeated.
        width: free inputs are drawn from [−width, width] before projection.
        noise: standard deviation of inputs along each normal of the subspace V on
            which θ♠ finds all classes equally likely.
        weight: weight of a poisoned example in the loss. "auto": large enough that the
            attackers' models stay near θ♠.
        start: initial model of the attackers in the stage "data": "shared" (ρ) or
            "model" (θ♠).
        epochs: number of epochs in which θ† is trained.
        lr: learning rate of this training.
    """

    target: str = "shift_labels"
    stage: Stage = "data"
    examples: int = 2000
    inputs: Literal["free", "box", "clip"] = "free"
    labels: Literal["soft", "sampled", "repeated"] = "soft"
    width: float = 1.0
    noise: float = 0.1
    weight: float | Literal["auto"] = "auto"
    start: Literal["shared", "model"] = "shared"
    epochs: int = 100
    lr: float = 0.02


class Reached(NamedTuple):
    """The result of one stage."""

    stage: str
    start: float  # ‖ρ − θ†‖ before the first round
    distance: float  # ‖ρ − θ†‖ after the last round
    accuracy: float  # accuracy of ρ on all test data, by true labels
    aimed: float  # accuracy of ρ on all test data, by the labels the attacker wants
    personal: float  # mean accuracy of the benign clients' own models
    examples: int = 0  # number of poisoned examples
    share: float = 0.0  # their share of all training examples
    largest: float = 0.0  # largest norm of a poisoned input
    weight: float = 0.0  # weight of a poisoned example
    needed: float = 0.0  # least total weight with which any examples can succeed
    enough: float = 0.0  # weight of an example that suffices; infinite if none does


class _Chain(NamedTuple):
    """Values that all stages use."""

    sections: dict[str, Any]
    out: Path
    options: Options
    data_dir: str | None
    watch: Watch | None
    built: Built
    goal: Goal


def chain(
    sections: dict[str, Any],
    out: Path,
    options: Options,
    *,
    data_dir: str | None = None,
    watch: Watch | None = None,
) -> list[Reached]:
    """Attack a coupled federation by gradients, then by a model, then by data.

    In the first stage, the attack `counter_gradient` moves ρ. In the second, attackers
    have a fixed model θ♠ that moves ρ to the same place (Lemma 3). In the third, they
    train honestly on poisoned examples from which they learn θ♠ (Appendix L). Each
    stage is a separate run, and all begin with the same shared model. If the function
    was stopped, call it again with the same folder, and it continues.

    Args:
        sections: an experiment with personalizer `coupled` and an adversary.
        out: folder for `target.npy`, `model.npy`, `poison.npz`, one run per stage, and
            the results as `stages.csv` and `stages.json`.
        options: options of the attack.
        data_dir: folder to search first for data.
        watch: function that is called after every round.

    Returns:
        The results without an attack and after every stage.

    Raises:
        Refusal: the experiment cannot be attacked, or the folder has a chain with other
            settings.
    """
    _check(sections, options)
    settings = {"sections": sections, "options": options._asdict()}
    if (out / files.CHAIN).exists():
        if json.loads((out / files.CHAIN).read_text()) != files.plain(settings):
            raise Refusal(
                f"{out} has an attack chain with other settings; give another folder"
            )
    else:
        files.check_free(out)
    plain = {**sections, "attack": "none", "corruption": "none"}
    built = build(reader.from_dict(plain), data_dir=data_dir, plan=train.UNMEASURED)
    _linear(built, options.stage)
    file = out / "target.npy"
    if file.exists():
        d = built.federation.engine.task.d
        aim = Goal(target_model.read(str(file), d), options.target)
    else:
        aim = goal(built, options.target, options.epochs, options.lr)
        if not out.exists():
            text = json.dumps(files.plain(settings), indent=1)
            files.create(out, files.CHAIN, text)
        np.save(file, aim.target.numpy())
    c = _Chain(sections, out, options, data_dir, watch, built, aim)
    found: list[Reached] = []
    makers = {"none": _none, "gradient": _gradient, "model": _model, "data": _data}
    for stage in _stages(options):
        found.append(_reached(c, stage, makers[stage](c)))
        columns = {key: [getattr(row, key) for row in found] for key in Reached._fields}
        files.write_csv(out / FILE, columns)
        files.write_json((out / FILE).with_suffix(".json"), told(out, found))
    return found


def _stages(options: Options) -> list[str]:
    """Return the stages of a chain, beginning with the one without an attack."""
    return ["none", *files.STAGES[: files.STAGES.index(options.stage) + 1]]


def read(out: Path) -> list[Reached]:
    """Read the results of the stages that have finished."""
    file = (out / FILE).with_suffix(".json")
    if not file.exists():
        raise Refusal(f"no stage of the attack chain {out} has finished")
    stages = json.loads(file.read_text("utf-8"))["stages"]
    found = []
    for stage in stages:
        known: dict[str, Any] = {
            k: math.inf if v is None else v for k, v in stage.items()
        }
        found.append(Reached(**known))
    return found


def told(out: Path, found: list[Reached]) -> dict[str, Any]:
    """Return the results of all stages as a tree for JSON."""
    return {"folder": str(out), "stages": [row._asdict() for row in found]}


def _check(sections: dict[str, Any], options: Options) -> None:
    """Raise Refusal if the experiment cannot be attacked, before any training."""
    e = reader.from_dict(sections)
    if e.personalizer.name != "coupled" or not e.adversary.present():
        raise Refusal(
            "the chain needs personalizer 'coupled' and an adversary; set "
            "personalizer.name = 'coupled' and adversary.count = 1"
        )
    for name, hint in get_type_hints(Options).items():
        lookup.typed(name, getattr(options, name), hint)
    if options.examples < 1:
        raise Refusal(f"examples = {options.examples} must be at least 1")


def _linear(built: Built, stage: str) -> None:
    """Raise Refusal if poisoned examples cannot be made for a federation."""
    name, classes = built.experiment.model.name, built.facts["classes"]
    if not classes:
        raise Refusal(
            "troth poison is for classification, but these data are a regression; use "
            "troth.poison.single_example"
        )
    if stage == "data" and name != "linear":
        raise Refusal(
            f"examples are made for linear models, but this model is '{name}'; take "
            "model.name = 'linear' (with features.name for the features of a network), "
            "or stop at stage 'model'"
        )


class _Made(NamedTuple):
    """An attack as changes of the experiment, and facts about its examples."""

    changes: dict[str, Any]
    summary: tuple[int, float, float] = (0, 0.0, 0.0)  # as in `poison.Summary`
    weight: float = 0.0
    needed: float = 0.0
    enough: float = 0.0


def _none(c: _Chain) -> _Made:
    return _Made({"attack": "none", "corruption": "none"})


def _gradient(c: _Chain) -> _Made:
    """Return the attack `counter_gradient`, with the experiment's options for it."""
    own = c.sections.get("attack", {})
    own = own if isinstance(own, dict) and own.get("name") == ATTACK else {}
    attack = {**own, "name": ATTACK, "target": str(c.out / "target.npy")}
    return _Made({"attack": attack, "corruption": "none"})


def _model(c: _Chain) -> _Made:
    """Return an attack in which attackers keep the model θ♠ and send honest updates."""
    frozen = craft.crafted(c.built, *_ended(c, "gradient"))
    np.save(c.out / "model.npy", frozen.numpy())
    attack = {"name": "frozen_model", "target": str(c.out / "model.npy")}
    return _Made({"attack": attack, "corruption": "none"})


def _data(c: _Chain) -> _Made:
    """Return a corruption with examples from which attackers learn the model θ♠."""
    o = c.options
    made = {k: getattr(o, k) for k in ("inputs", "labels", "noise", "width")}
    weight = None if o.weight == "auto" else o.weight
    model = c.out / "model.npy"
    number, file = o.examples, c.out / "poison.npz"
    taught = craft.teach(c.built, np.load(model), c.goal, number, file, weight, **made)
    changes: dict[str, Any] = {"attack": "none", "corruption": taught.corruption}
    if o.start == "model":
        adversary = c.sections["adversary"]
        changes["adversary"] = {**adversary, "start": str(model)}
    weight = taught.corruption["weight"]
    return _Made(changes, taught.summary, weight, taught.needed, taught.enough)


def _reached(c: _Chain, stage: str, made: _Made) -> Reached:
    """Run the federation with this attack, and return the result."""
    every = _stages(c.options)
    watch = train.numbered(c.watch, every.index(stage) + 1, len(every))
    name = "no attack" if stage == "none" else f"stage {stage}"
    path, tree = c.out / stage, {**c.sections, **made.changes, "name": name}
    if not path.exists():
        api.run(tree, out=path, data_dir=c.data_dir, watch=watch)
    elif not api.finished(path):
        api.resume(path, watch=watch)
    rho, _ = _ended(c, stage)
    start = c.built.federation.broadcast.w.double().cpu()
    far, near = (float((place - c.goal.target).norm()) for place in (start, rho))
    own = Run(path).summary["personal"]["accuracy_mean"]
    true, aimed = judged(c.built, c.goal, rho)
    count = (*made.summary, made.weight, made.needed, made.enough)
    return Reached(stage, far, near, true, aimed, own, *count)


def _ended(c: _Chain, stage: str) -> tuple[Tensor, list[Tensor]]:
    """Return ρ, and the benign clients' own models, after the last round of a stage."""
    run = Run(c.out / stage)
    rho = flat.flatten(run.network()).double()
    honest = np.flatnonzero(~c.built.hostile)
    file = run.path / files.PERSONAL
    return rho, [files.load_model(file, int(k)).double() for k in honest]
