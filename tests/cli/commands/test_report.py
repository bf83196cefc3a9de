"""`troth report`, and the commands that its cards name."""

import json
import shlex
from pathlib import Path

import pytest

from troth.reports import cards
from troth.runs import inspect


def test_where_it_is_said(troth, one, tmp_path):
    place, _ = one
    done = troth("report", place)
    assert done.exit_code == 0 and done.stdout == ""
    assert done.stderr == (
        f"Report: {place / 'report.html'} (open it in a browser). Trust cards: "
        f"{place / 'report.cards.json'}\n"
    )
    assert (place / "report.html").read_text().startswith("<!DOCTYPE html>")
    done = troth("report", place, "--out", tmp_path / "x.html", "--json")
    said = json.loads(done.stdout)
    assert said["page"] == str(tmp_path / "x.html")
    assert said["runs"] == [{"folder": str(place), "finished": True, "troubles": []}]
    assert json.loads(Path(said["cards"]).read_text())["version"] == cards.VERSION


def test_one_card(troth, refused, one, tmp_path, monkeypatch):
    from troth.reports import _pdf

    monkeypatch.setattr(_pdf, "pdf", lambda page: page.with_suffix(".pdf"))
    asked = ("report", one[0], "--card", "1", "--out", tmp_path)
    done = troth(*asked, "--pdf", "--json")
    page = tmp_path / "card-1.html"
    assert json.loads(done.stdout)["page"] == str(page)
    assert json.loads(done.stdout)["pdf"] == str(page.with_suffix(".pdf"))
    assert "Trust card of client 1" in page.read_text()
    assert f"PDF: {page.with_suffix('.pdf')}" in done.stderr
    assert "no card of client 99" in refused("report", one[0], "--card", "99")


def test_a_grid(troth, grid, tmp_path):
    place, _ = grid
    done = troth("report", place, "--out", tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text()
    assert done.exit_code == 0 and "Over seeds" in text and "Report of 6 runs" in text


def test_refusals(refused, one, tmp_path):
    words = "is not the folder of a run; give the folder that troth run wrote"
    assert refused("report", tmp_path) == f"troth: {tmp_path} {words}"
    assert "RUN" in refused("report")
    out = one[0] / "clients.csv" / "x.html"
    assert "give another file with --out" in refused("report", one[0], "--out", out)


def test_a_half_written_run(troth, one, tmp_path):
    place = tmp_path / "half"
    place.mkdir()
    for name in ("experiment.toml", "rounds.jsonl"):
        (place / name).write_bytes((one[0] / name).read_bytes())
    done = troth("report", place)
    assert done.exit_code == 0
    first = f"Not finished: {place}; the report shows 3 of 3 rounds"
    assert done.stderr.startswith(first)
    (place / "experiment.toml").write_text("x = [")
    done = troth("report", place)
    assert done.exit_code == 0 and "cannot be read" in done.stderr


def asks(place, rule, client):
    """The command that a card names by this rule."""
    made = cards.document(inspect.opened([place]))
    (card,) = [c for c in made["cards"] if c["client"] == client]
    (said,) = [s["text"] for s in card["sentences"] if s["rule"] == rule]
    words = shlex.split(said[said.index(": troth ") :])
    assert words[:2] == [":", "troth"]
    return words[2:]


@pytest.mark.slow("trains four runs, certifies and audits")
def test_what_is_missing_is_had_by_the_commands_named(troth, written, tiny, tmp_path):
    """Each is run as it stands, and then the card has that part."""
    more = '[adversary]\ncount = 1\n[attack]\nname = "sign_flip"\n'
    more += '[personalizer]\nname = "ditto"\nlam = 0.5\n'
    file = written(tmp_path / "tiny.toml", tiny + more)
    place = tmp_path / "a b"
    done = troth("run", file, "--out", place, "--report", "-q")
    assert done.exit_code == 0 and (place / "report.html").exists()
    assert done.stderr.splitlines()[-1].startswith("Report: ")
    for rule in ("gain.local_missing", "poisoning.no_twin"):
        done = troth(*asks(place, rule, 2))
        assert done.exit_code == 0, done.stderr
    both = asks(place, "poisoning.both", 2)
    assert both == ["report", str(place), str(tmp_path / "a b-no-attack")]
    assert troth(*both).exit_code == 0
    beside = [*map(Path, both[1:]), tmp_path / "a b-local"]
    quick = ["--n", 50, "--n0", 10, "--examples", 3]
    done = troth(*asks(place, "certificate.missing", 2), *quick)
    assert done.exit_code == 0, done.stderr
    done = troth(*asks(place, "shortcuts.missing", 2))
    assert done.exit_code == 0, done.stderr
    made = cards.document(inspect.opened(beside))
    card = next(c for c in made["cards"] if (c["client"], c["run"]) == (2, "a b"))
    rules = {s["rule"] for s in card["sentences"]}
    assert {"gain.local", "poisoning.without", "poisoning.moved"} <= rules
    assert card["certificates"] and card["shortcuts"]
    assert not {r for r in rules if r.endswith(("missing", "no_twin"))}


def test_a_table_in_place_of_the_page(troth, told, tmp_path):
    for seed in (0, 1):
        told(tmp_path / f"a,seed={seed}", [0.5, 0.7], seed=seed)
    file = tmp_path / "out" / "table.csv"
    paths = sorted(tmp_path.glob("a,*"))
    result = troth("report", *paths, "--table", file, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"table": str(file)}
    head, row = file.read_text().splitlines()
    assert head.startswith("run,metric,seeds,mean,")
    assert row.startswith("a,accuracy,2,0.6,0.0,")
    assert not (paths[0] / "report.html").exists()
