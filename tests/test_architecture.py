"""Data flows one way: what the imports, calls and sizes of all modules say."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import troth
from troth import lookup

SOURCE = Path(troth.__file__).parent
TESTS = Path(__file__).parent

LAYERS = """
    types digits kernels conditions verdicts modelfile seeding numerics labels theory
    trees memory notice disk fetching lookup toml grid parts deployment sections config
    layers weights windows convolution batchwise flat masks
    datasets partitions features corruptions deformations augments models losses
    optimizers schedules regularizers adversarial solvers personalizers
    attacks filters aggregators servers metrics
    objectives tasks lifting ordering traces lifted liftable threads
    certificates
    feed slots rowfile population beside
    engine plans augmenting clients transferability
    scores summary evaluation
    angles stages tails rules serving sampling availability federation stacked
    newcomers
    corrupting dealing preparing leakage systematic splitting shortcuts supply
    networks stepping store rulebook build
    folder journal loading own_examples own_table replies keeping sites turns
    hub minutes flower
    personalizing certifiable certifying
    examining auditing
    results runs together api heads poison goal crafting chain advice comparison bench
    catalogue gallery reproduce
    display listings progress outcome evidence dossier plot cards reports ui
    commands cli __main__
""".split()  # noqa: SIM905
"""From the first to the last: a module or folder imports only what stands before it."""

MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path != SOURCE / "__init__.py"
}
PRINTERS = ("cli", "commands", "display", "listings", "progress", "outcome")
DRAWS = re.compile(
    r"(np|numpy)\.random\..*|torch\.random\..*|torch\.(Generator|seed|initial_seed)"
    r"|torch\.(rand(?!om$)|manual_seed|normal|bernoulli|multinomial|poisson).*"
    r"|.*\.(normal_|uniform_|random_|bernoulli_|exponential_|geometric_|log_normal_)"
)
MAY_DRAW = {
    "bench": ".*",  # what it measures is no result
    "networks": r"torch\.(random\.fork_rng|manual_seed)",  # models draw
    "models.vgg13_bn": r"nn\.init\.normal_",
    "lifting": r"torch\.random\.fork_rng",  # a trial leaves no trace
    "partitions.classes": r"np\.random\.RandomState",  # the Ditto authors' recipe
    "reproduce.rows": r"np\.random\.RandomState",  # the Ditto authors' hostile clients
    "sampling": r"np\.random\.RandomState",  # and their cohorts
    "seeding": ".*",
}


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def imports(module: str) -> set[str]:
    """Dotted names of all that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own(module: str) -> set[str]:
    """The modules of troth that a module imports, such as `datasets.npz`."""
    found = set()
    for name in imports(module):
        first, _, rest = name.partition(".")
        if first != "troth" or not rest or rest == "__version__":
            continue
        whole = rest if known(rest) else rest.rpartition(".")[0]
        assert known(whole), f"{module} imports {name} from the front of the package"
        found.add(whole)
    return found


def known(module: str) -> bool:
    return module in MODULES or f"{module}.__init__" in MODULES


def layer(module: str) -> str:
    return module.partition(".")[0]


def reached(module: str) -> set[str]:
    """The layers that a module's imports lead to, through other modules too."""
    found: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        name = name if name in MODULES else f"{name}.__init__"
        if name not in found:
            found.add(name)
            ahead += own(name)
    return {layer(name) for name in found}


def names(module: str) -> set[str]:
    """Everything it calls by name or attribute, dotted where it is written dotted."""
    found = set()
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return found | {name for name in imports(module) if not name.startswith("troth.")}


