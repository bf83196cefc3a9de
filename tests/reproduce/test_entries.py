"""Every table and figure that the papers have, and the cells that make them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from troth import catalogue, config
from troth.reproduce import digests, kept, listing, rows, settings
from troth.reproduce.entry import Entry, chosen, experiment, key, merged
from troth.types import Refusal

ROOT = Path(__file__).parents[2] / "experiments"
WANTED = {
    *(f"ditto/table{n}" for n in range(2, 12)),
    *(f"ditto/figure{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9)),
    *(f"fmtl/table{n}" for n in (1, 3, 4, 5, 6, 7)),
    *(f"fmtl/figure{n}" for n in range(1, 5)),
    "spurious/table1",
    *(f"spurious/figure{n}" for n in range(4, 9)),
    *(f"certified/figure{n}" for n in range(1, 11)),
    "equivalence/table1",
    *(f"equivalence/figure{n}" for n in range(1, 21)),
}
ENTRIES = listing.entries()
CELLS = [entry for entry in ENTRIES.values() if entry.cells]


def test_all_of_them_are_there() -> None:
    assert {*ENTRIES} == WANTED


def test_every_entry_can_be_run() -> None:
    for entry in ENTRIES.values():
        assert entry.title
        assert bool(entry.cells) != bool(entry.script)
        if entry.script:
            assert (ROOT / entry.script[0]).exists()
        assert entry.settings or entry.data or entry.name.startswith("ditto/figure")


@pytest.mark.parametrize("entry", CELLS, ids=lambda entry: entry.name)
def test_cells_are_experiments_with_names_of_their_own(entry: Entry) -> None:
    for cells in (entry.everywhere(), entry.at("small")):
        labels = [cell.label for cell in cells]
        assert len({*labels}) == len(labels)
        for cell in cells[:: max(1, len(cells) // 12)]:
            for tree in cell.choices:
                e = experiment(tree, 0)
                assert e.data.name and (len(cell.choices) == 1 or _validates(e))


def _validates(e: object) -> bool:
    """Whether there are validation data to choose by."""
    split = e.partition.split  # type: ignore[attr-defined]
    valid = e.partition.valid  # type: ignore[attr-defined]
    return bool(valid) if split == "given" else split[1] > 0


@pytest.mark.parametrize("entry", CELLS, ids=lambda entry: entry.name)
def test_a_whole_table_has_a_cell_for_every_number(entry: Entry) -> None:
    """But for what the entry's note says is not run."""
    printed, cells = entry.printed, entry.everywhere()
    if printed is None or "figure" in entry.name:
        return
    there = {(cell.part, cell.row, cell.column) for cell in cells}
    every = {
        (part.data, row, column)
        for part in printed.parts
        for row, values in part.rows.items()
        for column, value in zip(part.columns, values, strict=True)
        if value is not None
    }
    assert there <= every
    left = {column for _, _, column in every - there}
    assert all("CelebA" in column for column in left)


def test_hostile_clients_are_those_of_the_authors() -> None:
    fashion = settings.FASHION.original
    tree = rows.threat(fashion, "A3 20%")
    committed = ROOT / "fashion_ditto/results/table/Ditto λ=1.0, A3 20%, seed 0.json"
    assert tree == {
        key_: value
        for key_, value in json.loads(committed.read_text())["changes"].items()
        if key_ in ("adversary", "attack")
    }
    assert rows.threat(fashion, "clean") == {}
    assert [rows.hostile(23, share) for share in (0.1, 0.2, 0.5, 0.8)] == [3, 5, 11, 18]
    assert [rows.hostile(500, share) for share in (0.1, 0.2, 0.8)] == [50, 100, 400]


def test_local_models_do_not_see_how_others_attack() -> None:
    cells = {c.label: c for c in ENTRIES["ditto/table8"].everywhere()}
    three = [cells[f"Fashion MNIST: local / A{k} 20%"].choices[0] for k in (1, 2, 3)]
    assert three[0] == three[1] == three[2]
    shared = cells["Fashion MNIST: global / A3 50%"]
    ditto = cells["Fashion MNIST: Ditto, λ=1 / A3 50%"]
    assert shared.choices == ditto.choices and shared.whose == ("shared",)


