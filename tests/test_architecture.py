"""The borders of docs/architecture.md: what the imports of all modules say.

Each test lists all offenders. A node is a root module, a room (the modules that lie in
it directly) or a folder within a room, such as `server.aggregators`.
"""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import troth
from troth import lookup

SOURCE = Path(troth.__file__).parent
TESTS = Path(__file__).parent
KINDS = {*lookup.FOLDERS.values()}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
}
FILES = {str(path.relative_to(SOURCE)) for path in MODULES.values()}
BASICS = """
    types progress devices networks.kernels numerics seeding files lookup data.labels
    engine.packing
""".split()  # noqa: SIM905
ORDER = [
    *BASICS,
    *"""
    config
    data.datasets data.partitions data.features data.corruptions data.deformations
    data.augments
    networks.layers networks.models networks.losses networks
    client.optimizers client.schedules client.regularizers client.adversarial
    client.solvers client.personalizers client
    server.rules
    server.attacks server.filters server.aggregators server.steps
    evaluation.metrics federation.samplers theory
    engine certificates evaluation server federation data build
    runs api plot examine poison deployment deployment.flower
    reports.cards reports reports.live reproduce
    cli cli.commands cli.app __init__ __main__
    """.split(),  # noqa: SIM905
]
"""From the first to the last: a node imports only what stands before it."""

PLAIN = {name for name in ORDER if name.replace(".", "/") + ".py" in FILES}
"""Modules with a place of their own: kinds need them, or they gather their room."""

DRAWS = re.compile(
    r"(np|numpy)\.random\..*|torch\.random\..*|torch\.(Generator|seed|initial_seed)"
    r"|torch\.(rand(?!om$)|manual_seed|normal|bernoulli|multinomial|poisson).*"
    r"|.*\.(normal_|uniform_|random_|bernoulli_|exponential_|geometric_|log_normal_)"
)
MAY_DRAW = {
    "runs.bench": ".*",  # what it measures is no result
    "networks.build": r"torch\.(random\.fork_rng|manual_seed)",  # models draw
    "networks.models.vgg13_bn": r"nn\.init\.normal_",
    "networks.validate": r"torch\.random\.fork_rng",  # a trial leaves no trace
    "data.partitions.classes": r"np\.random\.RandomState",  # the Ditto authors' recipe
    "reproduce.rows": r"np\.random\.RandomState",  # the Ditto authors' malicious ids
    "federation.samplers.ditto": r"np\.random\.RandomState",  # and their cohorts
    "seeding": ".*",
}


@cache
def parsed(module):
    return ast.parse(MODULES[module].read_text("utf-8"))


@cache
def imports(module):
    """Dotted names of all that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def known(module):
    return module in MODULES or f"{module}.__init__" in MODULES


@cache
def own(module):
    """The modules of troth that a module imports, such as `data.datasets.npz`."""
    found = set()
    for name in imports(module):
        first, _, rest = name.partition(".")
        if first != "troth" or rest in ("", "__version__"):
            continue
        whole = rest if known(rest) else rest.rpartition(".")[0]
        found.add(whole if known(whole) else "__init__")
    return frozenset(found)


def node(module):
    """The root module, room or folder that a module belongs to."""
    module = module.removesuffix(".__init__")
    if module in PLAIN or module in ORDER:
        return module
    return module.rpartition(".")[0] or module


def reached(module):
    """The modules that a module's imports lead to, through other modules too."""
    found: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        name = name if name in MODULES else f"{name}.__init__"
        if name not in found:
            found.add(name)
            ahead += own(name)
    return found


def names(module):
    """Everything it calls by name or attribute, dotted where it is written dotted."""
    found = set()
    for part in ast.walk(parsed(module)):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(ast.unparse(part))
    return found | {name for name in imports(module) if not name.startswith("troth.")}


def packages(module):
    return {name.split(".")[0] for name in imports(module)}


def within(*rooms):
    return [m for m in MODULES if any(m == r or m.startswith(f"{r}.") for r in rooms)]


def test_the_root_is_small():
    entries = [p for p in SOURCE.iterdir() if p.name != "__pycache__"]
    assert len(entries) <= 32, sorted(p.name for p in entries)
    assert len([p for p in entries if p.suffix == ".py"]) <= 12
    deep = [m for m in MODULES if m.count(".") > 2]
    assert not deep, f"more than three levels: {deep}"


def test_every_node_has_its_place():
    assert len(ORDER) == len({*ORDER})
    assert {node(module) for module in MODULES} == {*ORDER}


