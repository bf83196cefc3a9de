"""docs/reference/results.md says what committed files say, and nothing else."""

import copy
import re
import shutil
import subprocess
from pathlib import Path
from statistics import fmean

import notes
import page
import pytest

from troth.reproduce import SEEDS, judging, kept, listing, papers, scripts
from troth.reproduce.entry import key
from troth.reproduce.store import TABLE, Store, named

pytestmark = pytest.mark.slow("makes the page of all results anew")
ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
PAGE = ROOT / "docs" / "reference" / "results.md"


@pytest.fixture(scope="module")
def made():
    return page.page(EXPERIMENTS)


def test_the_page_is_made_from_the_files(made):
    assert PAGE.read_text("utf-8") == made, "experiments/reproduce/page.py writes it"


def test_every_table_is_committed_and_nothing_is_loose():
    command = ["git", "ls-files", "-z", "experiments"]
    known = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if known.returncode:
        pytest.skip("not a git checkout")
    tracked = [name for name in known.stdout.split("\0") if name]
    homes = [home for home in EXPERIMENTS.iterdir() if home.is_dir()]
    tables = {f"experiments/{home.name}/{TABLE}" for home in homes}
    assert tables <= {*tracked} and not any(Store(home).loose() for home in homes)
    assert all(re.fullmatch(r"[\w./]+", name, re.ASCII) for name in tracked)
    assert len(tracked) <= 130
    assert sum((ROOT / name).stat().st_size for name in tracked) < 6_000_000


def test_what_stands_in_has_its_own_name():
    """In raw files, too."""
    every = Store(EXPERIMENTS / "reproduce").records().values()
    found = [said for said in every if said["kind"] == "stand-in"]
    assert len(found) > 900
    assert all(said["label"].startswith(f"{said['data']}: ") for said in found)


def weighted(said, whose):
    """Benign clients' accuracy by their test examples, anew from what each has."""
    columns = (said[name] for name in ("malicious", "test", whose))
    benign = [(n, a) for bad, n, a in zip(*columns, strict=True) if not bad]
    return sum(n * a for n, a in benign) / sum(n for n, _ in benign)


def devices(said, whose):
    """Mean accuracy of the benign clients."""
    pairs = zip(said["malicious"], said[whose], strict=True)
    benign = [accuracy for bad, accuracy in pairs if not bad]
    return sum(benign) / len(benign)


def test_table_8_is_what_its_clients_have(made):
    """Every cell by the clients' own numbers in the files of its experiment."""
    section = made.partition("### `ditto/table8`")[2].partition("\n### ")[0]
    lines = [line.split(" | ") for line in section.splitlines() if "[" in line]
    shown = {line[0].removeprefix("| "): line[1:] for line in lines if len(line) == 11}
    cells = listing.find("ditto/table8").everywhere()
    every = named(EXPERIMENTS, "reproduce/Fashion-MNIST/*")
    columns = list(dict.fromkeys(cell.column for cell in cells))
    single = [cell for cell in cells if len(cell.choices) == 1]
    assert len(single) > 120
    for cell in single:
        keys = [key(cell.choices[0], seed) for seed in range(SEEDS)]
        found = [said for k in keys for said in every if said["key"] == k]
        whose = "shared_accuracy" if cell.whose == ("shared",) else "accuracy"
        ours = sum(weighted(said, whose) for said in found) / len(found)
        both = shown[cell.row][columns.index(cell.column)].split()[0].split("/")
        assert abs(float(both[0]) - ours) < 6e-4, cell.label
        plain = sum(devices(said, whose) for said in found) / len(found)
        assert abs(float(both[1]) - plain) < 6e-4, cell.label


def test_theirs_are_the_papers(made):
    printed = {
        f"{value.mean:.3f}"[1:]
        for paper in papers.PAPERS
        for name in papers.read(paper)["tables"]
        for part in papers.table(paper, name).parts
        for row in part.rows.values()
        for value in row
        if value
    }
    theirs = re.findall(r"\[(\.\d{3}) ", made)
    assert theirs and {*theirs} <= printed


