"""Figures: of cells beside the paper's points, and of what scripts found."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from troth import theory
from troth.reproduce import figures, judging, kept, listing, outputs, scripts
from troth.reproduce.entry import Entry
from troth.reproduce.figures import EVERY
from troth.reproduce.panels import SIMULATED, THEORY
from troth.reproduce.store import Store, named

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
    files = figures.save(figures.of_cells(entry, found), tmp_path / "f")
    assert [file.suffix for file in files] == [".png", ".svg"]
    assert files[0].read_bytes()[:4] == b"\x89PNG"
    assert "<!-- global -->" in files[1].read_text("utf-8")
    again = figures.save(figures.of_cells(entry, found), tmp_path / "g")
    for one, other in zip(files, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, made, monkeypatch):
    figure = figures.of_cells(made.table._replace(form="lines"), several(made))

    def half(self, file, **_):
        data = b"half of a picture"
        file.write(data) if hasattr(file, "write") else file.write_bytes(data)
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="no space"):
        figures.save(figure, tmp_path / "g")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("form", ["lines", "scatter"])
def test_hollow_points_are_spoken_of_where_there_are_some(form, made):
    entry, found = made.table._replace(form=form), several(made)
    rows = ["global", "local"]
    theirs = ["filled: ours", "hollow: the paper's"]
    assert names(figures.of_cells(entry, found)) == rows + theirs
    figure = figures.of_cells(entry, [one._replace(theirs=None) for one in found])
    assert names(figure) == [*rows, "filled: ours"]
    assert "the paper prints no points" in figure.get_suptitle()


def test_every_method_has_a_look_and_is_joined_with_the_paper_s(made):
    rows = ("global", "local", "fair", "median", "Krum", "multi-Krum", "clipping")
    rows += ("k-norm", "k-loss", "FedMGDA+", "finetuning")
    found = made.judged({row: 0.5 + k / 100 for k, row in enumerate(rows)})
    figure = figures.of_cells(made.table._replace(form="scatter"), found)
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
    figure = figures.of_cells(entry, found)
    lines = figure.get_suptitle().splitlines()
    titles = " ".join(axis.get_title() for axis in figure.axes)
    for cell in cells:
        assert any(line.endswith(f"ours: {cell.federation.name}") for line in lines)
        assert ("see above" in titles) == (cell.federation.kind != "original")
    if not any(one.theirs for one in found):
        assert "theirs:" not in figure.get_suptitle()
        assert not any("hollow" in name for name in names(figure))


ENTRY = Entry("p/figure7", "t", script=("x",), results=("place/*",), form="lines")
OWN = ("own models", True)
SCRIPTS = [
    e for e in listing.entries().values() if e.script and scripts.results(e, ROOT)
]


def put(place, name, **said):
    Store(place / "place").put(name, said)


def panel(root, title):
    (one,) = [each for each in figures.found(ENTRY, root) if each.title == title]
    return one


def test_seeds_are_one_curve(tmp_path):
    for seed, end in enumerate((0.5, 0.75)):
        curve = {"round": [1, 2], "personal_mean": [0.0, end], "shared_mean": [0, 1]}
        put(tmp_path, f"a, seed {seed}", label="a", curve=curve)
    own, shared = figures.found(ENTRY, tmp_path)
    assert own.along == "round" and shared.title == "shared model: mean accuracy"
    np.testing.assert_array_equal(own.lines["a"].x, [1, 2])
    np.testing.assert_array_equal(own.lines["a"].y, [0, 0.625])


def test_what_is_trained_after_the_last_round_is_a_point(tmp_path):
    curve = {"round": [1, 2], "personal_mean": [0.1, 0.2], "shared_mean": [0.1, 0.2]}
    for label, end in (("joint", 0.20004), ("tuned", 0.9)):
        model = {"accuracy_mean": end, "accuracy_weighted": end, "accuracy_std": 0}
        summary = dict.fromkeys(("shared", "personal"), model)
        put(tmp_path, label, label=label, curve=curve, summary=summary)
    lines = panel(tmp_path, "own models: mean accuracy").lines
    own = {label: (line.x.tolist(), line.y.tolist()) for label, line in lines.items()}
    assert own == {"joint": ([1, 2], [0.1, 0.2]), "tuned": ([2], [0.9])}
    (axis,) = figures.of_script(ENTRY, tmp_path).axes
    assert [line.get_marker() for line in axis.lines] == ["None", "s"]


def test_curves_that_coincide_say_nothing(tmp_path):
    for label in "ab":
        put(tmp_path, label, label=label, round=[1, 2], accuracy=[0.1, 0.2])
    assert figures.found(ENTRY, tmp_path) == []
    put(tmp_path, "c", label="c", round=[1, 2], accuracy=[0.1, 0.3])
    assert [*panel(tmp_path, "accuracy by true labels").lines] == ["a", "b", "c"]


def test_an_entry_says_which_quantities_it_is_about(tmp_path):
    values = {name: [0.1, 0.2] for name in ("norm", "aimed", "distance", "accuracy")}
    put(tmp_path, "a", label="a", round=[1, 2], **values)
    shows = ("accuracy by wanted labels", "norm")
    entry = ENTRY._replace(shows=shows)
    assert [each.title for each in figures.found(entry, tmp_path)] == [*shows]
    ((_, numbers),) = scripts.lines(entry, tmp_path)
    assert [*numbers] == [*shows, "seeds"]


def test_ways_of_clients_and_what_follows_from_them(tmp_path):
    way = {
        "accuracy": [[0.5, 1.0], [0.75, 1.0]],
        "conflicting_accuracy": [[0.5, None], [0.25, 0.75]],
        "loss": [[1.0, 1.0], [1.0, 1.0]],
        "conflicting_loss": [[1.0, 2.0], [2.0, 3.0]],
        "adv_accuracy": [[0.25, 0.25], [0.5, 0.5]],
    }
    put(tmp_path, "a", label="a", steps=[0, 10], curves=way)
    expected = {
        "conflicting accuracy": [0.5, 0.5],
        "accuracy disparity": [0.25, 0.375],
        "loss disparity": [0.5, 1.5],
        "adversarial accuracy gained": [0.0, 0.25],
    }
    entry = ENTRY._replace(shows=(*expected,))
    found = figures.found(entry, tmp_path)
    assert {(each.along, each.scale) for each in found} == {("batches", "symlog")}
    assert {each.title: [*each.lines["a"].y] for each in found} == expected
    ((_, numbers),) = scripts.lines(entry, tmp_path)
    assert numbers == {k: v[-1] for k, v in expected.items()} | {"seeds": 1}


def test_closer_looks_at_first_batches_are_of_the_same_line(tmp_path):
    """Between 0 and the first look there is no straight way."""
    for label, steps in (("a", [0, 4, 8]), ("a, early", [0, 1, 2, 4]), ("b", [0, 4])):
        way = {"accuracy": [[step / 10] for step in steps]}
        put(tmp_path, label, label=label, steps=steps, curves=way)
    (found,) = figures.found(ENTRY, tmp_path)
    along = {label: [*line.x] for label, line in found.lines.items()}
    assert along == {"a": [0, 1, 2, 4, 8], "b": [0, 4]}
    np.testing.assert_allclose(found.lines["a"].y, found.lines["a"].x / 10)


def test_numbers_go_over_what_their_labels_say(tmp_path):
    for label, value in (("a, 80%", 0.3), ("a, 20%", 0.1), ("none", 0.5)):
        put(tmp_path, label, label=label, end={"error": value, "other": 1.0})
    over = ("attackers, %", r", (\d+)%$")
    entry = ENTRY._replace(shows=("error",), over=over)
    (found,) = figures.found(entry, tmp_path)
    assert (found.title, found.along, found.marked) == ("error", "attackers, %", True)
    assert [*found.lines["a"].x] == [20, 80] and [*found.lines["a"].y] == [0.1, 0.3]
    assert found.lines["none"].level and [*found.lines["none"].y] == [0.5]


def test_accuracies_against_variances(tmp_path):
    for share in (20, 80):
        own = {"accuracy_weighted": 0.5, "accuracy_std": share / 100}
        summary = {"shared": own, "personal": own | {"accuracy_weighted": 0.75}}
        label = f"krum, {share}%"
        put(tmp_path, label, label=label, summary=summary)
    over = ("attackers, %", r", (\d+)%$")
    entry = ENTRY._replace(form="scatter", over=over)
    found = figures.scattered(entry, tmp_path)
    assert [*found] == ["20 % attackers", "80 % attackers"]
    assert found["80 % attackers"][0] == {"krum": (0.5, 0.8**2)}
    assert found["20 % attackers"][1] == {"krum": (0.75, 0.2**2)}
    figure = figures.of_script(entry, tmp_path)
    assert [axis.get_ylabel() for axis in figure.axes] == ["variance over clients"] * 2


def shown(entry):
    """What a picture has, and the numbers of its table."""
    drawn = [
        (each.title, each.along, label, line.x.tolist(), line.y.tolist())
        for each in figures.found(entry, ROOT)
        for label, line in each.lines.items()
    ]
    return drawn or entry.form, scripts.layout(scripts.lines(entry, ROOT))


@pytest.mark.parametrize("paper", {entry.paper: 0 for entry in SCRIPTS})
def test_no_two_figures_of_a_paper_are_the_same(paper):
    mine = [e for e in SCRIPTS if e.paper == paper and e.form != "table"]
    for one, other in combinations([(e.name, *shown(e)) for e in mine], 2):
        assert one[1] != other[1] and one[2] != other[2], (one[0], other[0])


@pytest.mark.parametrize("entry", SCRIPTS, ids=lambda entry: entry.name)
def test_what_an_entry_is_about_is_there(entry):
    """Every name in `shows` is a curve or a number of its results."""
    ways = {EVERY}
    for _, said in scripts.labelled(entry, ROOT):
        ways |= {*(scripts.ways(said) if "curves" in said else said.get("curve", said))}
    heads = {n for _, numbers in scripts.lines(entry, ROOT) for n in numbers}
    for name in set(entry.shows) - heads:
        assert name in ways or (name, "personal_mean" in ways) == OWN, name
    assert heads - {"seeds"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("certified/figure3", "MNIST"),
        ("ditto/figure7", "Fashion-MNIST"),
        ("spurious/figure7", "MNIST"),
        ("spurious/figure5", "MNIST, Coil20"),
        ("equivalence/figure17", "CIFAR-10"),
    ],
)
def test_a_picture_names_the_data_of_its_script(name, data):
    entry = listing.find(name)
    figure = figures.of_script(entry, ROOT)
    assert figure.get_suptitle().endswith(f"\nours: {data}")
    said = " ".join(figure.get_supxlabel().split("\n"))
    assert said == (f"Note: {entry.note}." if entry.note else "")


@pytest.mark.slow("draws every figure of the papers that scripts make")
@pytest.mark.parametrize("entry", SCRIPTS, ids=lambda entry: entry.name)
def test_every_script_entry_has_its_files(entry, tmp_path):
    """From what is committed: two texts, and a picture in two forms if a figure."""
    files = outputs.of_script(entry, ROOT, tmp_path)
    pictures = [] if entry.form == "table" else [".png", ".svg"]
    assert [file.suffix for file in files] == [".md", ".csv", *pictures]
    assert all(file.stat().st_size > 100 for file in files)
    lines = judging.of_script(entry, ROOT) or scripts.lines(entry, ROOT)
    if entry.numbers:  # one line per row, in the paper's layout
        lines = {one.cell.row for one in lines}
    assert all(file.read_text("utf-8").count("\n") >= len(lines) for file in files[:2])


def certified(folder, *whose, data="mnist", clients=10):
    every = {str(k): {"accuracy": [0.9, 0.1 * k]} for k in range(2)}
    model = {"radii": [0, 1], "mean": [0.9, 0.1], "clients": every}
    certified = {"models": dict.fromkeys(whose, model), "unit": "pixels"}
    found = {"folder": folder, "changes": {"data": data}, "certified": certified}
    return found | {"summary": {"clients": clients}}


def test_a_panel_a_change_data_set_and_federation():
    """Labels say how models were trained, not what panels say already."""
    both = ("personal", "shared")
    every = [
        ("cifar10_nominal: noise", certified("cifar10_nominal", *both, data="cifar10")),
        ("mnist_nominal: noise", certified("mnist_nominal", *both)),
        ("mnist_mixture: noise, λ=1.0", certified("mnist_mixture", "personal")),
        ("noise, 100 clients, local", certified("clients", "personal", clients=100)),
        ("noise, 4 clients, federated", certified("clients", *both, clients=4)),
    ]
    found = [(p.title.split("\n")[0], [*p.lines]) for p in figures.radii(ENTRY, every)]
    nominal = ["nominal, personal", "nominal, shared"]
    assert found == [
        ("noise, MNIST, 4 clients", ["federated, personal", "federated, shared"]),
        ("noise, MNIST, 10 clients", [*nominal, "local"]),
        ("noise, MNIST, 100 clients", ["local"]),
        ("noise, CIFAR-10, 10 clients", nominal),
    ]


def test_among_mixtures_one_is_local():
    mixture = certified("mnist_mixture", "personal")
    every = [(f"noise, λ={lam}", mixture) for lam in (0.5, 1.0)]
    (panel,) = figures.radii(ENTRY, every)
    assert [*panel.lines] == ["λ=0.5", "λ=1.0 (local)"]
    assert panel.along == "radius, pixels"


def test_a_line_a_client():
    every = [("noise, 2 clients, federated", certified("c", "personal", "shared"))]
    (panel,) = figures.radii(ENTRY._replace(shows=(EVERY,)), every)
    assert "federated, personal" in panel.title
    assert [*panel.lines] == ["client 0", "client 1"]
    np.testing.assert_allclose(panel.lines["client 1"].y, [0.9, 0.1])


(SAID,) = named(ROOT, "theory/figures")


def test_figure_1_has_theory_simulation_and_the_best_lambda():
    found, every = [*figures.simulated(SAID["figure 1"])], SAID["figure 1"]["panels"]
    assert len(found) == 4 and {panel.scale for panel in found} == {"symlog"}
    for panel, told in zip(found, every * 2, strict=True):
        assert told["best"] in panel.at.values()
        assert f"λ* = {told['best']:.2f}" in " ".join(panel.at)
        for name in (name for name in panel.lines if name.endswith(THEORY)):
            label = name.removesuffix(THEORY)
            line, points = panel.lines[name], panel.lines[label + SIMULATED]
            near = np.interp(points.x, line.x, line.y)
            np.testing.assert_allclose(points.y, near, rtol=0.05)
            assert "std_" not in label and points.x[0] == 0
    n, sigma, tau = (every[0]["case"][k] for k in ("n", "sigma", "tau"))
    assert found[0].at["λ* = 2.13, clean"] == theory.best_lam_points(n, sigma, tau)


def test_figure_2_has_three_models_and_the_best_lambda():
    found = [*figures.simulated(SAID["figure 2"])]
    errors, lams = found[:3], found[3:]
    for panel in errors:
        local, shared, ditto = (line.y for line in [*panel.lines.values()][::2])
        named = [f"{name}{THEORY}" for name in ("local", "shared", "Ditto, λ*")]
        assert [*panel.lines][::2] == named
        assert (ditto <= local).all() and (ditto <= shared).all()
        np.testing.assert_allclose(panel.lines["Ditto, λ*" + SIMULATED].y, ditto, 0.05)
    for panel in lams:
        (line,) = panel.lines.values()
        assert panel.title.endswith("best λ") and (np.diff(line.y) > 0).all()
    assert all("panel" not in panel.title for panel in found)
