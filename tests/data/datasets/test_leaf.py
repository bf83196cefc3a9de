"""LEAF's files of any data set."""

import json

import numpy as np

from troth.data.datasets.leaf import leaf

USERS = {"u": ([[1, 2], [3, 4.5]], [0, 2]), "t": ([[5, 6]], [1])}


def written(place, users):
    place.parent.mkdir(parents=True, exist_ok=True)
    data = {name: {"x": x, "y": y} for name, (x, y) in users.items()}
    counts = [len(y) for _, y in users.values()]
    text = {"users": [*users], "num_samples": counts, "user_data": data}
    place.write_text(json.dumps(text))
    return str(place)


def test_users_are_owners(tmp_path):
    path = written(tmp_path / "all.json", USERS)
    for found in (leaf(path=path), leaf(path=str(tmp_path))):
        assert found.x.tolist() == [[1, 2], [3, 4.5], [5, 6]]
        assert found.x.dtype == np.float32 and found.classes == 3
        assert found.y.tolist() == [0, 2, 1] and found.split is None
        assert found.owners == ("t", "u") and found.owner.tolist() == [1, 1, 0]


def test_train_and_test_are_the_split(tmp_path):
    written(tmp_path / "train" / "a.json", USERS)
    written(tmp_path / "test" / "a.json", {"u": ([[7, 8]], [0])})
    found = leaf(path=str(tmp_path), shape=[1, 2, 1], classes=5, scale=8.0)
    assert found.x.shape == (4, 1, 2, 1) and found.scale == 8 and found.classes == 5
    assert found.split.tolist() == [0, 0, 0, 2] and found.owner.tolist() == [1, 1, 0, 1]


def test_refuses(tmp_path, refuses):
    refuses("there is no .json file in", leaf, path=str(tmp_path))
    path = written(tmp_path / "all.json", USERS)
    refuses("x of 'u' is not 3 numbers", leaf, path=path, shape=[3])
    path = written(tmp_path / "a.json", USERS | {"v": ([[1, 2, 3]], [0])})
    refuses(r"inputs of \[2, 3\] numbers; all", leaf, path=path)
    path = written(tmp_path / "b.json", {"u": (["to be", "or not"], [0, 1])})
    refuses("'u' holds what is no finite number", leaf, path=path)
    path = written(tmp_path / "c.json", {"u": ([], [])})
    refuses("hold no examples", leaf, path=path)