NAMES = (  # digits of a note that are no finding: names, settings, an answer
    r"A[123](,? \d+%)?(( and|,) \d+%)*|\[Table 8\]\(#ditto-table8\)|float32|TF32|H200"
    r"|λ = \d( and \d)?|λ=\d|t = \d|the constant answer \d|1e-\d|5,000|50 epochs"
    r"|script's 40|a client has 21 pictures|About 44 of them are right|If 60 are right"
    r"|ℓ2|x/255|COIL-20|Figure \d+|CIFAR-10"
)
COUNTED = (
    r"\b(two|three|four|five|six|seven|eight|nine|ten|twenty) "
    r"(of|looks|evaluations|rounds|cells)"
)


def test_notes_have_no_numbers_of_their_own(made):
    """What was found is filled in from results."""
    for name, texts in notes.read(EXPERIMENTS).items():
        assert f"### `{name}`" in made
        for text in texts.values():
            bare = re.sub(NAMES, "", re.sub(r"\{.*?\}", "", text))
            assert not re.search(r"\d", bare) and not re.search(COUNTED, bare), bare
    assert "{" not in made


def test_where_nothing_is_judged_a_note_says_what_holds(made):
    """Of all that was run but what stands in, whose numbers stand beside theirs."""
    glance = made.partition("## At a glance")[2].partition("\n## ")[0]
    for name, entry in listing.entries().items():
        said = [key for key in notes.read(EXPERIMENTS).get(name, {})]
        told = [key for key in said if key in notes.HOLDS]
        wanted = entry.printed is None and f"### `{name}`" in made
        assert len(told) == wanted, name
        (line,) = [one for one in glance.splitlines() if f"`{name}`" in one]
        assert not wanted or line.endswith(f"| {told[0]} | – | – |")


def held(name):
    """Return the verdict of a note on a figure without printed numbers."""
    (verdict,) = notes.read(EXPERIMENTS)[name].keys() & {*notes.HOLDS}
    return verdict


def solved(*figures, seeds=SEEDS):
    """Return label → accuracy of personal models per seed, of experiments/solvers."""
    found: dict[str, list[float]] = {}
    for figure in figures:
        for said in named(EXPERIMENTS, f"solvers/{figure}/*"):
            accuracy = said["summary"]["personal"]["accuracy_weighted"]
            found.setdefault(said["label"], []).append(accuracy)
    assert {*map(len, found.values())} == {seeds}
    return found


def test_at_full_scale_the_joint_solver_is_ahead_with_the_smaller_weight():
    found = solved("full_joint", "full_two_stage", seeds=2)
    plain = [v for k, v in found.items() if k.startswith("fine-tuning")]
    for lam, ahead in (("0.1", True), ("1.0", False)):
        joint = found[f"joint λ={lam}"]
        two = [v for k, v in found.items() if f"two-stage λ={lam}," in k]
        assert len(two) == len(plain) == 5
        for seed, own in enumerate(joint):
            best = [max(some[seed] for some in every) for every in (two, plain)]
            assert (own > max(best) + 0.02) is ahead
            assert ahead or own < min(best) + 0.005
            fmtl = found[f"two-stage λ={lam}, epochs=30"][seed]  # its number of epochs
            assert own > fmtl + 0.01
    for said in named(EXPERIMENTS, "solvers/full_joint/joint λ=1.0*"):
        curve = said["curve"]["personal_weighted"]
        peak = max(range(len(curve)), key=curve.__getitem__)
        assert peak < len(curve) / 2 and curve[-1] < curve[peak] - 0.05
    assert held("ditto/figure7") == held("fmtl/figure4") == "holds in part"


