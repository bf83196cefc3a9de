from contextlib import contextmanager

import pytest

from troth.certificates.ledger import NAME, Ledger, Row
from troth.certificates.record import Certificate
from troth.certificates.smoothing import Smoothing
from troth.types import Refusal

SETTINGS = Smoothing("pixel", 0.1).record()
ROWS = [
    Row("shared", 0, 7, 3, Certificate(3, 0.1 + 0.2, 0.9, 95, 100, True), "ab"),
    Row("personal", 2, 8, 1, Certificate(-1, 0.0, 1 / 3, 40, 100, False), "cd"),
]


@contextmanager
def opened(place, record=SETTINGS):
    ledger = Ledger(place, record)
    yield ledger
    ledger.close()


def filled(place):
    with opened(place) as ledger:
        for row in ROWS:
            ledger.add(row, "cpu", False)
    return place / NAME


def test_what_was_written_is_read_in_full_precision(tmp_path):
    head, first, _ = filled(tmp_path / "new").read_text().splitlines()
    with opened(tmp_path / "new") as again:
        assert again.rows == ROWS
    cells = dict(zip(head.split(","), first.split(","), strict=True))
    for name in ("transform", "sigma", "n0", "n", "alpha", "seed", "precision"):
        assert cells[name] == str(SETTINGS[name])
    assert cells["parameters"] == "ab" and cells["radius"] == "0.30000000000000004"


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_cut_short_is_taken_away(tmp_path, cut):
    file = filled(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with opened(tmp_path) as again:
        assert again.rows == ROWS[:1]
        again.add(ROWS[1], "cpu", False)
    assert file.read_bytes() == whole


def test_settings_are_kept_apart(tmp_path):
    file = filled(tmp_path)
    with opened(tmp_path, Smoothing("pixel", 0.2).record()) as other:
        assert other.rows == []
        other.add(ROWS[0], "cuda", True)
    assert len(file.read_text().splitlines()) == 4
    with opened(tmp_path) as again:
        assert again.rows == ROWS


def test_nothing_is_left_behind_without_a_certificate(tmp_path):
    Ledger(tmp_path / "new", SETTINGS).close()
    assert not (tmp_path / "new").exists()
    whole = filled(tmp_path).read_bytes()
    Ledger(tmp_path, Smoothing("pixel", 0.9).record()).close()
    assert (tmp_path / NAME).read_bytes() == whole


def test_another_file_of_that_name_is_refused(tmp_path):
    (tmp_path / NAME).write_text("mine,yours\n1,2\n")
    with pytest.raises(Refusal, match=r"other columns.*move it away"):
        Ledger(tmp_path, SETTINGS)
    assert (tmp_path / NAME).read_text() == "mine,yours\n1,2\n"


def test_refusals(tmp_path):
    """Two at once, and a place that cannot be written."""
    with opened(tmp_path), pytest.raises(Refusal, match="in use by another"):
        Ledger(tmp_path, SETTINGS)
    with opened(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="cannot be written"):
        Ledger(tmp_path / "file", SETTINGS)
