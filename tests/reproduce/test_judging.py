"""The rule, and what tables make of it."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.reproduce import drawing, headlines, judging, listing, tables
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.kept import Result
from troth.reproduce.settings import FASHION, SMALL

TABLE8 = listing.find("ditto/table8")


@pytest.mark.parametrize(
    ("difference", "error", "verdict"),
    [
        (0.02, 0.0, "reproduced"),
        (-0.02, 0.0, "reproduced"),
        (0.021, 0.0, "better"),
        (-0.021, 0.0, "worse"),
        (0.03, 0.015, "reproduced"),
        (0.0301, 0.015, "better"),
        (-0.5, math.nan, "worse"),
        (math.nan, 0.0, ""),
    ],
)
def test_the_rule(difference: float, error: float, verdict: str) -> None:
    assert judging.verdict(difference, error) == verdict


@given(st.floats(-1, 1), st.floats(0, 1))
def test_the_verdict_turns_with_the_sign(difference: float, error: float) -> None:
    other = {"better": "worse", "worse": "better"}
    found = judging.verdict(difference, error)
    assert judging.verdict(-difference, error) == other.get(found, found)


def cell(row: str = "global", column: str = "clean", small: bool = False) -> Cell:
    f = SMALL if small else FASHION.original
    return Cell("Fashion MNIST", row, column, (f.tree,), f, whose=("shared",))


def result(mean: float, std: float = 0.1) -> Result:
    shared = {"accuracy_weighted": mean, "accuracy_std": std, "accuracy_mean": 0.0}
    summary: dict[str, Any] = {"clients": 500, "malicious": 100, "shared": shared}
    return Result(Path("x.json"), {"summary": summary})


def test_one_seed_is_judged_by_its_clients() -> None:
    found = judging.judge(TABLE8, cell(), [result(0.93, 0.4)])
    assert found.error == pytest.approx(0.4 / 20) and math.isnan(found.spread)
    assert found.difference == pytest.approx(0.019) and found.verdict == "reproduced"
    assert judging.judge(TABLE8, cell(), [result(0.8)]).verdict == "worse"


def test_several_seeds_are_judged_by_their_spread() -> None:
    found = judging.judge(TABLE8, cell(), [result(0.85), result(0.95), result(0.99)])
    assert (found.mean, found.seeds) == (pytest.approx(0.93), 3)
    assert found.spread == pytest.approx(math.sqrt(0.0104 / 2))
    assert found.error == pytest.approx(found.spread / math.sqrt(3))
    assert found.verdict == "reproduced"
    even = judging.judge(TABLE8, cell(), [result(0.95), result(0.95)])
    assert even.error == 0 and even.verdict == "better"


def test_other_data_are_not_judged() -> None:
    small = judging.judge(TABLE8, cell(small=True), [result(0.911)])
    assert small.verdict == "not judged" and small.theirs is not None
    assert judging.judge(TABLE8, cell(), []).verdict == ""
    assert judging.share([small]) == (0, 0)


def judged(rows: dict[str, float], column: str = "clean") -> list[judging.Judged]:
    return [
        judging.judge(TABLE8, cell(row, column), [result(mean)])
        for row, mean in rows.items()
    ]


def test_the_order_of_methods() -> None:
    same = judged({"global": 0.5, "local": 0.4, "Ditto, λ=1": 0.6})
    assert judging.order(same) == {"clean": pytest.approx(1.0)}
    other = judged({"global": 0.5, "local": 0.9, "Ditto, λ=1": 0.4})
    assert judging.order(other)["clean"] == pytest.approx(-1.0)
    assert judging.order(same[:2]) == {}
    parts = [one._replace(cell=one.cell._replace(part="Q")) for one in other]
    both = judging.order([*same, *parts])
    assert both["Fashion MNIST, clean"] > 0.9 and both["Q, clean"] < -0.9


def test_a_table_in_three_forms() -> None:
    found = [
        judging.judge(TABLE8, cell("global"), [result(0.92), result(0.90)]),
        *judged({"Ditto, λ=1": 0.80}),
        *judged({"global": 0.855}, "A1 50%"),
        judging.judge(TABLE8, cell("local"), []),
    ]
    text = tables.markdown(TABLE8, found)
    assert "| global | .910 (.10) ±.014 [.911 (.08), −.001] = | .855 (.10) [" in text
    assert "| Ditto, λ=1 | .800 (.10) [.946 (.06), −.146] ↓ |  |" in text
    assert "| local | [.876 (.10)] |  |" in text
    assert "Reproduced: 2 of 3 cells judged." in text and "Table 8" in text
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert len(lines) == 4 and lines[1]["verdict"] == "worse"
    assert float(lines[0]["ours"]) == pytest.approx(0.91) and lines[3]["ours"] == ""
    latex = tables.latex(TABLE8, found)
    assert r"A1 50\%" in latex and r"$\lambda$=1" in latex
    assert latex.count("{tabular}") == 2 and latex.count(r" \\") == 4
    assert tables.as_csv([]) == "\n"


def test_words_of_small_and_missing_numbers() -> None:
    assert tables.number(0.0004) == ".000" and tables.number(1.0) == "1.000"
    assert tables.number(-0.0316, sign=True) == "−.032"
    assert tables.number(math.nan) == "–" and tables.short(None) == "–"


@pytest.mark.parametrize("form", ["lines", "scatter"])
def test_figures_in_two_forms(form: Any, tmp_path: Path) -> None:
    columns = ("clean", "A1 20%", "A1 50%", "A3 10%")
    found = [one for c in columns for one in judged({"global": 0.9, "local": 0.8}, c)]
    found.append(judging.judge(TABLE8, cell("fair"), []))
    entry: Entry = TABLE8._replace(form=form)
    files = drawing.save(drawing.draw(entry, found), tmp_path / "f")
    assert [file.suffix for file in files] == [".png", ".svg"]
    assert files[0].read_bytes()[:4] == b"\x89PNG"
    svg = files[1].read_text()
    assert "A1" in svg or "<path" in svg
    again = drawing.save(drawing.draw(entry, found), tmp_path / "g")
    assert again[0].read_bytes() == files[0].read_bytes()


def numbers(robust: float, ditto: float) -> headlines.Numbers:
    columns = ["clean", *(f"A{a} {k}%" for a in (1, 2, 3) for k in (20, 50, 80))]
    found: headlines.Numbers = {}
    for row in headlines.ROBUST:
        found |= {(row, c): (robust - 0.01 * (row != "Krum"), 0.1) for c in columns}
    found |= {("dynamic λ's", c): (ditto, 0.05) for c in columns}
    return found | {("fair", "clean"): (0.8, 0.1)}


def test_the_two_sentences_by_hand() -> None:
    found = headlines.headline(numbers(0.7, 0.9))
    assert found is not None and found.strongest == "Krum"
    assert found.gain == pytest.approx(0.2)
    assert found.less_variance == pytest.approx(0.75)
    assert found.more_accuracy == pytest.approx(0.1)
    few = {k: v for k, v in numbers(0.7, 0.9).items() if k != ("median", "A2 50%")}
    assert headlines.headline(few) is None and headlines.headline({}) is None