def test_joint_and_two_stage_solvers_differ_by_less_than_seeds():
    """With a small network."""
    found = solved("joint", "two_stage")
    for lam in ("0.1", "1.0"):
        own = {k: v for k, v in found.items() if f"λ={lam}" in k}
        joint = own.pop(f"joint λ={lam}")
        gain = fmean(joint) - max(map(fmean, own.values()))
        spread = max(max(some) - min(some) for some in [joint, *own.values()])
        assert 0 < gain < spread


def test_fmtls_joint_solver_is_not_ahead_of_fine_tuning_a_small_network():
    found, ditto = solved("fmtl"), solved("joint")
    spread = max(max(some) - min(some) for some in found.values())
    plain = found.pop("fine-tuning, epochs=30")
    for lam in ("0.1", "1.0"):
        joint = found[f"joint λ={lam}, moving anchor"]
        others = found[f"two-stage λ={lam}, epochs=30"], ditto[f"joint λ={lam}"]
        assert all(abs(fmean(joint) - fmean(other)) < spread for other in others)
        assert all(a < b for a, b in zip(joint, plain, strict=True))
    for said in named(EXPERIMENTS, "solvers/fmtl/*"):
        shared, own = said["summary"]["shared"], said["summary"]["personal"]
        assert shared["accuracy_weighted"] < own["accuracy_weighted"] - 0.3


def test_the_moving_anchor_changes_less_than_seeds_do():
    """With one step per round, on Vehicle."""
    shelf, entry = kept.Shelf(None, EXPERIMENTS), listing.find("fmtl/table5")
    table = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    found = {one.cell.label: one for one in table}
    own = [one for one in table if one.cell.row.startswith("FMTL")]
    assert len(own) == 21
    for one in own:
        other = found[one.cell.label.replace(": FMTL", ": Ditto")]
        assert one.seeds == other.seeds == SEEDS
        assert abs(one.mean - other.mean) < min(one.spread, other.spread)


def test_figures_that_hold_in_part():
    (theory,) = named(EXPERIMENTS, "theory/figures")
    hostile = theory["figure 1"]["panels"][1]
    assert hostile["fairest"] > 1.1 * hostile["best"]
    assert held("ditto/figure1") == "holds in part"
    shelf, entry = kept.Shelf(None, EXPERIMENTS), listing.find("ditto/figure5")
    found = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    at = {(one.cell.row, one.cell.column): one.mean for one in found}
    shares = ("A1 20%", "A1 50%", "A1 80%")
    rows = ("global", "TERM, t=1", "TERM, t=2", "TERM, t=5")
    assert all(at["global", a] > at[row, a] for a in shares for row in rows[1:])
    assert at["TERM, t=5", "A1 50%"] > at["TERM, t=2", "A1 50%"]
    assert held("ditto/figure5") == "holds in part"
    rules = {
        said["label"]: said["summary"]
        for said in named(EXPERIMENTS, "tension/defences/*")
    }

    def pair(label, whose):
        own = rules[label][whose]
        return own["accuracy_weighted"], own["accuracy_std"]

    for rule in ("fedmgda", "clip", "centered_clipping"):
        accuracy, spread = pair(f"{rule}, 20%", "shared")
        plain, wide = pair("mean, 20%", "shared")
        assert accuracy > plain - 0.001 and spread < wide + 0.001
    for label in rules:
        (shared, wide), (own, spread) = pair(label, "shared"), pair(label, "personal")
        assert own > shared and (spread < wide or shared < 0.1), label
    assert held("fmtl/figure2") == "holds in part"


