"""Every personalizer has a page in docs/reference, and the pages say what is."""

import importlib.util
import re
import tomllib
import typing
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from troth import lookup
from troth.client.client import maker
from troth.config import reader
from troth.networks import flat as trees
from troth.networks import task as tasks
from troth.networks.flat import Masks
from troth.types import Batch, Broadcast, Client, Personal

HERE = Path(__file__).parents[1] / "docs" / "reference" / "personalizers"
INDEX = HERE / "README.md"
NAMES = lookup.names("personalizer")
HEADINGS = ["Objective", "Algorithm", "Options", "What the server learns", "Cost"]
HEADINGS += ["When to use it", "Under attack", "Example", "Citation"]


def page(name):
    return (HERE / f"{name}.md").read_text("utf-8")


def part(name, heading):
    """What stands under a heading of a page."""
    _, _, after = page(name).partition(f"\n## {heading}\n")
    return after.partition("\n## ")[0].strip()


def cells(text):
    """The cells of a table, a row a line, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[c.strip() for c in line.split("|")[1:-1]] for line in lines][2:]


def table():
    """Method → column → cell of the index."""
    text = INDEX.read_text("utf-8")
    (head,) = re.findall(r"^\| (method .*) \|$", text, re.M)
    columns = [column.strip() for column in head.split("|")]
    found = {}
    for row in cells(text):
        made = dict(zip(columns, row, strict=True))
        link = re.fullmatch(r"\[`(\w+)`\]\((\w+)\.md\)", made["method"])
        assert link and link[1] == link[2], made["method"]
        found[link[1]] = made
    return found


def toml(name):
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page(name), re.M | re.S)
    return tomllib.loads(block)


@pytest.fixture(scope="module")
def plots():
    spec = importlib.util.spec_from_file_location("plots", HERE / "plots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_no_other_pages():
    assert sorted(p.stem for p in HERE.glob("*.md") if p != INDEX) == NAMES
    assert sorted(p.stem for p in HERE.glob("*.png")) == NAMES
    assert sorted(table()) == NAMES


@pytest.mark.parametrize("name", NAMES)
class TestPage:
    def test_headings(self, name):
        assert page(name).startswith(f"# {name}\n\n")
        assert re.findall(r"^## (.*)$", page(name), re.M) == HEADINGS
        assert all(part(name, heading) for heading in HEADINGS)

    def test_the_picture_is_there_and_small(self, name):
        assert f"]({name}.png)" in page(name)
        file = HERE / f"{name}.png"
        assert 2_000 < file.stat().st_size < 25_000
        with Image.open(file) as picture:
            assert picture.size == (440, 286)

    def test_options_are_those_of_the_member(self, name):
        said = {
            option.strip("`"): tomllib.loads(f"v = {default.strip('`')}")["v"]
            for option, default, _ in cells(part(name, "Options"))
        }
        known = lookup.options(lookup.find("personalizer", name))
        assert said == {k: p.default for k, p in known.items()}
        if not known:
            assert part(name, "Options").startswith("None")

    def test_the_example_is_an_experiment(self, name, plots):
        assert toml(name)["personalizer"]["name"] == name
        reader.from_dict(toml(name))
        drawn = plots.SETTINGS | {"personalizer": plots.example(name)}
        assert reader.from_dict(drawn).personalizer.name == name

    def test_citations(self, name):
        entries = lookup.about("personalizer", name).citations
        keys = [re.match(r"@\w+\{([^,]+),", entry)[1] for entry in entries]  # type: ignore[index]
        assert re.findall(r"`(\w+)`", part(name, "Citation")) == keys


def test_links_lead_somewhere():
    for file in HERE.glob("*.md"):
        for link in re.findall(r"\]\(([^)]+)\)", file.read_text("utf-8")):
            path, _, anchor = link.partition("#")
            if path.endswith(".rst"):
                continue  # test_docs.py follows links to pages that the site generates
            assert (HERE / path).exists(), f"{file.name}: {link}"
            if anchor:
                text = (HERE / path).read_text("utf-8")
                heads = re.findall(r"^#+ (.*)$", text, re.M)
                assert anchor in {head.lower().replace(" ", "-") for head in heads}


def network():
    """Of d = 23 numbers, 6 in its normalisation, 8 in its last layer."""
    return nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3, bias=False), nn.Linear(3, 2))


OWN = {"fedper": 8, "fedrep": 8, "fedbn": 6}
D = 23


def client(name, grad=None):
    """As an experiment with all defaults makes it, one step a round."""
    e = reader.from_dict({"personalizer": name, "train": {"steps": 1}})
    task = tasks.functional(tasks.Objective(network(), 2), "float32")
    if grad is not None:
        task = task._replace(grad=grad(task))
    return maker(e, masks=Masks(network()))(task), task


def vectors():
    return torch.randn(2, D, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NAMES)
class TestIndex:
    def test_the_sort(self, name):
        made = typing.get_type_hints(lookup.find("personalizer", name))["return"]
        sorts = {Personal: "with a solver", Client: "replaces the solver"}
        assert table()[name]["sort"] == sorts[made]
        alone = "It replaces the `[solver]`." in " ".join(page(name).split())
        assert alone == (made is Client)

    def test_what_the_server_learns(self, name):
        reveals = client(name)[0].shares_personal
        assert table()[name]["server learns"].startswith("the personal") == reveals
        said = part(name, "What the server learns").startswith("The personal model")
        assert said == reveals

    def test_gradients_a_step(self, name):
        """Counted as they are taken, and said at the front of the cell."""
        count = 0

        def counting(task):
            def grad(v, batch):
                nonlocal count
                count += 1
                return task.grad(v, batch)

            return grad

        one, _ = client(name, counting)
        w0, w = vectors()
        x, y = torch.linspace(-1, 1, 12).view(4, 3), torch.tensor([0, 1, 1, 0])
        seen = Batch(x, y, torch.full((4,), 0.25), torch.tensor(0), torch.tensor(1))
        sent = Broadcast(w, w.new_zeros(one.extra), torch.ones(()))
        one.local.step(sent, one.local.begin(sent, one.init(w0)), seen, seen)
        said = re.match(r"\d+", table()[name]["gradients"])
        assert said and int(said[0]) == count

    def test_what_a_client_keeps(self, name):
        one, task = client(name)
        assert task.d == D
        kept = sum(leaf.numel() for leaf in trees.leaves(one.init(vectors()[0])))
        said = {"0": 0, "d": D, "d + 1": D + 1, "own layers": OWN.get(name)}
        assert kept == said[table()[name]["keeps"]]

    def test_who_was_never_asked(self, name):
        one, _ = client(name)
        w0, w = vectors()
        model, said = one.model(w, one.init(w0)), table()[name]["never sampled"]
        assert (said == "trained after") == (one.finish is not None)
        assert ("after" in table()[name]["gradients"]) == (one.finish is not None)
        if said in ("w", "trained after"):
            assert torch.equal(model, w)
        elif said == "w⁰":
            assert torch.equal(model, w0)
        elif said == "αw⁰ + (1 − α)w":
            torch.testing.assert_close(model, (w0 + w) / 2)
        else:
            own = model == w0
            assert said.startswith("φ of w") and int(own.sum()) == OWN[name]
            assert torch.equal(model[~own], w[~own])
