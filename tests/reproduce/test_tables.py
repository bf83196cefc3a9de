"""Tables in three forms."""

import csv
import io
import math

import pytest

from troth.reproduce import judging, tables


def test_a_table_in_three_forms(made):
    found = [
        judging.judge(
            made.table, made.cell("global"), [made.result(0.92), made.result(0.90)]
        ),
        *made.judged({"Ditto, λ=1": 0.80}),
        *made.judged({"global": 0.855}, "A1 50%"),
        judging.judge(made.table, made.cell("local"), []),
    ]
    text = tables.markdown(made.table, found)
    first = (
        "| global | .910/.900 (.10 =) ±.014 [.911 (.08), −.001] = | .855/.845 (.10 ="
    )
    assert first in text
    assert "| Ditto, λ=1 | .800/.790 (.10 ↑) [.946 (.06), −.146] ↓ |  |" in text
    assert "| local | [.876 (.10)] |  |" in text
    shares = "by the mean over devices: 2 of 3; standard deviations: 2 of 3."
    assert f"Reproduced: 2 of 3 judged cells; {shares}" in text and "Table 8" in text
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert len(lines) == 4 and lines[1]["verdict"] == "worse"
    assert [line["ours_devices"] for line in lines[1:]] == ["0.79", "0.845", ""]
    assert lines[1]["std_verdict"] == "better" and lines[0]["draw"] == "False"
    assert float(lines[0]["ours"]) == pytest.approx(0.91) and lines[3]["ours"] == ""
    assert tables.as_csv([]) == "\n"


def test_repeated_cells_are_named(made):
    """In the made cells only rows and columns differ, and the runs are the same."""
    twice = made.judged({"local": 0.876}, "A1 20%") + made.judged(
        {"local": 0.876}, "A2 20%"
    )
    assert tables.shares(twice).startswith(
        "Reproduced: 2 of 2 judged cells (1 of 1 without repeated ones); by the mean"
    )
    assert tables.shares([]) == "Reproduced: 0 of 0 judged cells"


def test_words_of_small_and_missing_numbers():
    assert tables.number(0.0004) == ".000" and tables.number(1.0) == "1.000"
    assert tables.number(-0.0316, sign=True) == "−.032"
    assert tables.number(math.nan) == "–" and tables.short(None) == "–"


def test_ours_alone(made):
    one, nothing = made.judged({"global": 0.92})[0], made.cell("local")
    assert tables.brief(one) == ".920 ="
    assert tables.brief(judging.judge(made.table, nothing, [])) == ""
