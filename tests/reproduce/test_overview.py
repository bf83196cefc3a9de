"""What the list says of an entry."""

import datetime

import pytest

from troth import build
from troth.data import catalogue
from troth.reproduce import kept, listing, overview
from troth.reproduce.entry import key, merged
from troth.reproduce.kept import Shelf
from troth.reproduce.settings import SETTINGS

NOTHING = Shelf(None, None)


def of(name, shelf=NOTHING):
    return overview.of(listing.find(name), shelf)


def test_cells_without_results():
    said = of("ditto/table8")
    assert (said["name"], said["form"]) == ("ditto/table8", "table")
    assert said["where"].startswith("Table 8") and said["script"] is None
    assert (said["cells"], said["run"], said["results"]) == (140, 0, 0)
    assert said["last"] is None and "40 epochs" in said["note"]
    assert said["time"] == "rough"
    # 8 methods and 3 λ by 10 columns, local by 5, FedMGDA+ by 4 values of ε;
    # the shared model is that of a Ditto
    tuned = 10 * 500 * 40 * 8
    assert said["client_steps"] == (11 * 10 + 5 + 4 * 10) * 100_000 + tuned
    assert said["seconds"] > 0


def test_cells_with_results(tmp_path, put, whole):
    """A shared model and the personal ones beside it are one run."""
    entry = listing.find("ditto/table8")
    cells = {f"{c.row} / {c.column}": c for c in entry.everywhere()}
    said = {"summary": whole(), "device": build.device("auto").type}
    for name, day in (("global / A1 20%", 2), ("median / clean", 1)):
        named = key(cells[name].choices[0], 0)
        said |= {"when": f"2026-01-0{day}T03:04:05+00:00", "key": named}
        put(tmp_path, f"x{day}", said)
    found = overview.of(entry, Shelf(tmp_path, None))
    assert (found["run"], found["cells"]) == (3, 140)  # Ditto with λ = 1, too
    assert found["last"] == "2026-01-02T03:04:05+00:00"
    assert found["time"] == "measured speed"
    assert found["seconds"] == pytest.approx(found["client_steps"] * 50 / 100_000)
    assert of("ditto/table8", Shelf(tmp_path / "none", None))["run"] == 0


def test_committed_results_count(tmp_path, put, whole):
    for seed in (0, 1):  # only the first counts
        name = f"vehicle/seed={seed},personalizer=local"
        put(tmp_path / "natural", name, {"summary": whole()})
    found = of("ditto/table6", Shelf(None, tmp_path))
    assert found["run"] == 1 and found["last"] is None


def test_a_script_and_what_it_left(tmp_path, put):
    entry = listing.find("fmtl/figure2")
    said = of("fmtl/figure2")
    assert (said["cells"], said["run"], said["results"]) == (0, 0, 0)
    assert (said["client_steps"], said["seconds"]) == entry.work != (0, 0.0)
    assert said["time"] == "rough, on two CPU cores"
    assert said["script"] == "tension/run.py defences" and said["where"] is None
    for name in "ab":
        put(tmp_path / "tension", f"defences/{name}", {})
    put(tmp_path / "tension", "term/c", {})
    assert of("fmtl/figure2", Shelf(None, tmp_path))["results"] == 2


def test_when_a_script_last_left_something():
    """By the repository: its files do not say."""
    root = kept.experiments()
    assert root is not None
    found = of("equivalence/figure1", Shelf(None, root))["last"]
    if not (root.parent / ".git").exists():
        pytest.skip("not a git checkout")
    assert datetime.datetime.fromisoformat(found).year >= 2026


def test_data_that_are_here_or_not(bare):
    words = "Vehicle's train file alone, divided 72/8/20 for Vehicle"
    (data,) = of("ditto/table6")["data"]
    assert data["name"] == "Vehicle" and data["words"] == f"{words}: not here"
    assert data["here"] is data["stand_in_here"] is False
    (bare / "vehicle").mkdir()
    (bare / "vehicle" / "mytrain.json").touch()
    said = of("ditto/table6")
    assert said["data_words"] == words and said["data"][0]["stand_in_here"] is True
    (bare / "vehicle" / "mytest.json").touch()
    (data,) = of("ditto/table6")["data"]
    assert data["here"] is True and data["words"] == "Vehicle"
    assert data["stand_in"] is data["stand_in_here"] is None


def test_data_that_nothing_stands_in_for(bare):
    (data,) = of("ditto/table11")["data"]
    assert data["words"] == "StackOverflow: not here"
    assert data["stand_in"] is data["stand_in_here"] is None
    assert of("ditto/figure1")["data_words"] == "–"  # simulated
    if catalogue.entry("fashion_mnist").place is not None:
        pytest.skip("Fashion-MNIST comes with this system")
    (data,) = of("ditto/figure7")["data"]
    assert data["here"] is False and data["words"] == "fashion_mnist: not here"


def test_what_an_entry_takes():
    f = SETTINGS["Fashion MNIST"].original
    assert overview.steps(f.tree, f) == 100_000
    tuned = merged(f.tree, {"personalizer": {"name": "finetune", "epochs": 40}})
    assert overview.steps(tuned, f) == 100_000 + 500 * 40 * 8
    cells = listing.find("ditto/table8").everywhere()
    local = [c for c in cells if c.row == "local"]  # clean, 10 … 80 %
    assert overview.cost(local, NOTHING).client_steps == 5 * 100_000


def test_rounds_of_a_small_model_take_longer_than_its_steps():
    """600 rounds of ten linear models: of their seconds, steps are a tenth."""
    cells = listing.find("fmtl/table5").everywhere()
    (one,) = (c for c in cells if c.label.endswith("median / clean"))
    found, rounds = overview.cost([one], NOTHING), 600 * overview.ROUND
    assert found.seconds > rounds > 5 * (found.seconds - rounds)
    assert not found.measured
