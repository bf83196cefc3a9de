"""The README and the pages in docs/ say what is: their code runs, their tables hold."""

import dataclasses
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import troth
from troth import files as folder
from troth import lookup
from troth.cli import app
from troth.config import reader, schema
from troth.engine import plan

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
EXPERIMENT = DOCS / "how-to" / "experiment.md"
PAGES = [README]
PAGES += sorted(page for at in ("*.md", "*/*.md") for page in DOCS.glob(at))


def blocks(page, language):
    text = page.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def rows(text):
    """The cells of all tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    ]
    rules = [i for i, row in enumerate(cells) if set("".join(row)) <= {"-"}]
    return [r for i, r in enumerate(cells) if i not in rules and i + 1 not in rules]


def part(page, heading):
    """What stands under a heading, up to the next one of its level."""
    level = heading.split(" ")[0]
    _, _, after = page.read_text("utf-8").partition(f"\n{heading}\n")
    assert after, f"{page.name} has no '{heading}'"
    return re.split(rf"^#{{1,{len(level)}}} ", after, maxsplit=1, flags=re.M)[0]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder with the modules that the pages show, on the Python path."""
    shown = [block for page in PAGES for block in blocks(page, "python")]
    names = []
    for block in shown:
        if found := re.match(r"# (\w+)\.py\n", block):
            (tmp_path / f"{found.group(1)}.py").write_text(block)
            names.append(found.group(1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in names:
        sys.modules.pop(name, None)


TRAINS = pytest.mark.slow("the examples of all pages train")
EXAMPLES = [
    pytest.param(block, id=f"{page.name}-{i}", marks=() if page == README else TRAINS)
    for page in PAGES
    for i, block in enumerate(blocks(page, "python"))
]


@pytest.mark.slow("runs every example of the pages")
@pytest.mark.parametrize("block", EXAMPLES)
def test_python_runs(block, place):
    exec(compile(re.sub(r'"rounds": \d+', '"rounds": 2', block), "README", "exec"), {})


def test_the_first_example_is_short_and_trains(place):
    block = blocks(README, "python")[0]
    assert block.count("\n") <= 17 and "troth.run(" in block and ".model(" in block


def test_the_rule_shown_is_one(place):
    import torch

    updates = torch.tensor([[1.0], [2.0], [3.0], [4.0], [1000.0]])
    assert troth.aggregate("my_rules:trimmed", updates, trim=2).tolist() == [3.0]


def test_toml_is_an_experiment(place):
    for page in PAGES:
        for block in blocks(page, "toml"):
            runs = reader.expand(tomllib.loads(block))
            assert runs, block
            for _, tree in runs:
                reader.from_dict(tree)


def test_links_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            path, _, anchor = link.partition("#")
            if link.startswith("http") or path.endswith(".rst"):
                continue  # test_docs.py follows links to pages that the site generates
            target = page if not path else (page.parent / path)
            assert target.exists(), f"{page.name}: {link}"
            if anchor:
                text = target.read_text("utf-8")
                heads = re.findall(r"^#+ (.*)$", text.lower(), re.M)
                words = [re.sub(r"[^\w\- ]", "", head) for head in heads]
                places = {head.replace(" ", "-") for head in words}
                assert anchor in places | {*re.findall(r'<a id="(.*?)"></a>', text)}


COMMANDS = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]


def test_the_readme_is_short_and_its_commands_exist():
    text = README.read_text("utf-8")
    assert text.count("\n") <= 200
    named = {*re.findall(r"`troth ([a-z]\w*)", text)}
    assert {"new", "list", "audit", "certify", "poison", "server"} <= named
    assert named <= {*COMMANDS}
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)}
    assert {*re.findall(r"^make ([\w-]+)", text, re.M)} <= targets


def counted(system):
    """A column of the table of other systems: row → cell."""
    text = part(README, "## Compared with other systems")
    heads = next(line for line in text.splitlines() if line.startswith("| |"))
    (column,) = [
        i for i, head in enumerate(heads.split("|")[2:]) if system in head.strip()
    ]
    return {row[0]: row[column + 1] for row in rows(text) if len(row) > 5}


def test_what_this_and_other_systems_ship():
    found, kinds = counted("Troth"), ("aggregator", "filter", "attack", "personalizer")
    sizes = {kind: len(lookup.names(kind)) for kind in kinds}
    counts = {
        "aggregators and filters": "{aggregator} + {filter}".format(**sizes),
        "attacks by malicious clients": str(sizes["attack"]),
        "personalizers": str(sizes["personalizer"]),
    }
    for row, count in counts.items():
        assert found[row] == count, (
            f"README.md, 'Compared with other systems', row '{row}', column "
            f"'Troth': write {count}"
        )


