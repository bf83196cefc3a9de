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
_DIGITS = "on MNIST with a small CNN where the paper has CIFAR-10 and ResNet18"
_APART = {
    1: "CIFAR-10 with 10 clients, 4 and 20 on MNIST with a small CNN alone",
    3: _DIGITS,
    5: "rotation alone; translation is among MNIST's mixtures (Figure 10)",
    6: f"{_DIGITS}; 20 and 100 clients besides",
    7: _DIGITS,
    8: _DIGITS,
    9: _DIGITS,
    10: "MNIST alone, with a small CNN; the paper has noise on CIFAR-10 too",
}
"""Figure → what of it is on other data, or left out."""
_STEPS = {"mnist": (20 * 2 * 940, 3_600.0), "cifar10": (20 * 2 * 780, 400_000.0)}
"""Data → client-steps of one training, and seconds on two CPU cores with certifying, a
guess."""
_ALONE = "{}_mixture/{}, λ=1.0*"  # local training of ten clients
_FIGURES: dict[int, tuple[str, tuple[str, ...], dict[str, int]]] = {
    # title, which runs of the script, and how many trainings these are
    1: (
        "Rotation: local, federated and personalized, 4 to 20 clients",
        (
            "mnist_clients/rotation,*[ 12][04] clients, *",  # 4, 10 or 20
            _ALONE.format("mnist", "rotation"),
            "cifar10_federated/*",
            _ALONE.format("cifar10", "rotation"),
        ),
        {"mnist": 6, "cifar10": 2},
    ),
    2: (
        "Personalization after nominal training",
        ("mnist_nominal/*", "cifar10_nominal/*"),
        {"mnist": 1, "cifar10": 1},
    ),
    3: (
        "Affine in the rounds, another change after",
        ("mnist_affine/*",),
        {"mnist": 1},
    ),
    4: (
        "Personalization beside local training",
        (
            "mnist_nominal/*",
            _ALONE.format("mnist", "*"),
            "cifar10_nominal/*",
            _ALONE.format("cifar10", "*"),
        ),
        {"mnist": 4, "cifar10": 4},
    ),
    5: (
        "Mixtures of models, CIFAR-10",
        ("cifar10_mixture/rotation, *", "cifar10_federated/*"),
        {"cifar10": 5},
    ),
    6: (
        "Translation: local, federated and personalized, 4 to 100 clients",
        (
            "mnist_clients/translation, * clients, [fl]*",  # federated or local
            _ALONE.format("mnist", "translation"),
        ),
        {"mnist": 8},
    ),
    7: ("100 clients", ("mnist_clients/*, 100 clients, [nl]*",), {"mnist": 4}),
    8: ("Every client of 4", ("mnist_clients/*, 4 clients*",), {"mnist": 4}),
    9: (
        "Every client of 10",
        ("mnist_clients/*, 10 clients*", _ALONE.format("mnist", "*")),
        {"mnist": 6},
    ),
    10: (
        "Mixtures of models, MNIST",
        ("mnist_mixture/*", "mnist_readings/*", "mnist_clients/*, 10 clients*"),
        {"mnist": 24},
    ),
}


EVERY = "every client"
"""In `Entry.shows`: a panel a way of training, a line a client."""
_CLIENTS = (8, 9)
"""Figures that have a line a client."""
_NUMBERS = ("certified at 0", "at half of the radii", "average radius")


def _work(trainings: dict[str, int]) -> tuple[int, float]:
    """Client-steps and seconds of so many trainings by data set."""
    each = [(n, *_STEPS[data]) for data, n in trainings.items()]
    return sum(n * steps for n, steps, _ in each), sum(n * time for n, _, time in each)


ENTRIES = tuple(
    Entry(
        f"certified/figure{number}",
        title,
        script=(
            "certificates/run.py",
            *dict.fromkeys(some.partition("/")[0] for some in runs),
        ),
        results=tuple(f"certificates/{some}" for some in runs),
        form="lines",
        shows=(EVERY, *(f"personal, {what}" for what in _NUMBERS))
        if number in _CLIENTS
        else (),
        note="; ".join([*([_APART[number]] if number in _APART else []), _SMALLER]),
        data=tuple(trainings),
        work=_work(trainings),
    )
    for number, (title, runs, trainings) in _FIGURES.items()
)
