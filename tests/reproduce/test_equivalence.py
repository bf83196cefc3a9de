"""Table 1 of the attack-equivalence paper, from what its script left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth.reproduce import equivalence, listing


def test_the_table_of_sums(tmp_path: Path, put: Any) -> None:
    assert equivalence.table1(tmp_path) == {}
    curves = {"shared": [0.1, 0.8], "idle": [0.1, 0.7], "own": [0.1, 0.6]}
    put(tmp_path / "attack_chain", "sums/linear, sum, λ=1.0", curves)
    found = equivalence.table1(tmp_path)
    printed = listing.find("equivalence/table1").printed
    assert printed is not None and len(found) == 3
    for (part, row, column), (value,) in found.items():
        theirs = printed.part(part).at(row, column)
        assert theirs is not None and column == "Σ linear"
        assert abs(theirs.mean - value) < 0.3
    assert found["noisy Fashion-MNIST", "idle user's model", "Σ linear"] == [0.7]


def test_figures_are_about_what_their_captions_say() -> None:
    shows = {n: listing.find(f"equivalence/figure{n}").shows for n in (1, 2, 3, 16)}
    assert shows[1] == ("accuracy by true labels",)
    assert shows[2] == ("distance to target", "accuracy by wanted labels")
    assert shows[3] == ("honest users' own, by wanted labels",)
    assert shows[16] == ("norm", "distance to target")
