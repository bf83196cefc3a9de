"""The borders of docs/explanation/architecture.md: what the imports of all modules say.

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
BASICS = """
    types progress devices compat networks.kernels numerics seeding files lookup
    data.labels
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
    evaluation.metrics evaluation.scores federation.samplers theory
    engine certificates evaluation server federation data build trackers
    runs api sklearn plot examine poison deployment deployment.flower
    reports.cards reports reports.live reproduce
    cli cli.commands cli.app __init__ __main__
    """.split(),  # noqa: SIM905
]
DRAWS = re.compile(
    r"(np|numpy)\.random\..*|torch\.random\..*|torch\.(Generator|seed|initial_seed)"
    r"|torch\.(rand(?!om$)|manual_seed|normal|bernoulli|multinomial|poisson).*"
    r"|.*\.(normal_|uniform_|random_|bernoulli_|exponential_|geometric_|log_normal_)"
)
MAY_DRAW = {
    "runs.bench": ".*",  # what it measures is no result
    "networks.build": r"torch\.(random\.fork_rng|manual_seed)",  # models draw
    "networks.models.vgg13_bn": r"nn\.init\.normal_",
    "networks.validate": r"torch\.random\.(fork_rng|get_rng_state)",  # trials do not
    "data.partitions.classes": r"np\.random\.RandomState",  # the Ditto authors' recipe
    "reproduce.rows": r"np\.random\.RandomState",  # the Ditto authors' malicious ids
    # and their cohorts
    "federation.samplers.ditto": r"np\.random\.RandomState",
    "federation.samplers.ditto_fixed": r"np\.random\.RandomState",
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


@cache
def own(module):
    """The modules of troth that a module imports, such as `data.datasets.npz`."""
    found = set()
    for name in imports(module):
        first, _, rest = name.partition(".")
        if first == "troth" and rest not in ("", "__version__"):
            ways = rest, rest.rpartition(".")[0], "__init__"
            known = (w for w in ways if w in MODULES or f"{w}.__init__" in MODULES)
            found.add(next(known))
    return frozenset(found)


def node(module):
    """The root module, room or folder that a module belongs to."""
    module = module.removesuffix(".__init__")
    return module if module in ORDER else module.rpartition(".")[0] or module


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


@cache
def names(module):
    """Everything it calls by name or attribute, dotted where it is written dotted."""
    nodes = [*ast.walk(parsed(module))]
    found = {part.id for part in nodes if isinstance(part, ast.Name)}
    found |= {ast.unparse(part) for part in nodes if isinstance(part, ast.Attribute)}
    return found | {name for name in imports(module) if not name.startswith("troth.")}


def packages(module):
    return {name.split(".")[0] for name in imports(module)}


def within(*rooms):
    return [m for m in MODULES if any(m == r or m.startswith(f"{r}.") for r in rooms)]


def test_the_root_is_small():
    entries = [p for p in SOURCE.iterdir() if p.name != "__pycache__"]
    assert len(entries) <= 35, sorted(p.name for p in entries)
    assert len([p for p in entries if p.suffix == ".py"]) <= 12
    deep = [m for m in MODULES if m.count(".") > 2]
    assert not deep, f"more than three levels: {deep}"


def test_every_node_has_its_place():
    assert len(ORDER) == len({*ORDER})
    assert {node(module) for module in MODULES} == {*ORDER}


def test_data_flow_one_way():
    """A node imports only what stands before it in `ORDER`."""
    place = {name: k for k, name in enumerate(ORDER)}
    arrows = [(module, other) for module in MODULES for other in own(module)]
    assert [(a, b) for a, b in arrows if place[node(b)] > place[node(a)]] == []


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
    speak, shells = (
        {"print", "input", "sys.stdout", "sys.stderr"},
        {"rich", "typer", "click"},
    )
    silent = [m for m in MODULES if not m.startswith("cli.")]
    assert [m for m in silent if packages(m) & shells or names(m) & speak] == []


def test_only_its_folder_knows_flower():
    flower = within("deployment.flower")
    assert not [m for m in MODULES if m not in flower and "flwr" in packages(m)]


def test_one_module_knows_what_is_inside_flower():
    """All others use Flower's public API."""
    public = {"app", "client", "clientapp", "common", "server", "serverapp"}
    inside = {
        module
        for module in MODULES
        for name in imports(module)
        if name.startswith("flwr.") and name.split(".")[1] not in public
    }
    assert inside == {"deployment.flower.transport"}


