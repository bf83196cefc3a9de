"""Train the figures of the attack-equivalence paper, and of questions it leaves open.

    python experiments/attack_chain/run.py              # all of them
    python experiments/attack_chain/run.py fig1 fig3    # some figures
    python experiments/attack_chain/run.py --only l2sq  # labels that contain this text

Each finished curve is saved in the table of results. Saved curves are not trained
again. Models from which later figures start are saved in `--models`, and are trained
again if they are missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent
sys.path.append(str(ROOT))

import network
import reach
import sums
from attacks import Figure, Work, examples, frozen, gradient
from federations import digits

from troth.reproduce.store import Store

REGULARIZERS = ("l2sq", "l2", "smooth_l2")


def local(work: Work, rounds: int, pace: float) -> dict[str, Any]:
    """Return Fig. 3, in which the honest user's own model is attacked.

    The user takes two steps per round. The server takes gradient steps, as in Section
    5.4, and the attacker knows only ρ. It uses ρ of the previous round, which makes ρ −
    θ swing by −(1 + ηλ) per round (λ as here); a learning rate of 1e-4 keeps this
    small. It also assumes that θ is optimal. Where θ lags behind ρ, ρ overshoots. For
    this reason the attacker takes only a part of the way in each round. The authors'
    40,000 epochs are what their Adam needs to move ρ as far as it must go, to θ† +
    ∇fit(θ†)/(2λ).
    """
    tree = digits(1, 7000, "l2sq", rounds=rounds)
    tree["train"] |= {"steps": 2}
    tree["personalizer"] |= {"report": "after"}
    tree["server"] = {"name": "sgd", "lr": 1e-4}
    options: Any = {"aim": "local", "pace": pace}
    return gradient(work, tree, max(1, rounds // 50), "one user", **options)


def fig1() -> Iterator[Figure]:
    """Yield Figs. 1 and 16: every R, with the server of the theory and the authors'."""
    for regularizer in REGULARIZERS:
        for server in ("adam", "sgd") if regularizer == "l2sq" else ("adam",):
            tree = digits(10, 7000, regularizer, rounds=200)
            knows = "others" if server == "adam" else "history"
            if server == "sgd":  # ∇²(ΣR) = λN
                lam = tree["personalizer"]["lam"]
                tree["server"] = {"name": "sgd", "lr": 1 / (3 * lam * 11)}

            def make(
                work: Work, tree: Any = tree, knows: str = knows
            ) -> dict[str, Any]:
                return gradient(work, tree, 4, "fig1", knows=knows)

            yield Figure("fig1", f"{regularizer}, {server}", make)


