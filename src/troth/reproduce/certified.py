r"""Certified robustness: Figures 1 to 10, curves without printed numbers.

@article{alfarra2022certified,
  title={Certified Robustness in Federated Learning},
  author={Alfarra, Motasem and P{\'e}rez, Juan C. and Shulgin, Egor and
    Richt{\'a}rik, Peter and Ghanem, Bernard},
  journal={arXiv:2206.02535}, year={2022}}
"""

from __future__ import annotations

from troth.reproduce.entry import Entry

_SMALLER = (
    "20 rounds where the paper has 45, 100 images a client, one σ a change "
    "(experiments/certificates)"
)
_STEPS = {"mnist": (20 * 2 * 940, 3_600.0), "cifar10": (20 * 2 * 780, 400_000.0)}
"""Data → client-steps of one training, and seconds on two CPU cores with certifying: a
guess, for none was run."""
_FIGURES = {  # title, runs of the script, and which of them
    1: (
        "Rotation: local, federated and personalized, 4 to 20 clients",
        "mnist_clients",
        "rotation,*[ 12][04] clients, *",  # 4, 10 or 20
    ),
    2: ("Personalization after nominal training", "mnist_nominal", "*"),
    3: ("Affine in the rounds, another change after", "mnist_affine", "*"),
    4: ("Personalization beside local training", "cifar10_nominal", "*"),
    5: ("Mixtures of models, CIFAR-10", "cifar10_mixture", "*"),
    6: (
        "Translation: local, federated and personalized, 4 to 100 clients",
        "mnist_clients",
        "translation, * clients, [fl]*",  # federated or local
    ),
    7: ("100 clients", "mnist_clients", "*, 100 clients, [nl]*"),
    8: ("Every client of 4", "mnist_clients", "*, 4 clients*"),
    9: ("Every client of 10", "mnist_clients", "*, 10 clients*"),
    10: ("Mixtures of models, MNIST", "mnist_mixture", "*"),
}

ENTRIES = tuple(
    Entry(
        f"certified/figure{number}",
        title,
        script=("certificates/run.py", runs),
        results=f"certificates/results/{runs}/{some}.json",
        form="lines",
        note=_SMALLER,
        data=(runs.partition("_")[0],),
        work=_STEPS[runs.partition("_")[0]],
    )
    for number, (title, runs, some) in _FIGURES.items()
)
