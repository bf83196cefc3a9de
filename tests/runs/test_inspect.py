"""What a run's folder says, whole or half-written."""

import json
import random
import re
import shutil

import jsonschema
import numpy as np
import pandas as pd
import pytest

from troth.reports import _front, _tables, _words, cards, page
from troth.runs import inspect
from troth.types import Refusal

DITTO = "attacked/personalizer=ditto+lam=auto"
FILES = ("experiment.toml", "rounds.jsonl", "summary.json", "clients.csv", "audit.csv")
FILES += ("audit.json", "certificates.csv")


def test_a_whole_run(examined):
    (one,) = inspect.opened([examined / "clean"])
    assert one.finished and not one.troubles and one.metric == "accuracy"
    summary = json.loads((examined / "clean" / "summary.json").read_text())
    assert one.mean() == summary["personal"]["accuracy_mean"]
    assert one.mean("shared", "worst10") == summary["shared"]["accuracy_worst10"]
    assert len(one.rounds) == one.total == 8 and len(one.evaluated) == 4
    assert one.part("aggregator") == "multi_krum" and not one.attacked
    place = str(examined / "clean")  # all that a notebook prints of it
    assert (repr(one), repr(one.run)) == (f"Dossier({place!r})", f"Run({place!r})")


def test_a_grid_is_its_runs_in_its_order(examined):
    found = inspect.opened([examined / "attacked"])
    assert [run.part("personalizer") for run in found] == ["none", "local", "ditto"]
    assert all(run.attacked for run in found)
    again = inspect.opened([examined / "attacked", found[0].path])
    assert len(again) == 3  # given twice, it is there once


def test_certificates_and_audits(examined):
    *_, ditto = inspect.opened([examined / "attacked"])
    (found,) = ditto.certified
    assert found.settings["sigma"] == "0.25" and found.unit == "ℓ2 norm"
    assert {*found.curves} == {"personal", "shared"}
    table, mine = found.table, found.table["model"] == "personal"
    area = table["radius"] * (table["label"] == table["y"])
    each = np.unique(table["client"][mine])
    by_client = [area[mine & (table["client"] == k)].mean() for k in each]
    assert np.allclose(found.curves["personal"].acr, by_client)
    assert ditto.audit is not None and ditto.audit.settings["limit"] == 0.1


def test_certificates_of_an_older_version_stay_readable(examined, tmp_path):
    """They have no column `lattice`: their noise was in floating point."""
    *_, ditto = inspect.opened([examined / "attacked"])
    table = pd.read_csv(ditto.path / "certificates.csv", dtype=str)
    older = tmp_path / "certificates.csv"
    table.drop(columns="lattice").to_csv(older, index=False)
    (found,), (now,) = inspect.certified(older), ditto.certified
    assert found.settings == now.settings | {"lattice": ""}
    for model, curve in now.curves.items():
        assert np.array_equal(found.curves[model].accuracy, curve.accuracy)


def test_labels_of_equal_names_and_of_a_chain_of_attacks(told, tmp_path):
    places = [told(tmp_path / a / "x", [0.5, 1.0]) for a in ("one", "two", "three")]
    labels = [run.label for run in inspect.opened(places)]
    assert labels == ["one/x", "two/x", "three/x"]  # with their parents
    for name in ("data", "gradient", "none", "model"):
        told(tmp_path / "c" / name, [0.5, 1.0])
    (tmp_path / "c" / "chain.json").write_text("{}")
    labels = [run.label for run in inspect.opened([tmp_path / "c"])]
    assert labels == ["none", "gradient", "model", "data"]


def test_no_run(tmp_path, told):
    grid = tmp_path / "g"
    grid.mkdir()
    (grid / "grid.toml").write_text("[grid]\nseed = [0]\n")
    for place, words in (
        (tmp_path, "is not the folder of a run; give the folder"),
        (tmp_path / "nowhere", "is not the folder of a run"),
        (grid, "no run of the grid .* has begun"),
    ):
        with pytest.raises(Refusal, match=words):
            inspect.opened([place])


