import os

import numpy as np
import pytest

from troth.config import reader
from troth.data import load


def experiment(**sections):
    return reader.from_dict({"partition": {"name": "iid", "clients": 2}, **sections})


@pytest.fixture
def own(tmp_path):
    def saved(**more):
        x = np.arange(40, dtype=np.float32).reshape(20, 2)
        path = tmp_path / "mine.npz"
        np.savez(path, **{"x": x, "y": np.arange(20) % 2, **more})
        return experiment(data={"name": "npz", "path": str(path)}), path

    return saved


def test_data_are_kept_until_they_change(own, refuses):
    first, shards, facts = load.deal(experiment(), None)
    facts["clients"] = 99
    again, _, fresh = load.deal(experiment(train={"lr": 1.0}), None)
    assert again is first and fresh["clients"] == 2
    other, _, _ = load.deal(experiment(seed=1), None)
    assert other is not first
    e, path = own()
    first, _, _ = load.deal(e, None)
    assert load.deal(e, None)[0] is first
    was = os.stat(path)
    own(y=1 - np.arange(20) % 2)  # the same length
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns + 1))
    assert load.deal(e, None)[0].y.tolist() == [1, 0] * 10
    path.unlink()
    refuses("there is no file", load.deal, e, None)


def test_facts_about_leaks_and_owners(own, refuses):
    e, path = own(x=np.repeat(np.arange(2, dtype=np.float32), 10)[:, None])
    facts = load.deal(e, None)[2]
    assert facts["leaked"] == 0 and facts["duplicates"] == 4

    def dealt(**partition):
        data = {"name": "npz", "path": str(path)}
        partition = {"name": "iid", "clients": 2} | partition
        return load.deal(experiment(data=data, partition=partition), None)

    assert "duplicates" not in dealt(leakage="allow")[2]
    words = "leakage = 'refuse', and of 4 test examples"
    refuses(words, dealt, leakage="refuse")
    own(owner=np.arange(20) // 4)
    arrays, shards, _ = dealt(name="identities", split_by="owner")
    for k in range(2):
        train, test = (set(arrays.owner[part[k]]) for part in shards[:3:2])
        assert train and test and not train & test


def test_names_of_features_are_written_down(own, tmp_path):
    assert "features" not in load.deal(own()[0], None)[2]
    body = "".join(f"{i},{'fm'[i % 2]},{i % 3 > 0}\n" for i in range(20))

    def facts(head):
        path = tmp_path / "t.csv"
        path.write_text(f"{head}\n{body}")
        data = {"name": "csv", "path": str(path), "label": "ill"}
        return load.deal(experiment(data=data), None)[2]

    named = facts("age,sex,ill")
    assert named["features"] == ["age", "sex=f", "sex=m"]
    assert named["labels"] == ["False", "True"]
    assert "features" not in facts("sex=f,sex,ill")  # it would name two things


GUEST = """
import numpy as np

from troth.types import Arrays


def halves(*, called: str = "hard", clients: int = 2) -> Arrays:
    return Arrays(np.zeros((20, 2)), np.arange(20) % 2, 2)


def dealt(arrays, shards, seed, *, called, clients):
    return arrays, shards._replace(tests={called: shards.test[:clients]})
"""


def test_a_guest_may_change_its_data_once_dealt(tmp_path, monkeypatch, refuses):
    (tmp_path / "guest_halves.py").write_text(GUEST)
    monkeypatch.syspath_prepend(str(tmp_path))

    def deal(**options):
        data = {"name": "guest_halves:halves", **options}
        partition = {"name": "iid", "clients": 2}
        return load.deal(experiment(data=data, partition=partition), None)

    assert list(deal()[1].tests) == ["hard"]
    for name in ("test", "two words", "client"):
        refuses(f"a test set '{name}' .* must be one word", deal, called=name)
    refuses("for 1 of 2 clients", deal, clients=1)


def test_clients_have_the_names_of_their_owners(own):
    """Also if some owners are left out, and if names are numbers."""
    names = np.repeat(["Ulm", "Bern", "Aosta"], [9, 1, 10])
    for owner, wanted in (
        (names, ["Aosta", "Ulm"]),
        (np.repeat([7, 3, 5], [9, 1, 10]), ["5", "7"]),
        (np.repeat([0, 2, 1], [9, 1, 10]), None),
    ):
        e, path = own(owner=owner)
        data = {"name": "npz", "path": str(path)}
        part = {"name": "natural", "min_examples": 5}
        assert (
            load.deal(experiment(data=data, partition=part), None)[2].get("owners")
            == wanted
        )
        assert "owners" not in load.deal(e, None)[2]  # clients of several owners
    assert "owners" not in load.deal(experiment(), None)[2]