@pytest.mark.parametrize(
    ("column", "strong"),
    [("clean", False), ("A1 50%", False), ("A1 80%", True), ("A3 10%", True)],
)
def test_strong_attacks(column: str, strong: bool) -> None:
    assert rows.strong(column) == strong


def test_committed_results_are_of_the_very_cells_that_point_at_them() -> None:
    """The experiment that a file says it is of is the cell's, key by key."""
    shelf, seen = kept.Shelf(None, ROOT), 0
    aside = ("engine", "output", "resolved", "name", "checkpoint")
    for entry in CELLS:
        for cell in entry.everywhere():
            for choice, pattern in enumerate(cell.kept):
                result = shelf.find(cell, choice, 0)
                if result is None:
                    continue
                seen += 1
                own = config.to_dict(experiment(cell.choices[choice], 0))
                theirs = _experiment(ROOT / pattern.format(seed=0))
                for name in own.keys() - {*aside, "evaluate"}:
                    assert own[name] == theirs[name], (cell.label, name)
    assert seen > 80


def _experiment(file: Path) -> dict[str, object]:
    if file.name == "summary.json":
        tables = [t for _, t in config.expand(config.read(_base(file)))]
        wanted = file.parent.name
        for changed, tree in config.expand(config.read(_base(file))):
            if config.label(changed) == wanted:
                return config.to_dict(config.from_dict(tree))
        raise AssertionError((file, len(tables)))
    said = json.loads(file.read_text())
    folder = ROOT / file.relative_to(ROOT).parts[0]
    base = next(
        f for f in (folder / "base.toml", folder / "experiment.toml") if f.exists()
    )
    tree = {k: v for k, v in config.read(base).items() if k != "grid"}
    whole = merged(tree, {**said["changes"], "seed": said["seed"]})
    return config.to_dict(config.from_dict(whole))


def _base(file: Path) -> Path:
    return ROOT / "natural" / f"{file.parent.parent.name}.toml"


def test_unknown_targets_name_the_nearest() -> None:
    with pytest.raises(Refusal, match="nearest are .*ditto/table8"):
        listing.find("ditto/tabel8")
    with pytest.raises(Refusal, match="nearest are ditto/table8"):
        listing.find("Ditto/TABLE8 ")
    with pytest.raises(Refusal, match="nearest are fmtl/table1, fmtl/table3"):
        listing.find("fmtl")
    with pytest.raises(Refusal, match="troth reproduce lists all of them"):
        listing.find("resnet")


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


def test_what_stands_in_never_has_the_name_of_the_original() -> None:
    every = [s for entry in ENTRIES.values() for s in entry.settings]
    for setting in every:
        other = setting.stand_in
        if other is not None:
            assert other.kind == "stand-in" and other.name != setting.original.name
            assert setting.original.kind == "original"


def test_the_code_that_matters() -> None:
    """Other members do not count, and neither do comments; what is used does."""
    tree = settings.SMALL.tree
    plain, krum = experiment(tree, 0), experiment({**tree, "aggregator": "krum"}, 0)
    assert digests.code(plain) == digests.code(experiment(tree, 1))
    assert digests.code(plain) != digests.code(krum)
    assert key(tree, 0) != key(tree, 1)
    assert key(tree, 0) == key({**tree, "engine": {"how": "loop"}}, 0)


def test_digests_do_not_see_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    import ast

    texts = {
        "plain": "def f(x):\n    return x + 1\n",
        "said": 'def f(x):\n    """What."""\n    return x + 1  # why\n',
        "other": "def f(x):\n    return x + 2\n",
    }
    monkeypatch.setattr(digests, "_parsed", lambda module: ast.parse(texts[module]))
    digest = {name: digests._digest.__wrapped__(name) for name in texts}
    assert digest["other"] != digest["plain"]
    assert digest["said"] != digest["other"]