def test_one_vmap_and_one_compiler():
    lifts, compiles = set(), set()
    for module in MODULES:
        used = {part for name in names(module) for part in name.split(".")}
        if {"_inductor", "_dynamo", "make_fx"} & used:
            compiles.add(module)
        if {"torch.compile", "torch.jit"} & names(module):
            compiles.add(module)
        if "torch.func.vmap" in names(module) | imports(module):
            lifts.add(module)
    assert lifts <= {"engine.vmap", "networks.validate"}
    assert compiles <= {"engine.vmap", "compat"}


def test_one_module_knows_what_is_inside_torch():
    """All others use torch's public API; `compat` has the private interfaces."""
    private = re.compile(
        r"torch\.(\w+\.)*_[a-zA-Z]\w*(\..*)?|torch\.fx\.experimental.*"
    )
    found = {
        module: {n for n in names(module) | imports(module) if private.fullmatch(n)}
        for module in MODULES
    }
    inside = {module: sorted(of) for module, of in found.items() if of}
    assert {*inside} == {"compat"}, inside


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


def test_machinery_imports_no_member():
    places = ("reproduce", "examine", "poison")  # about named methods by themselves
    members = {
        f"{f}.{name}" for k, f in lookup.FOLDERS.items() for name in lookup.names(k)
    }
    machinery = [m for m in MODULES if node(m) not in KINDS and m[-8:] != "__init__"]
    assert [
        f"{module} imports {name}"
        for module in machinery
        if not module.startswith(places)
        for name in imports(module)
        if members & {".".join(name.split(".")[1:k]) for k in (3, 4, 5)}
    ] == []


LOADED = """
import sys
for what in sys.argv[1:]:
    __import__(what)
    print(*(m for m in sys.modules if m.partition(".")[0] == "troth"))
"""


def test_what_an_import_loads():
    """How many modules are there at most after one import and the next."""
    most = {"troth": 15, "troth.plot": 45, "troth.reports": 60}
    command = [sys.executable, "-c", LOADED, *most]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    every = [line.split() for line in ran.stdout.splitlines()]
    far = r"troth\.(engine|federation|build|cli)(\.(?!packing)\w+)?"
    assert [m for m in every[-1] if re.fullmatch(far, m) and m != "troth.engine"] == []
    assert [len(m) <= n for m, n in zip(every, most.values(), strict=True)] == [
        True
    ] * 3


PASSED = """
import sys, troth
passed = set()

def note(frame, event, argument):
    code = frame.f_code
    if code.co_name != "<module>" and code.co_filename.startswith({source!r}):
        passed.add(code.co_filename[{start}:-3].replace("/", "."))

sys.setprofile(note)
part = {{"name": "iid", "clients": 4}}
train = {{"rounds": 2, "steps": 1, "batch": 8}}
troth.run({{"data": "digits", "partition": part, "train": train}}, out={out!r})
sys.setprofile(None)
print(*passed)
"""


@pytest.mark.slow("profiles a whole run")
def test_a_run_passes_few_modules(tmp_path):
    """Those of which a function or class body runs; not kinds, nor the command line."""
    source = f"{SOURCE}/"
    code = PASSED.format(source=source, start=len(source), out=str(tmp_path / "run"))
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    passed = {
        module for module in ran.stdout.split() if not module.endswith("__init__")
    }
    outside = {m for m in passed if node(m) not in KINDS and not m.startswith("cli.")}
    assert len(outside) <= 53, sorted(outside)
