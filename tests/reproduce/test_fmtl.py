"""FMTL's tables and figures."""

from __future__ import annotations

from statistics import mean

from troth.reproduce import listing, papers
from troth.reproduce.entry import Cell, experiment

RULES = ("median", "Krum", "multi-Krum", "clipping", "k-norm", "k-loss")


def cells(name: str) -> list[Cell]:
    return listing.find(f"fmtl/{name}").everywhere()


def printed(name: str) -> papers.Printed:
    found = papers.table("fmtl", name)
    assert found is not None
    return found


def test_table_3_is_apfl_beside_fmtl() -> None:
    found = cells("table3")
    assert len(found) == 56
    own = {
        cell.row: {tree["personalizer"].get("alpha") for tree in cell.choices}
        for cell in found
        if cell.row.startswith("APFL")
    }
    assert own == {f"APFL, α={alpha}": {alpha} for alpha in (0.3, 0.5, 0.8)}
    for cell in found:
        (tree,) = cell.choices
        assert cell.federation.data == "vehicle"
        assert (cell.column == "clean") == ("adversary" not in tree)
        if cell.row.startswith("FMTL"):
            lam = float(cell.row.rpartition("=")[2])
            assert tree["personalizer"] == {"name": "ditto", "lam": lam}
        if cell.row.startswith("APFL"):
            attack = "model_replacement" if cell.column.startswith("A3") else None
            assert tree["personalizer"]["name"] == "apfl"
            assert tree.get("attack") == attack


def test_rows_of_table_4_are_the_best_of_three() -> None:
    found = cells("table4")
    assert len(found) == 16
    names = {"L2SGD": "l2sgd", "EWC": "ewc", "FMTL": "ditto"}
    for cell in found:
        if cell.row == "global":
            assert len(cell.choices) == 1 and cell.whose == ("shared",)
            continue
        method, _, best = cell.row.partition(", ")
        lams = {tree["personalizer"]["lam"] for tree in cell.choices}
        assert best == "best λ" and len(lams) == len(cell.choices) == 3
        assert {t["personalizer"]["name"] for t in cell.choices} == {names[method]}
        for tree in cell.choices:  # what is not chosen differs in nothing else
            assert {**tree, "personalizer": 0} == {**cell.choices[0], "personalizer": 0}
            assert experiment(tree, 0).partition.split[1] > 0  # to choose by


def test_figure_3_is_the_strongest_rules_of_two_tables() -> None:
    """FMTL, the global model and three defences, by the paper's own numbers."""
    found = cells("figure3")
    assert len(found) == 70
    parts = [*printed("table5").parts, *printed("table6").parts]
    scores = {
        rule: mean(v.mean for part in parts for v in part.rows[rule] if v)
        for rule in RULES
    }
    strongest = sorted(scores, key=lambda rule: -scores[rule])[:3]
    assert {cell.row for cell in found} == {"global", "FMTL, λ=0.1", *strongest}
    whole = {cell.label: cell for cell in [*cells("table5"), *cells("table6")]}
    assert all(whole[cell.label] == cell for cell in found)
    assert {cell.part for cell in found} == {"Vehicle", "FEMNIST"}
    assert all(listing.find("fmtl/figure3").theirs(cell) for cell in found)


def test_fmtl_is_ditto_and_keeps_its_name() -> None:
    whole = [cell for name in ("table5", "table6", "table7") for cell in cells(name)]
    rows = {(cell.part, cell.row) for cell in whole if cell.row.startswith("FMTL")}
    for part, lams in {"Vehicle": "0.1 1 2", "FEMNIST": "0.01 0.1 1"}.items():
        own = {row for where, row in rows if where == part}
        assert own == {f"FMTL, λ={lam}" for lam in lams.split()}
    assert not any(cell.row.startswith("Ditto") for cell in whole)


def test_figure_2_has_variances() -> None:
    entry = listing.find("fmtl/figure2")
    assert entry.form == "scatter"
    assert {"shared, std", "personal, std"} < {*entry.shows}