def test_what_flower_ships():
    flwr = pytest.importorskip("flwr")
    assert f"Flower {flwr.__version__}".startswith("Flower 1.41")
    import flwr.serverapp.strategy as strategies

    rules = ["FedAvg", "FedMedian", "FedTrimmedAvg", "Krum", "MultiKrum", "Bulyan"]
    assert all(hasattr(strategies, rule) for rule in [*rules, "QFedAvg"])
    assert counted("Flower")["aggregators and filters"] == "7 + 0"


def test_what_byzfl_ships():
    modules = {}
    for name in ("aggregators/aggregators", "aggregators/preaggregators"):
        modules[name] = _classes("byzfl", f"{name}.py")
    attacks = _classes("byzfl", "attacks/attacks.py")
    found = counted("ByzFL")
    sizes = [len(names) for names in modules.values()]
    assert found["aggregators and filters"] == " + ".join(map(str, sizes))
    assert found["attacks by malicious clients"] == str(len(attacks))


def _classes(package, file):
    """The classes of a file, read as text: the package is not imported."""
    try:
        files = importlib.metadata.files(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    (found,) = [f for f in files if f.as_posix() == f"{package}/{file}"]
    return re.findall(r"^class (\w+)", found.read_text("utf-8"), re.M)


def test_the_numbers_of_table_8_are_those_of_the_results():
    text = " ".join(README.read_text("utf-8").split())
    said = re.search(r"Table 8 in (\d+) of (\d+) cells", text)
    page = (DOCS / "reference" / "results.md").read_text("utf-8")
    (row,) = [r for r in rows(page) if r[0].startswith("[`ditto/table8`]")]
    assert row[3] == f"{said[1]} of {said[2]}"


def test_flags_exist():
    every = [p for c in COMMANDS.values() for p in c.params]
    known = {flag for p in every for flag in (*p.opts, *p.secondary_opts)}
    for page in PAGES:
        if page.name == "design.md":  # it names CSS variables, which look like flags
            continue
        text = page.read_text("utf-8")
        text = re.sub(r"^```sh\n.*?^```$", "", text, flags=re.M | re.S)
        strange = {*re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)} - known
        assert not strange, page.name


def test_files_of_a_run():
    text = (DOCS / "reference" / "run.md").read_text("utf-8")
    files = {row[0].strip("`") for row in rows(text)}
    constants = ("EXPERIMENT", "ROUNDS", "CLIENTS", "SUMMARY", "SHARED", "PERSONAL")
    expected = {getattr(folder, k) for k in (*constants, "FEATURES", "ENDED")}
    for_a_while = {file.split("/")[0] + "/" for file in (folder.CHECKPOINT, plan.FILE)}
    assert files == expected | for_a_while
    assert folder.GRID in text


def test_the_reference_describes_every_key():
    spec = importlib.util.spec_from_file_location("page", DOCS / "_ext/reference.py")
    page = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        spec.loader.exec_module(page)
    finally:
        sys.path.pop(0)
    text = page.experiment()["experiment"]
    described = re.findall(
        r"^\.\. confval:: (\S+)\n   :type: .+\n(?:   :default: (.+)\n)?\n   (.+)$",
        text,
        re.M,
    )
    found = {key: default for key, default, _ in described}
    assert len(found) == len(described)
    assert found == defaults(page.value)


def defaults(value):
    """Key → default of all sections, as the reference writes them."""
    found = {}
    for field in dataclasses.fields(schema.Experiment):
        default = made(field)
        if field.name in ("filter", "track"):
            found[f"{field.name}.name"] = ""
        elif dataclasses.is_dataclass(default):
            keys = {f.name: made(f) for f in dataclasses.fields(default)}
            keys |= {"name": default.name} if isinstance(default, schema.Part) else {}
            found |= {f"{field.name}.{k}": value(v) for k, v in keys.items()}
            found.pop(f"{field.name}.options", None)
        elif field.name != "resolved":
            found[field.name] = value(default)
    return found


def made(field):
    """What a field holds where nothing is said."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def test_the_refusal_shown_is_real():
    tree = {"partition": {"name": "iid", "clients": 20}, "train": {"cohort": 70}}
    with pytest.raises(troth.Refusal) as caught:
        troth.cost(tree)
    assert blocks(EXPERIMENT, "text") == [f"troth: {caught.value}\n"]
