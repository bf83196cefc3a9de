import json

import pytest

from troth import build, devices
from troth.config import reader
from troth.engine import plan as plans
from troth.engine import trial as plan_cache
from troth.engine.local_training import Plan
from troth.engine.trial import Choice, Trial

CHOICE = Choice(Plan("vmap", 3, 2), 0.25)
WISH = Plan("auto", 0, 0, 1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache that does not exist yet."""
    monkeypatch.setenv("TROTH_PLANS", str(tmp_path / "plans"))
    return tmp_path / "plans"


def facts(tree, clients=7, steps=3, wish=WISH):
    made = build.build(reader.from_dict(tree), plan=Plan("loop", 1))
    return plan_cache.facts(made.federation.engine, clients, steps, wish, "")


def test_a_choice_is_read_again(tree, folder):
    known = facts(tree)
    assert plan_cache.read(known) is None and not folder.exists()
    plan_cache.write(known, CHOICE._replace(plan=Plan("vmap", 3, 2, threads=8)))
    assert plan_cache.read(known) == CHOICE  # the load decides the threads
    compiled = CHOICE._replace(compiled=True)
    plan_cache.write(known, compiled)
    assert plan_cache.read(known) == compiled
    assert len(list(folder.iterdir())) == 1  # no temporary file is left


def test_what_decides_the_speed_is_part_of_the_key(tree, monkeypatch, folder):
    plan_cache.write(facts(tree), CHOICE)
    assert plan_cache.read(facts({**tree, "seed": 5, "name": "other"})) == CHOICE
    train = tree["train"]
    keys = []
    monkeypatch.setattr(plan_cache, "read", keys.append)
    for change in ({}, {"personalizer": "ditto"}, {"solver": "fedprox"}):
        build.build(reader.from_dict(tree | change))
    assert len({str(key) for key in keys}) == 3
    monkeypatch.undo()
    monkeypatch.setenv("TROTH_PLANS", str(folder))
    plan_cache.write(facts(tree), CHOICE)
    for change in (
        {"model": {"name": "mlp", "widths": [4]}},
        {"train": train | {"batch": 3}},
        {"train": train | {"precision": "float32"}},
    ):
        assert plan_cache.read(facts(tree | change)) is None, change
    assert plan_cache.read(facts(tree, clients=6)) is None
    assert plan_cache.read(facts(tree, wish=WISH._replace(chunk=2))) is None
    monkeypatch.setattr(devices, "name", lambda device: "another processor")
    assert plan_cache.read(facts(tree)) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\x00", b"[]", b"3", b"{}", b'{"how": "vmap"', None]
    + [
        json.dumps(
            {"how": "vmap", "chunk": 1, "workers": 1, "seconds": 1.0, "compiled": False}
            | wrong
        ).encode()
        for wrong in (
            {"how": "fast"},
            {"how": ["vmap"]},
            {"chunk": 0},
            {"chunk": True},
            {"workers": "2"},
            {"seconds": "soon"},
        )
    ],
)
def test_a_damaged_file_is_ignored_and_replaced(tree, folder, content):
    known = facts(tree)
    plan_cache.write(known, CHOICE)
    (file,) = folder.iterdir()
    if content is None:
        file.unlink()
        file.mkdir()  # cannot be read, and cannot be replaced
    else:
        file.write_bytes(content)
    assert plan_cache.read(known) is None
    plan_cache.write(known, CHOICE)
    assert (plan_cache.read(known) == CHOICE) == (content is not None)


def test_a_folder_that_cannot_be_written_is_no_error(tree, folder):
    folder.write_text("a file")
    plan_cache.write(facts(tree), CHOICE)
    assert plan_cache.read(facts(tree)) is None


def test_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TROTH_PLANS", "~/plans")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert plan_cache.folder() == tmp_path / "plans"
    monkeypatch.delenv("TROTH_PLANS")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert str(plan_cache.folder()) == "/c/troth/plans"


def test_the_second_run_measures_nothing(tree, monkeypatch):
    """And a choice that memory no longer allows is measured again."""
    experiment = reader.from_dict(tree)
    first = build.build(experiment).federation.engine.plan
    once, asked = Trial.once, []
    spy = lambda self, plan: asked.append(plan) or once(self, plan)  # noqa: E731
    monkeypatch.setattr(Trial, "once", spy)
    assert build.build(experiment).federation.engine.plan[:3] == first[:3]
    assert asked == []
    for file in plan_cache.folder().iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | WHOLE))
    assert build.build(experiment).federation.engine.plan[:3] == ("vmap", 7, 1)
    monkeypatch.setattr(plans, "_fits", lambda engine, n: 2)
    build.build(experiment)
    assert asked and max(plan.chunk for plan in asked) <= 2


WHOLE = {"how": "vmap", "chunk": 7, "workers": 1, "seconds": 0.001}
