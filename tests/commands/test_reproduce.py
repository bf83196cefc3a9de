from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import Result

from troth.commands import reproduce
from troth.reproduce import listing

Troth = Callable[..., Result]
SOME = ("--scale", "small", "--seeds", 1, "--device", "cpu", "--cells", "global / A3*")


def test_the_list_names_all(troth: Troth, tmp_path: Path) -> None:
    result = troth("reproduce", "--list", "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    found = {one["name"]: one for one in json.loads(result.stdout)["entries"]}
    assert list(found) == list(listing.entries())
    table8 = found["ditto/table8"]
    assert table8["cells"] == 140 and table8["client_steps"] > 10_000_000
    assert table8["data"][0]["name"] == "Fashion MNIST" and table8["seconds"] > 0
    assert 16 <= table8["run"] <= 140 and table8["where"] == "Table 8, Appendix G.6"
    for one in found.values():
        assert one["data"] or one["name"].startswith("ditto/figure")
        assert one["seconds"] > 0
    plain = troth("reproduce", "--list", "ditto/table6", "--out", tmp_path)
    assert plain.exit_code == 0 and "ditto/table6" in plain.stderr
    assert not list(tmp_path.iterdir())


def test_cells_are_trained_and_told(troth: Troth, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = troth("reproduce", "ditto/table8", *SOME, "--out", out, "--show", "--json")
    assert shown.exit_code == 0
    assert all(c["seeds"] == 0 for c in json.loads(shown.stdout)["cells"])
    result = troth("reproduce", "ditto/figure3", *SOME, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [cell["column"] for cell in found["cells"]] == ["A3 10%", "A3 20%", "A3 50%"]
    for cell in found["cells"]:
        assert cell["seeds"] == 1 and 0 <= cell["ours"] <= 1 and cell["theirs"] > 0
        assert cell["verdict"] == "not judged"
    names = {Path(file).name for file in found["files"]}
    suffixes = ("md", "csv", "tex", "png", "svg")
    assert names == {f"ditto-figure3-small.{suffix}" for suffix in suffixes}
    table = (out / "ditto-figure3-small.csv").read_text().splitlines()
    assert len(table) == 61  # all cells, whichever were chosen
    again = troth("reproduce", "ditto/table8", *SOME, "--out", out, "--show", "--json")
    same = json.loads(again.stdout)["cells"]
    assert [c["ours"] for c in same] == [c["ours"] for c in found["cells"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ditto/tabel8"], "nearest are ditto/table8"),
        (["nothing"], "there is no table or figure 'nothing'"),
        (["ditto/table8", "--scale", "huge"], "--scale huge must be full or small"),
        (["ditto/table8", "--seeds", "0"], "--seeds 0 must be 1 to 100"),
        (
            ["ditto/table8", "--scale", "small", "--cells", "Dito"],
            "ditto/table8 has no cell 'Dito'",
        ),
        (["ditto/figure1", "--cells", "x"], "leave --cells out"),
        (["ditto/figure7", "--scale", "small"], "has no --scale small"),
        (
            ["ditto/table8", "--scale", "small", "--out", __file__],
            "cannot be written (File exists); give another folder",
        ),
        (["--page", "nowhere/results.md"], "a folder that exists"),
    ],
)
def test_refusals(troth: Troth, arguments: list[str], words: str) -> None:
    result = troth("reproduce", *arguments)
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("troth: ") and words in line


def test_full_scale_without_data(
    troth: Troth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = troth("reproduce", "ditto/table6", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "mytrain.json" in result.stderr and "--scale small" in result.stderr
    assert not (tmp_path / "out").exists()
    shown = troth("reproduce", "ditto/table6", "--out", tmp_path, "--show", "--json")
    assert shown.exit_code == 0 and len(json.loads(shown.stdout)["cells"]) == 130


def test_what_a_script_made_is_shown(troth: Troth) -> None:
    result = troth("reproduce", "equivalence/figure1", "--show", "--json")
    assert result.exit_code == 0
    labels = {one["label"] for one in json.loads(result.stdout)["results"]}
    assert {"l2, adam", "l2sq, adam"} <= labels


def test_the_page(troth: Troth, tmp_path: Path) -> None:
    file = tmp_path / "results.md"
    result = troth("reproduce", "--page", file)
    assert result.exit_code == 0 and file.read_text().startswith("# Results")


def test_several_may_begin_in_one_folder(tmp_path: Path) -> None:
    """At the same moment: none sees another's trial of whether it can be written."""
    out = tmp_path / "out"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(reproduce._writable, [out] * 400))
    assert list(out.iterdir()) == []
