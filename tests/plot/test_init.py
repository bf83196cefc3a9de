"""All pictures: they are saved, and refuse what they cannot show."""

import shutil

import pytest

from troth import plot
from troth.types import Refusal


@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_is_saved(examined, tmp_path, name):
    figure = getattr(plot, name)([examined / "attacked", examined / "clean"])
    for kind in ("svg", "png") if name == "curves" else ("svg",):
        figure.savefig(tmp_path / f"x.{kind}")
        assert (tmp_path / f"x.{kind}").stat().st_size > 1000


def test_what_is_not_there_is_refused(told, tmp_path):
    place = told(tmp_path / "x", [0.5, 1.0])
    for draw in (plot.certified, plot.audit, plot.verdicts, plot.pairs):
        with pytest.raises(Refusal, match="troth (certify|audit|list)|two that do"):
            draw(place)


def test_an_unfinished_run(lines, examined, tmp_path):
    place = tmp_path / "run"
    shutil.copytree(examined / "clean", place)
    (place / "summary.json").unlink()
    assert lines(plot.curves(place))
    for draw in (plot.clients, plot.frontier, plot.pairs):
        with pytest.raises(Refusal, match="none of the runs is finished"):
            draw(place)
    (place / "rounds.jsonl").write_text("")
    with pytest.raises(Refusal, match="evaluation yet"):
        plot.curves(place)
    with pytest.raises(Refusal, match="no run to draw"):
        plot.curves([])