def test_what_notes_say_of_the_papers_is_so():
    """TERM's row of Vehicle is another one in the second paper; multi-Krum's A2."""
    early, late = (
        papers.table(*name).parts[0]
        for name in (("fmtl", "table5"), ("ditto", "table6"))
    )
    columns = [c for c in early.columns if c in late.columns]
    rows = {row: row.replace("FMTL", "Ditto") for row in early.rows}
    same = {
        row: [early.at(row, c) == late.at(other, c) for c in columns]
        for row, other in rows.items()
        if other in late.rows
    }
    assert len(same) > 10 and len(columns) == 7
    assert not any(same.pop("fair")) and all(all(cells) for cells in same.values())
    for number in (6, 7, 8, 9, 10):
        (part,) = papers.table("ditto", f"table{number}").parts
        for column in ("A2 20%", "A2 50%"):
            multi = part.at("multi-Krum", column).mean
            if number == 8:
                assert multi < part.at("global", column).mean - 0.05
            else:
                assert abs(multi - part.at("k-norm", column).mean) < 0.02


def test_a_changed_file_changes_the_page(made, tmp_path):
    place = tmp_path / "experiments"
    (said,) = named(EXPERIMENTS, "reproduce/Fashion-MNIST/global, clean, seed 0~*")
    said = copy.deepcopy(said)
    Store(place / "reproduce").put("x", said | {"name": "x"})
    alone = page.page(place)
    assert (
        ".946/.943 (.06 =) [.946 (.06), −.000] =" in alone
        and "Not run: `ditto/t" in alone
    )
    said["summary"]["personal"]["accuracy_weighted"] = 0.5
    Store(place / "reproduce").put("x", said | {"name": "x"})
    assert ".500/.943 (.06 =) [.946 (.06), −.446] ↓" in page.page(place)
    shutil.rmtree(place)
    place.mkdir()
    empty = page.page(place)
    assert "Run: " not in empty and "λ, ours | not all cells are run" in empty
    for entry in listing.entries():
        assert f"`{entry}`" in empty.partition("Not run")[2]


def test_what_was_not_run_is_named_so(made):
    shelf = kept.Shelf(None, EXPERIMENTS)
    for entry in listing.entries().values():
        ran = any(shelf.settled(cell, 1) for cell in entry.everywhere())
        ran = ran or bool(scripts.results(entry, EXPERIMENTS))
        assert (f"### `{entry.name}`" in made) == ran


def test_the_glance_leads_to_every_section(made):
    glance = made.partition("## At a glance")[2].partition("\n## ")[0]
    links = re.findall(r"^\| \[`(.*?)`\]\(#(.*?)\)", glance, re.MULTILINE)
    assert [name for name, _ in links] == re.findall(
        r"^### `(.*?)`", made, re.MULTILINE
    )
    for name, anchor in links:
        assert f'<a id="{anchor}"></a>\n\n### `{name}`' in made
    line = (
        r"`(ditto/.*?)`\].* cells \| (\d+ of \d+) \| (\d+ of \d+) \| (\d+ of \d+) \|$"
    )
    rows = re.findall(line, glance, re.MULTILINE)
    assert len(rows) > 4
    for name, mean, plain, std in rows:
        section = made.partition(f"### `{name}`")[2].partition("\n### ")[0]
        assert f"Reproduced: {mean} judged cells" in section
        shares = f"by the mean over devices: {plain}; standard deviations: {std}."
        assert shares in section


def test_the_front_page_says_the_same():
    """How much of Ditto's Table 8 is reproduced, and of its personal models."""
    shelf, entry = kept.Shelf(None, EXPERIMENTS), listing.find("ditto/table8")
    found = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    own = [one for one in found if one.cell.whose[0] == "personal"]
    front = " ".join((ROOT / "README.md").read_text("utf-8").split())
    said = "in {} of {} cells, and in {} of the {} that are about clients' own models"
    assert said.format(*judging.share(found), *judging.share(own)) in front
    off = [one for one in found if one.missed]
    shared = sum(one.cell.whose[0] == "shared" for one in off)
    late = sum(one.draw for one in off)
    said = "Of the {} cells that are not reproduced, {} are about shared models under"
    assert said.format(len(off), shared) in front
    assert f"{late} of the {len(off)} fluctuate" in front
    steady = [one for one in found if one.draw and not one.missed]
    assert f"{len(steady)} of the reproduced cells fluctuate too" in front
