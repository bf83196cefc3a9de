"""Tables in three forms."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import pytest

from troth.reproduce import judging, kept, listing, outputs, tables


def test_a_table_in_three_forms(made: Any) -> None:
    found = [
        judging.judge(
            made.table, made.cell("global"), [made.result(0.92), made.result(0.90)]
        ),
        *made.judged({"Ditto, λ=1": 0.80}),
        *made.judged({"global": 0.855}, "A1 50%"),
        judging.judge(made.table, made.cell("local"), []),
    ]
    text = tables.markdown(made.table, found)
    assert "| global | .910 (.10) ±.014 [.911 (.08), −.001] = | .855 (.10) [" in text
    assert "| Ditto, λ=1 | .800 (.10) [.946 (.06), −.146] ↓ |  |" in text
    assert "| local | [.876 (.10)] |  |" in text
    assert "Reproduced: 2 of 3 cells judged." in text and "Table 8" in text
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert len(lines) == 4 and lines[1]["verdict"] == "worse"
    assert float(lines[0]["ours"]) == pytest.approx(0.91) and lines[3]["ours"] == ""
    latex = tables.latex(made.table, found)
    assert r"A1 50\%" in latex and r"$\lambda$=1" in latex
    assert latex.count("{tabular}") == 2 and latex.count(r" \\") == 4
    assert tables.as_csv([]) == "\n"


def test_words_of_small_and_missing_numbers() -> None:
    assert tables.number(0.0004) == ".000" and tables.number(1.0) == "1.000"
    assert tables.number(-0.0316, sign=True) == "−.032"
    assert tables.number(math.nan) == "–" and tables.short(None) == "–"


def test_ours_alone(made: Any) -> None:
    one, nothing = made.judged({"global": 0.92})[0], made.cell("local")
    assert tables.brief(one) == ".920 ="
    assert tables.brief(judging.judge(made.table, nothing, [])) == ""


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50% & a_b #1", r"50\% \& a\_b \#1"),
        ("{x}^\\", r"\{x\}\textasciicircum{}\textbackslash{}"),
        ("τ$_a$ = 0.1", r"$\tau$$_a$ = 0.1"),
        ("$τ_a$ × ε", r"$\tau _a$ $\times$ $\varepsilon$"),
        ("ℓ²", r"$\ell$$^2$"),
        ("5 $", r"5 \$"),
        ("θ♠ – é 語", r"$\theta$$\spadesuit$ -- e U+8A9E"),
    ],
)
def test_signs_in_latex(text: str, latex: str) -> None:
    assert tables.escaped(text) == latex


def test_latex_of_all_entries_is_ascii(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = kept.experiments()
    assert root is not None
    monkeypatch.setattr(outputs.drawing, "save", lambda *_: [])
    monkeypatch.setattr(outputs.curves, "draw", lambda *_: None)
    monkeypatch.setattr(outputs.drawing, "draw", lambda *_: None)
    for entry in listing.entries().values():
        if entry.cells is None:
            files = outputs.of_script(entry, root, tmp_path)
        else:
            cells = [judging.judge(entry, cell, []) for cell in entry.everywhere()]
            files = outputs.write(entry, cells, tmp_path)
        (text,) = (file.read_text("utf-8") for file in files if file.suffix == ".tex")
        assert text.isascii() and not re.search(r"\$\\_\w*\$", text), entry.name
