import dataclasses
import sys
import tomllib
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import lookup
from troth.config import reader
from troth.config.reader import from_dict, to_dict
from troth.config.schema import Adversary, CorruptionPart, Experiment, Part, Train
from troth.types import Refusal

WHOLE = """
seed = 0
data = {name = "npz", path = "x.npz"}
partition = {name = "classes", clients = 500, per_client = 5}
train = {rounds = 5000, cohort = 10, steps = 2, batch = 16, lr = 0.05}
evaluate = {every = 100}
attack = "model_replacement"
aggregator = "mean"
[model]
name = "cnn"
[personalizer]
name = "ditto"
lam = 1
[adversary]
fraction = 0.2              # rounded up; or count = 100
"""


@pytest.fixture
def other(monkeypatch):
    """A package of somebody else, with members of every shape."""
    module = types.ModuleType("other")
    module.__doc__ = "Theirs.\n\n@misc{theirs,\n  title={T}, year={2024}}\n"
    text = (
        "def part(x, *, a: float = 1, b: int | None = None,"
        " c: tuple[int, ...] = (1, 2), d: list[str] = []): 'A part.'\n"
        "def needy(*, must: int): 'Needs.'\n"
    )
    exec(text, module.__dict__)
    monkeypatch.setitem(sys.modules, "other", module)
    return module


def back(experiment):
    return from_dict(tomllib.loads(reader.dumps(to_dict(experiment))))


def test_the_whole_file_of_the_design():
    e = from_dict(reader.parse(WHOLE, "here"))
    assert e.train.rounds == 5000 and e.train.steps == 2 and e.train.epochs == 0
    assert e.partition.options["per_client"] == 5
    assert e.partition.split == [0.72, 0.08, 0.2]
    assert e.personalizer.name == "ditto" and e.personalizer.options["lam"] == 1.0
    assert type(e.personalizer.options["lam"]) is float
    assert e.corruption.name == "auto" and e.attack.name == "model_replacement"
    assert back(e) == from_dict(to_dict(e)) == e


def test_defaults_are_filled_in():
    e = from_dict({})
    assert (e.seed, e.name, e.data, e.filter) == (0, "", Part("digits"), [])
    assert e.partition.name == "iid" and e.partition.options == {"clients": 10}
    assert e.model.name == "linear" and e.model.normalize == "unit"
    assert e.solver.name == "fedavg" and e.aggregator.name == "mean"
    assert e.server == Part("sgd", {"lr": 1.0, "momentum": 0.0})
    assert e.personalizer.name == e.corruption.name == e.attack.name == "none"
    assert e.train.epochs == 1 and e.train.optimizer == Part("sgd")
    assert back(e) == from_dict(to_dict(e)) == e
    assert from_dict(to_dict(Experiment())) == e
    tree = to_dict(from_dict({"personalizer": "ditto"}))
    names = [f.name for f in dataclasses.fields(Experiment)]
    # neither trackers, nor anything resolved yet
    assert list(tree) == [n for n in names if n not in ("track", "resolved")]
    assert list(tree["train"]) == [f.name for f in dataclasses.fields(Train)]
    assert tree["train"]["schedule"] == {"name": "constant"}
    own = tree["personalizer"]
    assert list(own)[:5] == ["name", "steps", "epochs", "count", "lam"]
    assert (own["name"], own["steps"], own["lam"]) == ("ditto", 0, 1.0)
    assert own["candidates"] == [0.1, 1.0, 2.0]
    assert tree["adversary"] == {"fraction": 0.0}
    assert tree["output"] == {"personal": True, "checkpoint": True}


def test_shorthands():
    tree = tomllib.loads("""
        personalizer = {name = "ditto", optimizer = "adam", lr = 1, steps = 3}
        train = {optimizer = "momentum", schedule = {name = "steps", every = 5}}
        filter = "drop_invalid"
        aggregator = "median"
        partition = {valid = 0.1, split = "given"}  # iid, as without a name
        model = {normalize = "none"}
    """)
    e = from_dict(tree | {"data": None})
    assert e.personalizer.optimizer.options["beta1"] == 0.9
    assert e.train.optimizer == Part("momentum", {"beta": 0.9})
    assert e.train.schedule == Part("steps", {"every": 5, "factor": 0.5, "floor": 0.0})
    assert e.filter == from_dict({"filter": [{"name": "drop_invalid"}]}).filter
    assert e.filter == from_dict({"filter": {"name": "drop_invalid"}}).filter
    assert e.partition.name == "iid" and e.partition.options == {"clients": 10}
    assert e.partition.valid == 0.1 and e.model.name == "linear" and back(e) == e


