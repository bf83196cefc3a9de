"""Figures in two forms: ours and theirs, and what ours are trained on."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from troth.reproduce import drawing, judging, kept, listing
from troth.reproduce.entry import Entry

ROOT = Path(__file__).parents[2] / "experiments"
FIGURES = [e for e in listing.entries().values() if e.cells and e.form != "table"]
COLUMNS = ("clean", "A1 20%", "A1 50%", "A3 10%")


def names(figure):
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


def several(made):
    rows = {"global": 0.9, "local": 0.8}
    return [one for column in COLUMNS for one in made.judged(rows, column)]


@pytest.mark.parametrize("form", ["lines", "scatter"])
def test_figures_in_two_forms(form, tmp_path, made):
    found = several(made)
    found.append(judging.judge(made.table, made.cell("fair"), []))
    entry: Entry = made.table._replace(form=form)
    files = drawing.save(drawing.draw(entry, found), tmp_path / "f")
    assert [file.suffix for file in files] == [".png", ".svg"]
    assert files[0].read_bytes()[:4] == b"\x89PNG"
    assert "<!-- global -->" in files[1].read_text("utf-8")
    again = drawing.save(drawing.draw(entry, found), tmp_path / "g")
    for one, other in zip(files, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, made, monkeypatch):
    figure = drawing.draw(made.table._replace(form="lines"), several(made))

    def half(self, file, **_):
        data = b"half of a picture"
        file.write(data) if hasattr(file, "write") else file.write_bytes(data)
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="no space"):
        drawing.save(figure, tmp_path / "g")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("form", ["lines", "scatter"])
def test_hollow_points_are_spoken_of_where_there_are_some(form, made):
    entry, found = made.table._replace(form=form), several(made)
    rows = ["global", "local"]
    theirs = ["filled: ours", "hollow: the paper's"]
    assert names(drawing.draw(entry, found)) == rows + theirs
    figure = drawing.draw(entry, [one._replace(theirs=None) for one in found])
    assert names(figure) == [*rows, "filled: ours"]
    assert "the paper prints no points" in figure.get_suptitle()


def test_every_method_has_a_look_and_is_joined_with_the_paper_s(made):
    rows = ("global", "local", "fair", "median", "Krum", "multi-Krum", "clipping")
    rows += ("k-norm", "k-loss", "FedMGDA+", "finetuning")
    found = made.judged({row: 0.5 + k / 100 for k, row in enumerate(rows)})
    figure = drawing.draw(made.table._replace(form="scatter"), found)
    (axis,), marks = figure.axes, []
    for ours, theirs, joint in zip(*(axis.lines[k::3] for k in range(3)), strict=True):
        assert ours.get_color() == theirs.get_color() == joint.get_color()
        assert ours.get_marker() == theirs.get_marker()
        assert theirs.get_markerfacecolor() == "none" != ours.get_markerfacecolor()
        assert [*joint.get_xdata()] == [*ours.get_xdata(), *theirs.get_xdata()]
        marks.append((ours.get_color(), ours.get_marker()))
    assert len({*marks}) == len(rows) and not axis.texts  # nothing overprints
    assert names(figure)[: len(rows)] == [*rows]


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("entry", FIGURES, ids=lambda entry: entry.name)
def test_a_figure_says_what_ours_are_trained_on(entry, scale):
    cells = entry.everywhere() if scale == "full" else entry.at("small")
    found = judging.table(entry, cells, kept.Shelf(None, ROOT), 3)
    figure = drawing.draw(entry, found)
    lines = figure.get_suptitle().splitlines()
    titles = " ".join(axis.get_title() for axis in figure.axes)
    for cell in cells:
        assert any(line.endswith(f"ours: {cell.federation.name}") for line in lines)
        assert ("see above" in titles) == (cell.federation.kind != "original")
    if not any(one.theirs for one in found):
        assert "theirs:" not in figure.get_suptitle()
        assert not any("hollow" in name for name in names(figure))
