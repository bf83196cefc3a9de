"""Pictures refuse what they cannot show; those of a report's page are drawn there."""

import shutil

import pytest

from troth import plot
from troth.types import Refusal


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