def test_corruption_follows_the_adversary():
    for adversary in ({"fraction": 0.1}, {"count": 2}, {"clients": [0, 3]}):
        e = from_dict({"adversary": adversary})
        assert e.corruption.name == "auto" and back(e) == e
        clean = from_dict({"adversary": adversary, "corruption": "none"})
        assert clean.corruption == CorruptionPart("none") and back(clean) == clean
    for idle in ({"adversary": {"count": 0}}, {"corruption": {"name": "auto"}}):
        assert from_dict(idle).corruption.name == "none"
    assert Experiment(adversary=Adversary(0.2)).corruption.name == "auto"
    some = {"adversary": {"count": 1}, "corruption": {"share": 0.5, "redraw": True}}
    e, idle = from_dict(some), from_dict(some | {"adversary": {}})
    assert e.corruption == CorruptionPart("auto", {}, 0.5, True) and back(e) == e
    assert idle.corruption == CorruptionPart("none", {}, 0.5, True)


def test_third_party_parts(other):
    e = from_dict(dict(solver={"name": "other:part", "d": ["x"]}, attack="other:part"))
    expected = {"a": 1.0, "b": None, "c": (1, 2), "d": ["x"]}
    assert e.solver == Part("other:part", expected)
    assert type(e.solver.options["a"]) is float  # a default is typed as if given
    assert back(e) == from_dict(to_dict(e)) == e
    assert reader.fingerprint(back(e)) == reader.fingerprint(e)
    assert "@misc{theirs,\n  title={T}, year={2024}}" in reader.citations(e)
    with pytest.raises(Refusal, match="'other:needy' needs the option 'must': set "):
        from_dict({"solver": "other:needy"})


def test_a_run_writes_about_itself_and_the_tree_is_left_alone():
    e = from_dict({"resolved": {"chunk": 8, "versions": {"torch": "2.11"}}})
    assert e == from_dict({}) and e.resolved["chunk"] == 8
    assert to_dict(e)["resolved"] == {"chunk": 8, "versions": {"torch": "2.11"}}
    tree = {"filter": ["drop_invalid"], "partition": {"clients": 3}}
    e = from_dict(tree)
    to_dict(e)["partition"]["split"].append(0.0)
    assert tree == {"filter": ["drop_invalid"], "partition": {"clients": 3}}
    assert e.partition.split == [0.72, 0.08, 0.2]


REFUSED = """
agregator = 'mean' → an experiment has no section 'agregator' (did you mean 'a
gird = 'seed' → an experiment has no section 'gird' (did you mean 'grid'?)
grid.seed = [0] → a [grid] describes several experiments; expand it
train.round = 3 → [train] has no key 'round' (did you mean 'rounds'?); th
train = 3 | resolved = 3 → … is a whole number; it must be a table
solver = 3 → solver = 3 is a whole number; it must be a text or a table
solver = 'fedavk' → there is no solver 'fedavk' (did you mean 'fedavg'?); ther
solver.name = 3 | name = 3 → … is a whole number; it must be a text
solver = 'no.such:thing' → solver 'no.such:thing' cannot be imported (No modu
train.optimizer = 'adm' → there is no optimizer 'adm' (did you mean 'ada
train.optimizer = 1 → train.optimizer = 1 is a whole number; it must be
train.schedule = 'steps' → schedule 'steps' needs the option 'every': se
personalizer = {name='ditto', lamb=1} → personalizer 'ditto' has no opti ... mean 'lam'
personalizer = {name = 'ditto', lam = 'x'} → personalizer.lam = 'x' is a te
personalizer = {name = 'ditto', step = 1} → [personalizer] has no key 'step'
personalizer.lam = 1 → personalizer 'none' has no option 'lam'; it has no
personalizer.optimizer.beta = 1 → personalizer.optimizer does not sa
filter = [{}] → filter[0] does not say which filter; ... name to one of: ... drop_inv
filter = ['drop_invalid', 2] → filter[1] = 2 is a whole number; it must be a
attack = 'of' → there is no attack 'of'; ... model_replacement ... 'none' leaves it out
attack.factor = 2 → attack 'none' has no option 'factor'; set attack.name
corruption.p = 2 → corruption 'none' has no option 'p'; set corruption.na
seed = 1.5 → seed = 1.5 is a number; it must be a whole number
train = {steps = 1, epochs = 1} → train.steps = 1 and ... keep one of steps, epochs and
train.sampling = 'x' → there is no sampler 'x'; there are: ditto, ditto_fixed, size
train.precision = 'half' → train.precision = 'half' is not one of 'float3
personalizer = {steps = 1, epochs = 1} → personalizer.steps = 1 and personal
partition.split = [0.5, 0.5] | [0.8, 0.1, 0.2] | [nan, 0.1, 0.2] → … is not a divisi
partition.split = [1.0, 0.0, 0.0] | [0.0, 0.5, 0.5] | [1.5, -1.0, 0.5] → … is not a
partition.split = 'all' → partition.split = 'all' is a text; it must be a
partition.valid = 0.1 → partition.valid = 0.1 goes only with partition.sp
adversary = {fraction = 0.1, count = 1} → adversary.fraction = 0.1 and adver
adversary.clients = [1, 1] | [-1] → … does not name clients
engine.device = 'gpu' | 'cuda:' | 'cpu:1' → … is not a device; ... cpu, cuda, cuda:N
"""
"""TOML (or several values) → how the refusal begins (…: as TOML) ... what follows."""


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_refusals(row):
    texts, _, words = row.partition(" → ")
    for text in texts.split(" | "):
        if " = " not in text:
            text = f"{texts.partition(' = ')[0]} = {text}"
        with pytest.raises(Refusal) as refusal:
            from_dict(tomllib.loads(text))
        said, parts = str(refusal.value), words.replace("…", text).split(" ... ")
        assert said.startswith(parts[0]) and "\n" not in said
        assert [part for part in parts if part not in said] == []


