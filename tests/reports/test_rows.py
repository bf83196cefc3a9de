"""Rows of trust cards: their numbers are those of the files."""

import json

import numpy as np
import pytest

from troth import files
from troth.certificates.bounds import down, lower, upper
from troth.reports import _rows, cards
from troth.runs import inspect
from troth.runs.compare import number, signed


def made(*places):
    """Label of a run → rows of each client: head → row."""
    decks = cards.decks(inspect.opened(places))
    found = {}
    for deck in decks:
        for run, own in zip(deck.runs, deck.cards, strict=True):
            every = [_rows.rows(card) for card in own]
            found[run.label] = [{row.head: row for row in each} for each in every]
    return found


@pytest.fixture(scope="module")
def rows(examined):
    return made(examined / "attacked", examined / "clean")


DITTO = "personalizer=ditto+lam=auto"


def test_numbers_are_those_of_the_files(examined, rows):
    t = files.read_csv(examined / "attacked" / DITTO / "clients.csv")
    clean = files.read_csv(examined / "clean" / "clients.csv")
    local = files.read_csv(examined / "attacked" / "personalizer=local" / "clients.csv")
    benign = t["malicious"] == 0
    for k, row in enumerate(rows[DITTO]):
        value, shared = t["accuracy"][k], t["shared_accuracy"][k]
        one = row["accuracy"]
        assert (one.text, one.value) == (number(value), value)
        assert (one.shared, one.local) == (shared, local["accuracy"][k])
        count, size = round(value * t["test"][k]), int(t["test"][k])
        ends = lower(count, size, 0.025), upper(count, size, 0.025)
        assert one.between == " to ".join(map(number, ends))
        assert row["gain"].text == signed(value - shared, "accuracy")
        assert row["λ"].text == f"{t['lam'][k]:.4g}"
        assert row["training examples"].text == f"{t['train'][k]:.0f}"
        assert row["rounds"].text == f"{t['asked'][k]:.0f} of 8"
        cost = value - clean["accuracy"][k]
        assert row["effect of the attack"].text == signed(cost, "accuracy")
        if benign[k]:
            above = int((t["accuracy"][benign] > value).sum())
            assert row["fairness rank"].text == f"{above + 1} of 9"
            assert row["fairness rank"].says[1:3] == (str(above), "9")
        else:
            assert row["fairness rank"].text == "–"


def test_certificates_and_audit(examined, rows):
    place, head = examined / "attacked" / DITTO, "certified radius, pixel, σ = 0.25"
    lines = [x.split(",") for x in (place / "certificates.csv").read_text().split()]
    audit = files.read_csv(place / "audit.csv")
    known = {int(line[1]) for line in lines[1:] if line[0] == "personal"}
    for k, row in enumerate(rows[DITTO]):
        if k in known:
            mine = [x for x in lines if x[:2] == ["personal", str(k)]]
            radii = [float(x[5]) if x[3] == x[4] else 0.0 for x in mine]
            assert row[head].text == down(float(np.mean(radii)))
            assert row[head].says[1:3] == (str(sum(r > 0 for r in radii)), "6")
        else:
            assert row["certified radius"].text == "–"
            assert row["certified radius"].says == ("row.uncertified",)
    for i, k in enumerate(audit["client"]):
        one = rows[DITTO][int(k)]["shortcuts"]
        three = [audit[f"change{end}"][i] for end in ("", "_low", "_high")]
        texts = [signed(v, "accuracy") for v in three]
        assert [one.text, one.between] == [texts[0], " to ".join(texts[1:])]
        assert (one.value, one.low, one.high, one.limit) == (*three, 0.1)
    shared = rows["personalizer=none"][0]
    assert shared["shortcuts"].says == ("shortcuts.shared",) and "gain" not in shared


def test_what_is_missing_says_so(told, tmp_path):
    """And it names the subject of the sentences that say how to get it."""
    given = {"hostile": [0, 0, 1], "corruption": "auto", "test": [10, 0, 10]}
    found = made(told(tmp_path / "x", [0.5, np.nan, 0.2], shared=[0.4] * 3, **given))
    one, untested, bad = found["x"]
    missing = {head: row.about for head, row in one.items() if row.text == "–"}
    subjects = ("poisoning", "certificate", "shortcuts")
    heads = ("effect of the attack", "certified radius", "shortcuts")
    assert missing == dict(zip(heads, subjects, strict=True))
    assert one["gain"].says == ("row.gain", "0.400")
    assert one["effect of the attack"].says == ("row.attacked", "1", "3")
    assert untested["accuracy"].says == ("row.untested",) and "gain" not in untested
    assert bad["accuracy"].says == ("row.hostile", "10")
    alone = made(told(tmp_path / "y", [0.5, 0.4, 0.2], personalizer="local", **given))
    assert alone["y"][0]["effect of the attack"].says == ("row.apart", "1", "3")
    assert alone["y"][0]["gain"].says == ("row.alone", "0.500")


def test_scales_hold_the_benign_clients(rows, examined):
    """Also the ends of all intervals, and the references; the rank has its places."""
    (run,) = inspect.opened([examined / "attacked" / DITTO])
    made = [[*row.values()] for row in rows[DITTO]]
    scales = _rows.axes(run, made)
    benign = run.column("malicious") == 0
    low, high, first, last, counts = scales["accuracy"]
    values = run.column("accuracy")[benign]
    assert (first, last) == (f"{low:g}", f"{high:g}") and sum(counts) == 9
    assert counts == np.histogram(values, 40, (low, high))[0].tolist()
    for row in (
        row for each, own in zip(benign, made, strict=True) if each for row in own
    ):
        if row.head in ("accuracy", "shortcuts") and row.value == row.value:
            low, high, *_ = scales[row.head]
            ends = [v for v in row[6:] if v == v]
            assert low <= min(ends) and max(ends) <= high
    assert scales["fairness rank"] == [1, 9, "1", "9", []]
    assert "λ" not in scales  # all clients have the same


def test_rows_are_json(rows):
    one = rows[DITTO][0]["accuracy"]
    assert json.loads(json.dumps(_rows.short(one), allow_nan=False))[1] == one.text
    short = _rows.short(_rows.Row("x", "–", ("row.unaudited",)))
    assert short == ["x", "–", ("row.unaudited",), "", ""]
