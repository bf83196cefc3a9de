"""Figures in two forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from troth.reproduce import drawing, judging
from troth.reproduce.entry import Entry


@pytest.mark.parametrize("form", ["lines", "scatter"])
def test_figures_in_two_forms(form: Any, tmp_path: Path, made: Any) -> None:
    columns = ("clean", "A1 20%", "A1 50%", "A3 10%")
    found = [
        one for c in columns for one in made.judged({"global": 0.9, "local": 0.8}, c)
    ]
    found.append(judging.judge(made.table, made.cell("fair"), []))
    entry: Entry = made.table._replace(form=form)
    files = drawing.save(drawing.draw(entry, found), tmp_path / "f")
    assert [file.suffix for file in files] == [".png", ".svg"]
    assert files[0].read_bytes()[:4] == b"\x89PNG"
    svg = files[1].read_text()
    assert "A1" in svg or "<path" in svg
    again = drawing.save(drawing.draw(entry, found), tmp_path / "g")
    assert again[0].read_bytes() == files[0].read_bytes()