OUT_OF_RANGE = """
    seed=-1 train.rounds=0 train.cohort=-1 train.steps=-1 train.epochs=-1 train.batch=-1
    train.lr=-0.1 train.lr=nan train.lr=inf train.weight_decay=-1 evaluate.every=-1
    evaluate.clients=-1 personalizer.lr=-1 partition.valid=1 partition.min_examples=-1
    adversary.fraction=1 adversary.fraction=-0.1 adversary.fraction=inf
    adversary.count=-1 engine.chunk=-1 checkpoint.seconds=-1 partition.correlation=0.0
    partition.correlation=1.1 partition.correlation=nan corruption.share=0
    corruption.share=1.1 corruption.share=nan corruption.share=inf
    deployment.deadline=2592001 deployment.scale=0
""".split()  # noqa: SIM905


def test_refusals_say_what_is_allowed():
    for assignment in OUT_OF_RANGE:
        key = assignment.partition("=")[0]
        with pytest.raises(Refusal, match=f"^{key} = .* out of range; it must be "):
            from_dict(tomllib.loads(assignment))
    for text, words in (
        ("personalizer.step = 1", "mean 'steps'.*it takes: lr, steps, ep"),
        ("train.lr = inf", "must be at least 0 and finite$"),
        ("train.lr = nan", "must be at least 0$"),
        ("adversary.fraction = 1", "must be at least 0 and below 1$"),
        ("partition.correlation = 0", "must be above 0 and at most 1$"),
    ):
        with pytest.raises(Refusal, match=words):
            from_dict(tomllib.loads(text))
    with pytest.raises(Refusal, match="the experiment = 3 is a whole number; it must"):
        from_dict(3)
    for device in ("auto", "cpu", "cuda", "cuda:3", "mps"):
        assert from_dict({"engine": {"device": device}}).engine.device == device


def test_number_of_hostile_clients():
    assert Adversary().number(10) == 0 and Adversary(0.2).number(500) == 100
    assert Adversary(0.21).number(10) == 3
    assert Adversary(0.1).number(30) == 3  # 0.1 · 30 = 3.0000000000000004
    assert Adversary(count=4).number(5) == 4
    assert Adversary(clients=[0, 4]).number(5) == 2
    assert not Adversary(count=0).present() and Adversary(0.1).present()
    for n in (1, 7, 10, 100, 515):
        assert all(Adversary(k / n).number(n) == k for k in range(n))
    for adversary in (Adversary(0.95), Adversary(count=10), Adversary(count=99)):
        with pytest.raises(Refusal, match=r"of 10 clients; at least one must stay ben"):
            adversary.number(10)
    with pytest.raises(Refusal, match="names client 9.*there are 5; the first is 0"):
        Adversary(clients=[9, 2]).number(5)


def test_fingerprint_tells_what_decides_the_numbers():
    base = reader.fingerprint(from_dict({}))
    assert len(base) == 12 and int(base, 16) >= 0
    for same in (
        {"name": "other"},
        {"engine": {"how": "loop", "chunk": 4}},
        {"checkpoint": {"every": 5}, "output": {"personal": False}},
        {"resolved": {"x": 1}},
        {"train": {"lr": 0.1, "epochs": 1}},
        {"corruption": "none"},
    ):
        assert reader.fingerprint(from_dict(same)) == base
    for another in (
        {"seed": 1},
        {"train": {"lr": 0.2}},
        {"train": {"precision": "float64"}},
        {"personalizer": "local"},
        {"adversary": {"count": 1}},
    ):
        assert reader.fingerprint(from_dict(another)) != base


