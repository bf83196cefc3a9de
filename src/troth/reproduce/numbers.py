"""Numbers that scripts found for a paper's table, one per seed."""

from pathlib import Path
from statistics import mean

from troth.reproduce.store import Store, named

Numbers = dict[tuple[str, str, str], list[float]]
"""(part, row, column) → a number per seed."""


def shortcuts(root: Path) -> Numbers:
    """Table 1 of spurious features; the shared models are those of `train.py`."""
    data_of = {"mnist": "MNIST", "coil20": "Coil20"}  # CelebA needs all identities
    row_of = {"finetune": "FT", "upweight": "UW", "transfer": "Ours"}
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for figure, whose in (("shared", "shared"), ("table", "personal")):
        for said in named(root, f"shortcuts/{figure}/*"):
            data, _, rest = said["label"].partition(", ")
            row = "Global" if figure == "shared" else row_of.get(rest.split(", ")[0])
            if data not in data_of or not row:
                continue
            summary = said["summary"]
            tests = {"B": summary, "BC": summary["tests"]["conflicting"]}
            for test, part in tests.items():
                column = f"{data_of[data]} Acc_{test}"
                at = ("coloured MNIST, CelebA and Coil20", row, column)
                runs = found.setdefault(at, {})  # a seed has several settings
                value = float(part[whose]["accuracy_mean"])
                runs.setdefault(said["seed"], []).append(value)
    return {at: [*map(mean, runs.values())] for at, runs in found.items()}


def sums(root: Path) -> Numbers:
    """Table 1 of attack equivalence: accuracies at the end of training, λ = 1."""
    rows = {"idle user's model": "idle", "active user's model": "own"}
    rows |= {"global model": "shared"}
    found, store = {}, Store(root / "attack_chain")
    for sign, fit in (("E", "mean"), ("Σ", "sum")):
        for model, name in (("linear", "linear"), ("network", "MLP")):
            curves = store.get(f"sums/{name}, {fit}, λ=1.0") or {}
            for row, key in rows.items():
                if key in curves:
                    at = ("noisy Fashion-MNIST", row, f"{sign} {model}")
                    found[at] = [float(curves[key][-1])]
    return found