def fig2() -> Iterator[Figure]:
    """Yield Fig. 2: attacks by a model and by data, then questions left open."""
    name, tree = "fig2", digits(10, 7000, "l2sq", rounds=250)

    def first(work: Work) -> dict[str, Any]:
        return gradient(work, tree, 5, name, knows="others")

    def second(work: Work) -> dict[str, Any]:
        return frozen(work, tree, 5, name, first)

    yield Figure("fig2", "gradient", first)
    yield Figure("fig2", "model", second)
    authors = {"weight": 1.0, "start": True, "width": 50.0, "noise": 0.01}
    ours = {"weight": None, "start": False, "width": 1.0, "noise": 0.1}

    def third(label: str, rounds: int, number: int, options: Any) -> Figure:
        longer = {**tree, "train": {**tree["train"], "rounds": rounds}}

        def make(work: Work) -> dict[str, Any]:
            every = max(1, rounds // 50)
            return examples(work, longer, every, name, first, number=number, **options)

        return Figure("fig2", label, make)

    for number in (2000, 500, 100, 50, 20, 10, 2):
        yield third(f"data, {number}, as the authors", 250, number, authors)
    yield third("data, 2000, as the authors, 600 epochs", 600, 2000, authors)
    yield third(
        "data, 2000, from the shared start", 250, 2000, {**authors, "start": False}
    )
    yield third("data, 2000, with enough weight", 500, 2000, ours)


def fig20() -> Iterator[Figure]:
    """Fig. 20: two users, images in [0, 1].

    The authors divide their images by the largest value and clip them. `box` draws
    images that are in [0, 1] from the start.
    """
    tree = digits(2, 7000, "l2sq", rounds=300, seed=1)
    name = "fig20"

    def first(work: Work) -> dict[str, Any]:
        return gradient(work, tree, 6, name, knows="others")

    def second(work: Work) -> dict[str, Any]:
        return frozen(work, tree, 6, name, first)

    few: Any = {"number": 2000, "noise": 0.1, "weight": None}
    many: Any = {"number": 100_000, "noise": 0.01, "weight": 1000.0}  # the authors'

    def third(label: str, rounds: int, start: bool, options: Any = few) -> Figure:
        longer = {**tree, "train": {**tree["train"], "rounds": rounds}}
        given = {"inputs": "box", **options, "start": start}

        def make(work: Work) -> dict[str, Any]:
            return examples(work, longer, rounds // 50, name, first, **given)

        return Figure("fig20", label, make)

    yield Figure("fig20", "gradient", first)
    yield Figure("fig20", "model", second)
    yield third("data in [0, 1], 2000, starting at θ♠", 300, True)
    yield third("data in [0, 1], 2000", 600, False)
    yield third("data in [0, 1], 100000, as the authors", 300, True, many)
    clipped = many | {"inputs": "clip"}
    yield third("data clipped to [0, 1], 100000, as the authors", 300, True, clipped)


def fig3() -> Iterator[Figure]:
    """Yield Fig. 3: one honest user, whose own model is attacked."""
    yield Figure("fig3", "a part of the way", lambda work: local(work, 5000, 0.3))
    yield Figure("fig3", "a tenth of the way", lambda work: local(work, 5000, 0.1))


RULES: dict[str, dict[str, Any]] = {
    "sum": {"aggregator": "sum"},
    "median": {"aggregator": "median"},
    "trimmed mean": {"aggregator": {"name": "trimmed_mean", "f": 1}},
    "geometric median": {"aggregator": "geometric_median"},
    "centered clipping": {"aggregator": "centered_clipping"},
    "NNM + trimmed mean": {
        "filter": [{"name": "nnm", "f": 1}],
        "aggregator": {"name": "trimmed_mean", "f": 1},
    },
}


def against(work: Work, regularizer: str, rule: str, form: str) -> dict[str, Any]:
    """Attack a federation with a tenth of the data, for trying all rules."""
    tree = digits(10, 700, regularizer, rounds=200, **RULES[rule])
    lam = tree["personalizer"]["lam"]
    one = 11 if rule == "sum" else 1  # other rules estimate a mean
    tree["server"] = {"name": "sgd", "lr": 1 / (3 * lam * one)}
    tree["train"] |= {"steps": 2}
    if form == "gradient":
        return gradient(work, tree, 30, f"small {regularizer} {rule}", knows="others")
    options = {"weight": None, "start": False, "width": 1.0, "noise": 0.1}
    name = "small l2sq sum"

    def first(work: Work) -> dict[str, Any]:
        return against(work, "l2sq", "sum", "gradient")

    return examples(work, tree, 30, name, first, number=1500, **options)


def plain(work: Work, personalizer: str, rule: str) -> dict[str, Any]:
    """Run the same attack on the updates of federated averaging."""
    known = RULES[rule] if rule != "sum" else {"aggregator": "mean"}
    tree = digits(10, 700, "l2sq", rounds=200, **known)
    tree["train"] = {"rounds": 200, "batch": 50, "steps": 5, "lr": 0.1}
    tree["personalizer"] = {"name": personalizer}
    tree["server"] = {"name": "sgd", "lr": 1.0}
    if personalizer == "ditto":
        tree["personalizer"] |= {"lam": 1.0}
    return gradient(work, tree, 30, "small l2sq sum", knows="others")


def table() -> Iterator[Figure]:
    """Yield every R with every rule, by gradients and by data, and on updates."""
    for form in ("gradient", "data"):
        for regularizer in REGULARIZERS:
            for rule in RULES:

                def make(
                    work: Work,
                    regularizer: str = regularizer,
                    rule: str = rule,
                    form: str = form,
                ) -> dict[str, Any]:
                    return against(work, regularizer, rule, form)

                yield Figure("table", f"{form}, {regularizer}, {rule}", make)
    for personalizer in ("none", "ditto", "local"):
        for rule in RULES:

            def other(
                work: Work, personalizer: str = personalizer, rule: str = rule
            ) -> dict[str, Any]:
                return plain(work, personalizer, rule)

            named = "mean" if rule == "sum" else rule
            yield Figure("table", f"fedavg, {personalizer}, {named}", other)


def figures() -> list[Figure]:
    """Return every curve."""
    own = [*fig1(), *fig2(), *fig20(), *fig3(), *table()]
    return [*own, *sums.figures(), *network.figures(), *reach.figures()]


def main() -> None:
    """Run the command line."""
    every = figures()
    names = list(dict.fromkeys(f.figure for f in every))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("figures", nargs="*", help=", ".join(names))
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", type=Path, default=ROOT / "models")
    parser.add_argument("--out", type=Path, default=ROOT)
    given = parser.parse_args()
    work = Work(given.models.absolute(), given.device)
    work.models.mkdir(parents=True, exist_ok=True)
    store = Store(given.out)
    for figure in every:
        name = f"{figure.figure}/{figure.label}"
        asked = not given.figures or figure.figure in given.figures
        if store.get(name) or not asked or given.only not in figure.label:
            continue
        began = time.perf_counter()
        found = figure.make(work)
        found = {"label": figure.label, **found}
        found |= {"seconds": round(time.perf_counter() - began, 1)}
        found |= {"torch": torch.__version__, "device": given.device}
        store.put(name, found)
        print(name, found["seconds"], "s", flush=True)


if __name__ == "__main__":
    main()
