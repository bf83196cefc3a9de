"""Table 1 of the spurious-features paper, from what its script left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth.reproduce import listing, spurious


def test_the_table_of_shortcuts(tmp_path: Path, put: Any) -> None:
    assert spurious.table1(tmp_path) == {}
    place = tmp_path / "shortcuts"
    for figure, label in (("shared", "mnist"), ("table", "mnist, finetune, 0")):
        for seed, accuracy in enumerate((0.5, 0.75)):
            own = {"accuracy_mean": accuracy}
            both = {"shared": own, "personal": {"accuracy_mean": accuracy / 2}}
            tests = {"tests": {"conflicting": both}}
            said = {"label": label, "seed": seed, "summary": {**both, **tests}}
            put(place, f"{figure}/{label}, seed {seed}", said)
    others = {"label": "mnist, distance alone, 0", "summary": {}}
    put(place, "table/others", others)
    part = "coloured MNIST, CelebA and Coil20"
    assert spurious.table1(tmp_path) == {
        (part, "Global", "MNIST Acc_B"): [0.5, 0.75],
        (part, "Global", "MNIST Acc_BC"): [0.5, 0.75],
        (part, "FT", "MNIST Acc_B"): [0.25, 0.375],
        (part, "FT", "MNIST Acc_BC"): [0.25, 0.375],
    }


def test_figures_along_fine_tuning_are_about_other_things() -> None:
    shows = {n: listing.find(f"spurious/figure{n}").shows for n in (5, 6, 7)}
    assert shows[5] == ("accuracy", "conflicting accuracy")
    assert shows[6] == ("accuracy disparity", "adversarial accuracy gained")
    assert shows[7] == ("loss disparity", "transferability gap")
