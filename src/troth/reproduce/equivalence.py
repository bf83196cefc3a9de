r"""Attack equivalence: Figures 1 to 20 and Table 1.

@inproceedings{farhadkhani2022equivalence,
  title={An Equivalence Between Data Poisoning and Byzantine Gradient Attacks},
  author={Farhadkhani, Sadegh and Guerraoui, Rachid and Hoang, L{\^e}-Nguy{\^e}n and
    Villemaud, Oscar},
  booktitle={ICML}, year={2022}}
"""

from __future__ import annotations

from pathlib import Path

from troth.reproduce.entry import Entry
from troth.reproduce.store import Store

_NOISY = "noisy Fashion-MNIST"
_FITS = {"E": "mean", "Σ": "sum"}
_MODELS = {"linear": "linear", "network": "MLP"}
_ROWS = {
    "idle user's model": "idle",
    "active user's model": "own",
    "global model": "shared",
}


_WORK: dict[str, tuple[tuple[str, ...], int, float]] = {
    "fig1": (("mnist",), 4 * 200 * 11, 1_200.0),
    "fig2": (("mnist",), 11 * (11 * 250 + 350), 5_000.0),
    "fig3": (("mnist",), 5000 * 2 * 2, 600.0),
    "fig20": (("mnist",), (300 + 300 + 600) * 3, 400.0),
    "sums": (("fashion_mnist",), 20 * 200 * 11, 20_000.0),
    "clean": (("fashion_mnist",), 2 * (1000 + 2000) * 11, 6_000.0),
    "network": (("cifar10",), 3000 * 11, 100_000.0),
}
"""Figure of the script → data, client-steps (of all a user has), and seconds on two CPU
cores: those of the curves that were run, times how many there are; else a guess."""


def _entry(
    name: str, title: str, figure: str, *shows: str, form: str = "lines", **more: str
) -> Entry:
    """A figure that `experiments/attack_chain/run.py` makes, and what it is about."""
    data, steps, seconds = _WORK[figure]
    return Entry(
        f"equivalence/{name}",
        title,
        script=("attack_chain/run.py", figure),
        results=(f"attack_chain/{figure}/{more.get('only', '')}*",),
        form="table" if form == "table" else "lines",
        shows=shows,
        note=more.get("note", ""),
        data=data,
        work=(steps, seconds),
    )


def table1(experiments: Path) -> dict[tuple[str, str, str], list[float]]:
    """Accuracies at the end of training, of λ = 1."""
    found, store = {}, Store(experiments / "attack_chain")
    for sign, fit in _FITS.items():
        for model, name in _MODELS.items():
            curves = store.get(f"sums/{name}, {fit}, λ=1.0") or {}
            for row, key in _ROWS.items():
                if key in curves:
                    found[_NOISY, row, f"{sign} {model}"] = [float(curves[key][-1])]
    return found


_AIMED, _TRUE, _NEAR = (
    "accuracy by wanted labels",
    "accuracy by true labels",
    "distance to target",
)
_OWN = "honest users' own, by wanted labels"
_THREE = ("global model", "idle users' models", "active user's model")
_LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)

ENTRIES = (
    _entry("figure1", "Counter-gradient against ℓ2² and ℓ2: accuracy", "fig1", _TRUE),
    _entry("figure2", "A model attack, and poisoned data", "fig2", _NEAR, _AIMED),
    _entry("figure3", "The attack on local models", "fig3", _OWN),
    *(
        _entry(
            f"figure{4 + 2 * k + m}",
            f"Sum and expectation: {name}, λ = {lam:g}",
            "sums",
            *_THREE,
            only=f"{name}, *λ={lam}",
        )
        for k, lam in enumerate(_LAMBDAS)
        for m, name in enumerate(_MODELS.values())
    ),
    *(
        _entry(
            f"figure{n}",
            f"The same without noise: {name}",
            "clean",
            *_THREE,
            only=f"{name}, ",
        )
        for n, name in ((14, "linear"), (15, "MLP"))
    ),
    _entry(
        "figure16",
        "Counter-gradient: norms and distances",
        "fig1",
        "norm",
        _NEAR,
        note="the distance to the first model, which the paper has too, was not kept",
    ),
    *(
        _entry(
            f"figure{n}",
            f"{title}, CIFAR-10's last layer",
            "network",
            *(_NEAR, "norm", _TRUE, _AIMED),
            only=only,
        )
        for n, title, only in (
            (17, "Counter-gradient", "gradient"),
            (18, "The model attack", "model"),
            (19, "Data poisoning", "data"),
        )
    ),
    _entry(
        "figure20",
        "Data poisoning with images in [0, 1]",
        "fig20",
        _AIMED,
        _NEAR,
        note="100,000 examples that count 1,000 times each, as the authors took, and "
        "2,000 besides",
    ),
    _entry(
        "table1", "Sum and expectation, λ = 1", "sums", *_THREE, form="table"
    )._replace(numbers=table1, own="Fashion-MNIST with noisy labels"),
)