def test_the_list_of_layers_is_whole() -> None:
    assert len(LAYERS) == len({*LAYERS})
    assert {*LAYERS} == {layer(module) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_no_arrow_points_back(module: str) -> None:
    here = LAYERS.index(layer(module))
    for other in own(module):
        there = LAYERS.index(layer(other))
        inside = there == here and "." in module
        assert inside or there < here, (
            f"{module} imports {other}, which stands behind it in LAYERS"
        )


@pytest.mark.parametrize("module", MODULES)
def test_the_front_is_used_for_its_version_alone(module: str) -> None:
    used = {name for name in names(module) if name.startswith("troth.")}
    assert used <= {"troth.__version__"}


@pytest.mark.parametrize("folder", [f for f in LAYERS if (SOURCE / f).is_dir()])
def test_members_of_a_folder_do_not_import_in_a_circle(folder: str) -> None:
    arrows = {
        m: {o for o in own(m) if o in MODULES and layer(o) == folder}
        for m in MODULES
        if layer(m) == folder
    }
    while arrows:
        free = {m for m, others in arrows.items() if not others & {*arrows}}
        assert free, f"a circle: {arrows}"
        arrows = {m: others for m, others in arrows.items() if m not in free}


def members(folder: str) -> list[str]:
    return [module for module in MODULES if layer(module) == folder]


@pytest.mark.parametrize("module", members("attacks"))
def test_attacks_know_no_defence(module: str) -> None:
    defences = {"aggregators", "filters", "servers", "lookup", "rules"}
    assert not reached(module) & defences
    assert "importlib" not in {name.split(".")[0] for name in imports(module)}


@pytest.mark.parametrize("module", members("metrics"))
def test_metrics_see_only_vectors(module: str) -> None:
    assert {layer(name) for name in own(module)} <= {"types", "metrics"}
    outside = {name.split(".")[0] for name in imports(module)}
    assert outside <= {"__future__", "math", "numpy", "troth"}


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) not in PRINTERS])
def test_only_the_command_line_speaks(module: str) -> None:
    outside = {name.split(".")[0] for name in imports(module)}
    assert not outside & {"rich", "typer", "click", "logging"}
    assert not names(module) & {"print", "input", "sys.stdout", "sys.stderr"}


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) != "flower"])
def test_only_its_folder_knows_flower(module: str) -> None:
    assert "flwr" not in {name.split(".")[0] for name in imports(module)}


@pytest.mark.parametrize("module", MODULES)
def test_one_vmap_and_one_compiler(module: str) -> None:
    used = {part for name in names(module) for part in name.split(".")}
    assert "vmap" not in used or module in ("lifted", "lifting")
    compilers = {"_inductor", "_dynamo", "make_fx"} & used
    compilers |= {"torch.compile", "torch.jit"} & names(module)
    assert not compilers or module == "lifted"


@pytest.mark.parametrize("module", MODULES)
def test_one_source_of_randomness(module: str) -> None:
    typed = {"np.random.Generator"}  # a type is no draw
    drawn = {name for name in names(module) - typed if DRAWS.fullmatch(name)}
    source = re.compile(r"(random|secrets|numpy\.random|torch\.random)(\..*)?")
    drawn |= {name for name in imports(module) if source.fullmatch(name)}
    allowed = MAY_DRAW.get(module)
    assert not {n for n in drawn if not (allowed and re.fullmatch(allowed, n))}


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_long(module: str) -> None:
    assert MODULES[module].read_text("utf-8").count("\n") <= 300


def test_a_paper_is_cited_in_the_same_words_everywhere() -> None:
    entries: dict[str, str] = {}
    for module in MODULES:
        for entry in lookup.citations(ast.get_docstring(parsed(module)) or ""):
            key = entry.partition(",")[0]
            words = " ".join(entry.split())
            assert entries.setdefault(key, words) == words, f"{module}: {key}"
    assert len(entries) > 5


EVERY = [(kind, name) for kind in lookup.FOLDERS for name in lookup.names(kind)]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_member_has_a_test(kind: str, name: str) -> None:
    folder = lookup.FOLDERS[kind]
    assert (TESTS / folder / f"test_{name}.py").exists()


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_member_says_what_it_is(kind: str, name: str) -> None:
    assert lookup.about(kind, name).summary
    assert lookup.find(kind, name).__module__ == f"troth.{lookup.FOLDERS[kind]}.{name}"