def test_added_keys_leave_the_fingerprints_of_earlier_versions(monkeypatch):
    """The numbers are those of 0.1.0, except where a choice among models changed."""
    finetune = {"name": "finetune", "keep": "last"}
    classes = {"name": "classes", "clients": 7}
    for tree, known in (
        ({}, "50c9812ea9f3"),
        ({"personalizer": finetune}, "d387ec2f641c"),
        ({"personalizer": {**finetune, "select": "step"}}, "d387ec2f641c"),
        ({"partition": {**classes, "size": 0}}, "9b7a2cccfafe"),
    ):
        assert reader.fingerprint(from_dict(tree)) == known
    for tree, before in (
        ({"personalizer": {**finetune, "keep": "best"}}, "85fce0f44b9e"),
        ({"personalizer": "transfer"}, "4b0b0bf142ca"),
        ({"partition": {**classes, "size": 3}}, "9b7a2cccfafe"),
        ({"model": {"normalize": "fixed", "mean": [0.5], "std": [2]}}, "50c9812ea9f3"),
    ):
        assert reader.fingerprint(from_dict(tree)) != before

    def part(*, keep: str = "last", select: str = "a") -> None:
        """Have options of one's own with the names of added keys."""

    monkeypatch.setitem(sys.modules, "other", types.SimpleNamespace(part=part))
    own = [{"name": "other:part", "select": s} for s in "ab"]
    assert len({reader.fingerprint(from_dict({"personalizer": p})) for p in own}) == 2


def test_citations_each_once_and_in_order(monkeypatch):
    text = "\n".join(reader.citations(from_dict({"personalizer": "ditto"})))
    assert "Ditto" in text and text.count("@") >= 2
    twice = ["@a{x, year={1}}", "@b{y, z={1}}"]
    entries = {"fedavg": ["@a{x,\n year={1}}"], "mean": twice}

    def about(kind, name):
        seen.append((kind, name))
        return lookup.About(name, "", {}, entries.get(name, []))

    seen = []
    monkeypatch.setattr(lookup, "about", about)
    e = from_dict({"filter": "drop_invalid", "personalizer": {"optimizer": "adam"}})
    assert reader.citations(e) == ["@a{x,\n year={1}}", "@b{y, z={1}}"]
    assert ("filter", "drop_invalid") in seen and ("optimizer", "adam") in seen
    assert not {("attack", "none"), ("corruption", "none")} & {*seen}


def test_a_file_changed_and_expanded(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(WHOLE + "[grid]\nseed = [0, 1]\n")
    sets = ["train.rounds=7", "model=mlp", "grid.personalizer.lam=[0.1, 2]"]
    tree = reader.override(reader.read(path), sets)
    runs = [(reader.label(c), from_dict(t)) for c, t in reader.expand(tree)]
    names = ["seed=0,lam=0.1", "seed=0,lam=2", "seed=1,lam=0.1", "seed=1,lam=2"]
    assert [name for name, _ in runs] == names
    assert all(e.train.rounds == 7 and e.model.name == "mlp" for _, e in runs)
    assert reader.differences(to_dict(runs[0][1]), to_dict(runs[3][1])) == {
        "seed": (0, 1),
        "personalizer.lam": (0.1, 2.0),
    }
    [(_, tree)] = reader.expand({"grid": {"train.rouns": [1]}})
    with pytest.raises(Refusal, match="has no key 'rouns' .did you mean 'rounds'"):
        from_dict(tree)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "seed": st.integers(0, 2**64),
            "name": st.text(st.characters(exclude_categories=["Cs"])),
            "aggregator": st.sampled_from(["mean", "median"]),
            "attack": st.sampled_from(["none", "model_replacement"]),
            "filter": st.lists(st.just("drop_invalid"), max_size=2),
            "train": st.fixed_dictionaries(
                {"lr": st.floats(0, 1e300), "optimizer": st.just("adam")},
                optional={"steps": st.integers(0, 99), "drop_last": st.booleans()},
            ),
            "adversary": st.one_of(
                st.fixed_dictionaries({"fraction": st.floats(0, 0.999)}),
                st.fixed_dictionaries(
                    {"clients": st.sets(st.integers(0, 9)).map(list)}
                ),
            ),
        },
    )
)
def test_round_trip(tree):
    e = from_dict(tree)
    assert back(e) == from_dict(to_dict(e)) == e and to_dict(back(e)) == to_dict(e)
    assert reader.fingerprint(back(e)) == reader.fingerprint(e)


@pytest.mark.parametrize("kind", ["partition", "model", "personalizer"])
def test_no_option_hides_behind_a_key_of_its_section(kind):
    common = {f.name for f in dataclasses.fields(getattr(Experiment(), kind))}
    for name in lookup.names(kind):
        assert not common & {*lookup.options(lookup.find(kind, name))}
