"""What scripts left behind, in one line per label."""

from typing import Any

from troth.reproduce import judging, listing, scripts
from troth.reproduce.entry import Entry

ENTRY = Entry("p/figure7", "t", results=("place/*",))


def summary(accuracy):
    own = {"accuracy_weighted": accuracy, "accuracy_std": 0.25}
    return {"shared": own, "personal": own}


def test_seeds_of_a_label_are_one_line(tmp_path, put):
    for seed, accuracy in enumerate((0.5, 0.75)):
        said = {"label": "a", "summary": summary(accuracy), "pooled": {"loss": 2.0}}
        put(tmp_path / "place", f"a, seed {seed}", said)
    put(tmp_path / "place", "b", {"label": "b", "summary": summary(1.0)})
    (a, numbers), (b, _) = scripts.lines(ENTRY, tmp_path)
    assert (a, b) == ("a", "b")
    assert numbers["shared, weighted"] == 0.625 and numbers["seeds"] == 2
    assert numbers["all clients', loss"] == 2.0


def test_the_same_label_in_two_folders_is_two_lines(tmp_path, put):
    for place, accuracy in (("place", 0.5), ("other", 1.0)):
        put(tmp_path / "x", f"{place}/a", {"label": "a", "summary": summary(accuracy)})
    both = ENTRY._replace(results=("x/place/*", "x/other/*"))
    lines = dict(scripts.lines(both, tmp_path))
    assert [*lines] == ["place: a", "other: a"]
    assert lines["other: a"]["shared, weighted"] == 1.0
    alone = ENTRY._replace(results=("x/place/*",))
    assert [label for label, _ in scripts.lines(alone, tmp_path)] == ["a"]


def test_curves_count_by_their_end(tmp_path, put):
    said = {"label": "x", "accuracy": [0.1, 0.9], "distance": [3.0, 2.0, 1.0]}
    put(tmp_path / "place", "x", said)
    ((_, numbers),) = scripts.lines(ENTRY, tmp_path)
    expected = {"distance to target": 1.0, "accuracy by true labels": 0.9, "seeds": 1.0}
    assert numbers == expected
    assert scripts.lines(ENTRY._replace(results=()), tmp_path) == []


def test_other_test_data_have_a_disparity(tmp_path, put):
    made: dict[str, Any] = {
        whose: {"accuracy_weighted": 0.5, "accuracy_std": 0.0, "accuracy_mean": 0.75}
        for whose in ("shared", "personal")
    }
    other = {whose: {"accuracy_mean": 0.5} for whose in ("shared", "personal")}
    summary = {**made, "tests": {"conflicting": other}}
    put(tmp_path / "place", "a", {"label": "a", "summary": summary})
    shows = ("personal, biased", "personal, conflicting", "personal, disparity")
    ((_, numbers),) = scripts.lines(ENTRY._replace(shows=shows), tmp_path)
    assert numbers == dict(zip(shows, (0.75, 0.5, 0.25), strict=True)) | {"seeds": 1}


def test_simulated_figures_count_by_their_least(tmp_path, put):
    case = {"K": 8, "K_a": 2}
    panel = {"case": case, "error": [3, 1, 2], "theory": {"error": [4, 0.5]}}
    said = {"figure 7": {"lam": [0, 1, 2], "panels": [panel | {"best": 1.25}]}}
    put(tmp_path / "place", "figures", said)
    ((label, numbers),) = scripts.lines(ENTRY, tmp_path)
    assert label == "K = 8, 2 adversaries"
    expected = {"least error": 1, "at λ": 1, "least by theory": 0.5}
    assert numbers == expected | {"λ* by theory": 1.25}
    panel = {"title": "with τ$_a$", "local": [1, 3], "best": [0.5, 2]}
    said = {"figure 7": {"tau": [0.5, 0.25], "panels": [panel]}}
    put(tmp_path / "place", "figures", said)
    ((label, numbers),) = scripts.lines(ENTRY, tmp_path)
    assert label == "with τ_a" and numbers["mean error, local"] == 2
    assert [*numbers.values()][1:] == [0.5, 2]


def test_certificates_count_by_their_radii(tmp_path, put):
    """And a figure has only the runs that are its own."""
    curve = {"radii": [0.0, 1.0, 2.0], "mean": [0.9, 0.5, 0.1], "acr": 1.25}
    for label in ("rotation, 4 clients, local", "rotation, 10 clients, federated"):
        said = {"label": label, "summary": summary(1.0)}
        said["certified"] = {"models": {"personal": curve}}
        put(tmp_path / "certificates", f"mnist_clients/{label}, seed 0", said)
    every = listing.entries()
    lines = {
        n: scripts.lines(every[f"certified/figure{n}"], tmp_path) for n in (1, 7, 8, 9)
    }
    assert [len(lines[n]) for n in (1, 7, 8, 9)] == [2, 0, 1, 1]
    expected = {"personal, certified at 0": 0.9, "personal, at half of the radii": 0.5}
    expected |= {"personal, average radius": 1.25, "seeds": 1.0}
    assert lines[8] == [("rotation, 4 clients, local", expected)]


def test_the_table_of_shortcuts(tmp_path, put):
    """Standardized inputs are the paper's; x/255 has rows without a verdict."""
    assert scripts.shortcuts(tmp_path) == {}
    place = tmp_path / "shortcuts"
    given = {"mnist": 0.5, "mnist_fixed": 0.75, "celeba": 0.1}
    for problem, accuracy in given.items():
        for figure, rest in (("shared", ""), ("table", ", finetune, 0")):
            own = {"accuracy_mean": accuracy}
            both = {"shared": own, "personal": {"accuracy_mean": accuracy / 2}}
            tests = {"tests": {"conflicting": both}}
            for seed in range(2):
                label = f"{problem}{rest}"
                said = {"label": label, "seed": seed, "summary": {**both, **tests}}
                put(place, f"{figure}/{label}, seed {seed}", said)
    others = {"label": "mnist, distance alone, 0", "summary": {}}
    put(place, "table/others", others)
    part = "coloured MNIST, CelebA and Coil20"
    tests = ("MNIST Acc_B", "MNIST Acc_BC")
    expected = {"Global": 0.75, "FT": 0.375, "Global, x/255": 0.5, "FT, x/255": 0.25}
    assert scripts.shortcuts(tmp_path) == {
        (part, row, test): [mean] * 2
        for row, mean in expected.items()
        for test in tests
    }
    judged = judging.of_script(listing.find("spurious/table1"), tmp_path)
    rows = dict.fromkeys(one.cell.row for one in judged)
    assert [*rows] == ["Global", "FT", "UW", "Ours", "Global, x/255", "FT, x/255"]
    extra = [one for one in judged if one.cell.row.endswith("x/255")]
    assert len(extra) == 4 and not any(one.verdict or one.theirs for one in extra)
    assert judging.share(judged) == (0, 4)
