"""The tutorials run as they stand, and what they say is what their outputs show."""

import base64
import importlib.util
import io
import json
import math
import re
from pathlib import Path

import pytest
from PIL import Image

PLACE = Path(__file__).parents[1] / "docs" / "tutorials"
NOTEBOOKS = sorted(PLACE.glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


def read(path):
    return json.loads(path.read_text("utf-8"))["cells"]


def source(cell):
    return "".join(cell["source"])


def texts(cell):
    """What a cell printed and showed, as plain text."""
    for output in cell.get("outputs", []):
        shown = output.get("text") or output.get("data", {}).get("text/plain", [])
        yield "".join(shown)


def pictures(cell):
    for output in cell.get("outputs", []):
        if "image/png" in output.get("data", {}):
            yield base64.b64decode("".join(output["data"]["image/png"]))


def test_all_are_listed():
    index = (PLACE / "index.md").read_text("utf-8")
    assert len(NOTEBOOKS) == 8
    for number, path in enumerate(NOTEBOOKS, 1):
        title = source(read(path)[0]).splitlines()[0]
        assert title.startswith(f"# {number}. ")
        assert f"[{title[2:]}]({path.name})" in index
        assert f"\n{path.stem}\n" in index


@each
def test_each_leads_to_the_next_one(path):
    following = NOTEBOOKS[NOTEBOOKS.index(path) + 1 :]
    last = source(read(path)[-1])
    assert "## What you have seen" in last
    assert not following or f"]({following[0].name})." in last


@each
def test_links_lead_somewhere(path):
    prose = "\n".join(source(c) for c in read(path) if c["cell_type"] == "markdown")
    for link in re.findall(r"\]\(([^)]+)\)", prose):
        file = PLACE / link.partition("#")[0]
        assert link.startswith("https://") or file.exists(), link


@each
def test_committed_outputs_are_whole_and_clean(path):
    """Every cell ran in order; no error, path, escape code, bar or time is left."""
    assert path.stat().st_size < 150_000
    code = [cell for cell in read(path) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    for cell in code:
        assert len(source(cell).splitlines()) <= 55
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr"
        text = "\n".join(texts(cell))
        assert not re.search(r"/tmp|/home|/root|/Users|site-packages", text)
        assert not re.search(r"[\x1b\r]|━|%\|", text)
        assert not re.search(r"\bseconds\b|20\d\d-\d\d|0x[0-9a-f]{6}", text)


def test_a_frame_and_a_module_become_a_report_in_ten_lines():
    """They are in memory: the notebook reads and writes no file of data or code."""
    cells = [source(c) for c in read(NOTEBOOKS[7]) if c["cell_type"] == "code"]
    [cell] = [text for text in cells if "troth.report(" in text]
    assert "nn.Sequential(" in cell and "data=frame, model=net" in cell
    assert len(cell.splitlines()) <= 10
    assert not re.search(r"%%writefile|to_csv|savez|open\(", "".join(cells))


@each
def test_figures_are_small_and_described(path):
    for cell in read(path):
        for picture in pictures(cell):
            assert max(Image.open(io.BytesIO(picture)).size) <= 1000
            assert len(cell["metadata"]["alt"]) > 40


@each
def test_numbers_in_the_prose_are_in_the_outputs_above(path):
    """Decimals are quoted from a code cell or its output, digit for digit."""
    above = ""
    for cell in read(path):
        if cell["cell_type"] == "markdown":
            for number in re.findall(r"(?<![\w.])-?\d+\.\d+(?![\w.])", source(cell)):
                known = re.findall(r"-?\d+\.\d+", above)
                assert number in known, f"{number} is not above: {source(cell)}"
        else:
            above += source(cell) + "\n".join(texts(cell))


def alike(now, then):
    """The same words, and numbers that another processor's rounding explains."""
    if NUMBER.sub("#", now).split() != NUMBER.sub("#", then).split():
        return False
    pairs = zip(NUMBER.findall(now), NUMBER.findall(then), strict=True)
    return all(
        math.isclose(float(a), float(b), rel_tol=0.1, abs_tol=0.08) for a, b in pairs
    )


@pytest.mark.slow("runs every tutorial in a kernel of its own; one starts processes")
@each
def test_it_runs_and_says_the_same(path):
    pytest.importorskip("nbclient")
    if "federation on Flower" in source(read(path)[0]):
        pytest.importorskip("flwr")
    spec = importlib.util.spec_from_file_location("execute", PLACE / "execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    for now, then in zip(execute.executed(path).cells, read(path), strict=True):
        if then["cell_type"] == "code":
            shown, committed = "".join(texts(now)), "".join(texts(then))
            assert alike(shown, committed), (
                f"{shown}\nis not\n{committed}\nIf it is meant to differ, run "
                f"python docs/tutorials/execute.py {path.name}"
            )
            assert len([*pictures(now)]) == len([*pictures(then)])