def test_data_flow_one_way():
    place = {name: k for k, name in enumerate(ORDER)}
    wrong = [
        f"{module} imports {other}"
        for module in MODULES
        for other in sorted(own(module))
        if place[node(other)] > place[node(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_folder_imports_in_a_circle():
    arrows = {m: {o for o in own(m) if o in MODULES and o != m} for m in MODULES}
    while free := {m for m, others in arrows.items() if not others & {*arrows}}:
        arrows = {m: others for m, others in arrows.items() if m not in free}
    assert not arrows, f"in or before a circle: {sorted(arrows)}"


def test_attacks_know_no_defence():
    rooms = ("server.aggregators", "server.filters", "server.steps", "server.rules")
    defences = {*within(*rooms), "lookup"}
    wrong = {m: sorted(reached(m) & defences) for m in within("server.attacks")}
    wrong |= {m: ["importlib"] for m in wrong if "importlib" in packages(m)}
    assert not {m: found for m, found in wrong.items() if found}


def test_metrics_see_only_vectors():
    allowed = {"__future__", "math", "numpy", "troth"}
    wrong = [
        module
        for module in within("evaluation.metrics")
        if packages(module) - allowed
        or {node(o) for o in own(module)} - {"types", "evaluation.metrics"}
    ]
    assert not wrong


def test_certificates_see_only_a_classifier():
    allowed = {*BASICS, "certificates", "data.deformations", "engine", "networks"}
    found = {f"{m} → {o}" for m in within("certificates") for o in own(m)}
    assert not {arrow for arrow in found if node(arrow.split(" → ")[1]) not in allowed}


def test_only_the_command_line_prints():
    speak = {"print", "input", "sys.stdout", "sys.stderr"}
    wrong = [
        module
        for module in MODULES
        if not module.startswith("cli.")
        and (packages(module) & {"rich", "typer", "click"} or names(module) & speak)
    ]
    assert not wrong


def test_only_its_folder_knows_flower():
    flower = within("deployment.flower")
    assert not [m for m in MODULES if m not in flower and "flwr" in packages(m)]


def test_one_module_knows_what_is_inside_flower():
    """All others use Flower's public API."""
    public = {"app", "client", "clientapp", "common", "server", "serverapp"}
    wrong = {
        f"{module} imports {name}"
        for module in MODULES
        for name in imports(module)
        if name.startswith("flwr.") and name.split(".")[1] not in public
    }
    inside = "deployment.flower.transport imports "
    assert wrong and not [each for each in wrong if not each.startswith(inside)]


def test_one_vmap_and_one_compiler():
    wrong = []
    for module in MODULES:
        used = {part for name in names(module) for part in name.split(".")}
        compilers = {"_inductor", "_dynamo", "make_fx"} & used
        compilers |= {"torch.compile", "torch.jit"} & names(module)
        lifts = "torch.func.vmap" in names(module) | imports(module)
        wrong += [module] if lifts and module not in VMAPS else []
        wrong += [module] if compilers and module != "engine.vmap" else []
    assert not wrong


VMAPS = ("engine.vmap", "networks.validate")


def test_one_source_of_randomness():
    typed = {"np.random.Generator"}  # a type is no draw
    source = re.compile(r"(random|secrets|numpy\.random|torch\.random)(\..*)?")
    wrong = {}
    for module in MODULES:
        drawn = {name for name in names(module) - typed if DRAWS.fullmatch(name)}
        drawn |= {name for name in imports(module) if source.fullmatch(name)}
        may = MAY_DRAW.get(module)
        wrong[module] = {n for n in drawn if not (may and re.fullmatch(may, n))}
    assert not {m: found for m, found in wrong.items() if found}


def test_no_module_is_long():
    kinds = tuple(f"{kind}." for kind in KINDS)
    lines = {m: path.read_text("utf-8").count("\n") for m, path in MODULES.items()}
    members = {m for m in MODULES if m.startswith(kinds) and "._" not in m}
    most = {m: 300 if m in members else 500 for m in MODULES}
    assert not {m: n for m, n in lines.items() if n > most[m]}


def test_every_reference_is_known_and_used():
    used = {
        key
        for module in MODULES
        for line in re.findall(
            r"^References: ([^.]+)\.$", ast.get_docstring(parsed(module)) or "", re.M
        )
        for key in re.split(r",\s+", line)
    }
    assert used == {*lookup.references()}


def test_every_member_has_a_test_and_says_what_it_is():
    wrong = []
    for kind, folder in lookup.FOLDERS.items():
        for name in lookup.names(kind):
            file = TESTS.joinpath(*folder.split("."), f"test_{name}.py")
            home = lookup.find(kind, name).__module__
            right = file.exists() and lookup.about(kind, name).summary
            wrong += [] if right and home == f"troth.{folder}.{name}" else [file]
    assert not wrong


MACHINERY = [m for m in MODULES if node(m) not in KINDS and not m.endswith("__init__")]
NAMED = re.compile(
    r"troth\.(" + "|".join(map(re.escape, sorted(KINDS))) + r")\.([a-z]\w*)"
)


def test_machinery_imports_no_member():
    places = ("reproduce", "examine", "poison")  # about named methods by themselves
    wrong = []
    for module in MACHINERY:
        if module.startswith(places):
            continue
        for name in imports(module):
            match = NAMED.match(name)
            if match and match.group(2) in ALL.get(match.group(1), ()):
                wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(wrong)


ALL = {folder: {*lookup.names(kind)} for kind, folder in lookup.FOLDERS.items()}

LOADED = """
import sys, {what}
print(*(m for m in sys.modules if m.partition(".")[0] == "troth"))
"""


@pytest.mark.parametrize(
    ("what", "most"), [("troth", 15), ("troth.plot", 45), ("troth.reports", 60)]
)
def test_what_an_import_loads(what, most):
    code = LOADED.format(what=what)
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = ran.stdout.split()
    far = r"troth\.(engine|federation|build|cli)(\.(?!packing)\w+)?"
    assert not [m for m in loaded if re.fullmatch(far, m) and m != "troth.engine"]
    assert len(loaded) <= most, loaded