@pytest.mark.parametrize("name", [*FILES, "shared.safetensors"])
@pytest.mark.parametrize("cut", [0, 1, 40, 400, -1])
def test_a_file_cut_off_anywhere(examined, tmp_path, name, cut):
    """It is named, or read as far as it is whole; nothing else is lost."""
    place = tmp_path / "run"
    shutil.copytree(examined / DITTO, place)
    (place / name).write_bytes((place / name).read_bytes()[:cut])
    (found,) = inspect.opened([place])
    if name == "experiment.toml" and found.sections:
        return
    lost = name in ("summary.json", "clients.csv")
    assert found.finished or (lost and found.troubles)
    assert all("run" in trouble and ";" in trouble for trouble in found.troubles)
    assert found.rounds or name == "rounds.jsonl"


CLIENT = "client,malicious,test,accuracy\n0,False,3,"


def test_files_that_say_nonsense(told, tmp_path):
    for name, text in (
        ("summary.json", "[]"),
        ("summary.json", '{"personal": 3, "shared": {}, "clients": 2}'),
        ("summary.json", '{"personal": {}, "shared": {}, "clients": 2}'),
        ("summary.json", '{"personal": {}, "shared": {}, "clients": "<b>"}'),
        ("clients.csv", "client,malicious\n0,False\n"),
        ("clients.csv", f"{CLIENT}<script>\n"),
        ("clients.csv", f"{CLIENT}0.5\n"),
        *[("rounds.jsonl", "[1]\n"), ("rounds.jsonl", '{"round": "x"}\n')],
        *[("audit.csv", "client\n1\n"), ("certificates.csv", "a,b\n1,2\n")],
        ("experiment.toml", "a = [\n"),
        ("experiment.toml", "[data]\nname = 'no_such_data'\n"),
        ("experiment.toml", "train = 3\ndata = 4\nresolved = 5\n"),
    ):
        shutil.rmtree(tmp_path / "x", ignore_errors=True)
        place = told(tmp_path / "x", [0.5, 1.0])
        (place / name).write_text(text)
        (found,) = inspect.opened([place])
        assert name in found.troubles[0] or "clients.csv" in found.troubles[0]


def test_a_run_on_its_way(examined, tmp_path):
    place = tmp_path / "run"
    shutil.copytree(examined / "clean", place)
    for name in ("summary.json", "clients.csv"):
        (place / name).unlink()
    lines = (place / "rounds.jsonl").read_text().splitlines(keepends=True)
    (place / "rounds.jsonl").write_text("".join(lines[:5]) + lines[5][:20])
    (found,) = inspect.opened([place])
    assert not found.finished and not found.troubles
    assert len(found.rounds) == 5 and found.metric == "accuracy"


PIECES = (b"<script>", b"null", b"NaN", b"-1", b"1e999", b'"x"', b"[]", b"{}", b",")
PIECES += (b"\n", b"", b"Infinity", b"true", b"9" * 20, b"\xff", b"= 3\n")


@pytest.mark.parametrize("name", FILES)
def test_anything_may_stand_in_a_file(examined, tmp_path, name):
    """Words and numbers replaced by others: cards and words are made all the same.

    Hundreds of such changes were tried; these are the same five every time.
    """
    draw = random.Random(name)
    whole = examined / DITTO
    validator = jsonschema.Draft202012Validator(cards.schema())
    for i in range(5):
        place = tmp_path / str(i)
        shutil.copytree(whole, place)
        content = (place / name).read_bytes()
        at = draw.choice([*re.finditer(rb'[-\w.]+|"[^"]*"', content)])
        changed = content[: at.start()] + draw.choice(PIECES) + content[at.end() :]
        (place / name).write_bytes(changed)
        runs = inspect.opened([place, whole])
        made = cards.decks(runs)
        validator.validate(cards.document(runs, made))
        _words.alerts(runs)
        _words.notes(runs, made)
        for deck in made:
            _front.answer(deck)
            _front.tiles(deck, runs)
        _tables.runs(runs)
        _tables.pairs(_tables.compared(runs, made))
        page.packed(made)


def test_a_folder_of_runs(tmp_path, told):
    """`troth report runs` shows all that is in it, also the runs of grids."""
    told(tmp_path / "alone", [0.5])
    for seed in (0, 1):
        told(tmp_path / "grid" / f"seed={seed}", [0.5], seed=seed)
    (tmp_path / "grid" / "grid.toml").write_text("[grid]\nseed = [0, 1]\n")
    labels = [run.label for run in inspect.opened([tmp_path])]
    assert labels == ["alone", "seed=0", "seed=1"]
