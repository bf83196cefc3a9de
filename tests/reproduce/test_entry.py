"""Which cells of an entry, and what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from troth import catalogue
from troth.reproduce import listing
from troth.reproduce.entry import chosen
from troth.types import Refusal

ENTRIES = listing.entries()


def test_cells_by_pattern() -> None:
    entry = ENTRIES["ditto/table8"]
    cells = entry.everywhere()
    assert len(chosen(entry, cells, [])) == 140
    assert len(chosen(entry, cells, ["Ditto, λ=1"])) == 10
    assert len(chosen(entry, cells, ["A1 50%"])) == 14
    assert len(chosen(entry, cells, ["Ditto* / A1*", "global / clean"])) == 10
    with pytest.raises(Refusal, match=r"no cell 'Dito, λ=1' \(did you mean 'Ditto, λ"):
        chosen(entry, cells, ["clean", "Dito, λ=1"])


def test_full_scale_without_the_data_says_which_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if catalogue.entry("fashion_mnist").place is not None:
        pytest.skip("Fashion-MNIST comes with this system")
    with pytest.raises(Refusal, match="train-images.*--scale small|--scale.*train-im"):
        ENTRIES["ditto/table8"].at("full")
    with pytest.raises(Refusal, match="mytrain.json"):
        ENTRIES["ditto/table6"].at("full")
    assert len(ENTRIES["ditto/table8"].at("small")) == 140


def test_parts_whose_data_are_here_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "vehicle").mkdir()
    (tmp_path / "vehicle" / "mytrain.json").touch()
    table4 = ENTRIES["ditto/table4"]
    cells = table4.at("full", None, ["Vehicle: best λ / *"])
    assert len(cells) == 10 and {c.federation.kind for c in cells} == {"stand-in"}
    with pytest.raises(Refusal, match="stackoverflow.*--cells chooses others"):
        table4.at("full", None, ["StackOverflow"])
    (tmp_path / "vehicle" / "mytest.json").touch()
    (cell,) = table4.at("full", None, ["Vehicle: best λ / clean"])
    assert cell.federation.kind == "original"
