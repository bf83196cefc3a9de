"""Train what the page shows, with the options of `choice.json`.

    python experiments/shortcuts/run.py                # all of it, three seeds
    python experiments/shortcuts/run.py table --only mnist
    python experiments/shortcuts/run.py --part 0/4     # every fourth

Needs the shared models of train.py. A finished run is kept in the table of results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import Cell, Changes, main, merged
from problems import (
    PROBLEMS,
    again,
    choice,
    clients,
    marked,
    ours,
    started,
)
from tune import FINETUNE, group_dro

import troth
from troth.runs.load import Run

DITTO: Changes = {"name": "ditto", "lam": 1.0}
UPWEIGHT: Changes = {"name": "upweight", "keep": "accurate", "without": "finetune"}
TOLD = ("change", "l_trans", "angle", "distance", "valid_gain", "confidence")
FACTORS = (0.02, 0.025, 0.033, 0.05, 0.1)  # App. B: conflicting, up-weighted by 1/x
NET = "mnist"  # of federations with malicious clients and App. B
PERSONALIZED = ("mnist", "mnist_fixed", "coil20")  # CelebA: see the page
THREATS: dict[str, Changes] = {
    "none": {},
    "A1": {"adversary": {"fraction": 0.2}},  # random labels
    "A3": {"adversary": {"fraction": 0.2}, "attack": "model_replacement"},
}
RULES: dict[str, Changes] = {
    "mean": {"aggregator": {"name": "mean"}},
    "trimmed_mean": {"aggregator": {"name": "trimmed_mean", "f": 4}},
}
AUDITED: Changes = {"output": {"personal": True}}  # and so the rows say more


def methods(problem: str, found: Changes | None) -> dict[str, Changes]:
    """Every personalizer, with what was chosen; none before."""
    if found is None:
        return {}
    made: dict[str, Changes] = {"finetune": FINETUNE}
    if marked(problem):
        made["upweight"] = UPWEIGHT
        made["group_dro"] = group_dro(found["group_dro"])
    for label in ("transfer", "adversarial alone", "distance alone", "as finetune"):
        w1, w2 = found.get(label, found["transfer"])
        own = {"name": "transfer", "w1": w1, "w2": w2}
        if own not in made.values():  # nor what another rule has chosen, too
            made[label] = own
    return made


def table() -> Iterator[Cell]:
    """Table 1: every method, three seeds of personalization; the first is audited.

    Each is trained twice: once with the model that validation data choose, once with
    the last one.
    """
    for problem in PERSONALIZED:
        base, found = merged(PROBLEMS[problem], ours(problem)), choice().get(problem)
        for label, own in methods(problem, found).items():
            for seed in range(3):
                changes, name = (
                    again(base, own, seed, found["rate"]),
                    f"{problem}, {label}",
                )
                audited = changes | (AUDITED if seed == 0 else {})
                yield Cell("table", f"{name}, {seed}", audited)
                last = merged(changes, {"personalizer": {"keep": "last"}})
                yield Cell("last", f"{name}, {seed}", last)
        if problem.startswith(NET) and found:
            changes = merged(base, {"personalizer": DITTO, **AUDITED, "name": ""})
            yield Cell("ditto", f"{problem}, ditto, 0", changes)


def diversity() -> Iterator[Cell]:
    """Fig. 8: more or fewer conflicting examples to personalize with."""
    base, found = merged(PROBLEMS[NET], ours(NET)), choice().get(NET)
    every = methods(NET, found)
    for factor in FACTORS if every else ():
        other = merged(base, {"data": {"correlation": 1 - factor}})
        for label in ("finetune", "upweight"):
            changes = again(other, every[label], rate=found["rate"])
            yield Cell("fig8", f"{label}, {factor}", changes)


def hostile() -> Iterator[Cell]:
    """Shared models with a fifth of the clients malicious, ten clients per round.

    `local` takes as many steps as personalization, from a random start.
    """
    found = choice().get(NET)
    if not found:
        return
    base = merged(PROBLEMS[NET], ours(NET))
    wide: Changes = {"train": {"cohort": 10}, "engine": {"chunk": 10}}
    pairs = [("none", "mean")]
    pairs += [(threat, rule) for threat in ("A1", "A3") for rule in RULES]
    for threat, rule in pairs:
        own = {**THREATS[threat], **RULES[rule], "name": f"hostile, {threat}, {rule}"}
        changes = merged(merged(base, wide), own)
        yield Cell("hostile", f"{threat}, {rule}, global", changes)
    once = {"rounds": 1, "cohort": 0, "epochs": 0}
    once |= dict(zip(("lr", "steps"), found["rate"], strict=True))
    alone = {**THREATS["A1"], "train": once, "personalizer": "local", "name": ""}
    alone["engine"] = {"chunk": 50}
    yield Cell("hostile", "A1, mean, local", merged(base, alone))


def cells() -> Iterator[Cell]:
    """Yield every run, the longest first."""
    yield from hostile()
    yield from table()
    yield from diversity()


def look(run: Run) -> Changes:
    """Return the clients on conflicting examples, and what an audit says of them."""
    e, said = run.experiment, clients(run)
    if not e.output.personal:
        return said
    found = troth.audit(run).table
    said["audit"] = {
        name: [round(float(v), 5) for v in found[name]]
        for name in ("client", *TOLD, "disparity", "shared_adv_accuracy")
        if name in found
    }
    return said


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), look, given_seed=started)
