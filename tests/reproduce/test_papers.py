"""The papers' numbers: whole, and in agreement with themselves where they repeat."""

from collections import Counter

from troth.reproduce import papers
from troth.reproduce.papers import Value

TABLES = [
    (paper, name) for paper in papers.PAPERS for name in papers.read(paper)["tables"]
]


def test_every_row_is_as_long_as_the_head():
    for paper, name in TABLES:
        printed = papers.table(paper, name)
        assert printed.where.startswith("Table ")
        for part in printed.parts:
            assert part.rows and len({*part.columns}) == len(part.columns)
            assert {*map(len, part.rows.values())} == {len(part.columns)}
            known = [v for values in part.rows.values() for v in values if v]
            assert all(0 <= v.mean <= 1 for v in known), name
            assert all(v.std is None or 0 <= v.std <= 0.5 for v in known), name


def test_how_many_numbers_there_are():
    """As many as the text of the papers has in all its tables of results."""
    counts = Counter()
    for paper, name in TABLES:
        for part in papers.table(paper, name).parts:
            counts[paper] += sum(map(len, part.rows.values()))
    assert counts == {"ditto": 1092, "fmtl": 380, "spurious": 32, "equivalence": 12}


def part(name, data, paper="ditto"):
    (found,) = (one for one in papers.table(paper, name).parts if one.data == data)
    return found


def test_some_cells_by_hand():
    table8 = part("table8", "Fashion MNIST")
    assert table8.at("global", "A3 20%") == Value(0.551, 0.13)
    assert table8.at("Ditto, λ=1", "clean") == Value(0.946, 0.06)
    assert table8.at("k-loss", "A1 80%") == Value(0.851, 0.31)
    assert table8.at("Ditto, λ=2", "A3 50%") == Value(0.606, 0.14)
    assert part("table4", "Vehicle").at("dynamic λ's", "A2 80%") == Value(0.848, 0.04)
    fmtl = part("table6", "FEMNIST", "fmtl")
    assert fmtl.at("FMTL, λ=1", "A3 20%") == Value(0.609, 0.33)
    noisy = part("table1", "noisy Fashion-MNIST", "equivalence")
    assert noisy.at("global model", "E network") == Value(0.58, None)
    colours = part("table1", "coloured MNIST, CelebA and Coil20", "spurious")
    assert colours.at("Ours", "MNIST Acc_BC") == Value(0.870, None)
    assert colours.at("UW", "Coil20 Acc_B") is None


def test_what_the_paper_prints_twice_is_the_same():
    """Tables 2 and 4 repeat rows of 7 and 8; one cell is known to differ in print."""
    whole, few = part("table8", "Fashion MNIST"), part("table2", "Fashion")
    for row, same in (
        ("global", "global"),
        ("local", "local"),
        ("fair", "fair (TERM, t=1)"),
    ):
        assert whole.rows[row] == few.rows[same]
    femnist, again = part("table7", "FEMNIST"), part("table2", "FEMNIST")
    pairs = {
        c: (femnist.at("global", c), again.at("global", c)) for c in femnist.columns
    }
    assert [c for c, (a, b) in pairs.items() if a != b] == ["A3 20%"]  # .364 and .314
    assert part("table4", "FEMNIST").rows["dynamic λ's"] == again.rows["Ditto"]


def test_printed_values():
    assert papers.value("0.911 (.08)") == Value(0.911, 0.08)
    assert papers.value(".852") == Value(0.852, None)
    assert papers.value("N/A") is papers.value("") is None
