"""Runs on the same data are the same bytes, wherever the data come from."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

import troth

OWNER = np.sort(np.arange(60) % 3)
X = np.random.default_rng(0).normal(size=(60, 3)).astype("float32")
Y = (X[:, 0] > 0).astype(int)
NAMES = np.array(["Aosta", "Bern", "Ulm"])[OWNER]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(sick=Y, site=NAMES)
ROLES = {"label": "sick", "owner": "site"}
FILES = ("clients.csv", "rounds.jsonl", "shared.safetensors", "personal.safetensors")


def run(out, data=None, section=None):
    tree = {
        "partition": "natural",
        "train": {"rounds": 3},
        "personalizer": "ditto",
        "engine": {"how": "loop"},
        **({"data": section} if section else {}),
    }
    [found] = troth.run(tree, data=data, out=out)
    return [(found.path / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """The bytes of the run on an .npz file."""
    place = tmp_path_factory.mktemp("npz")
    np.savez(place / "mine.npz", x=X, y=Y, owner=NAMES)
    return run(place / "run", section={"name": "npz", "path": str(place / "mine.npz")})


def arrow():
    return pytest.importorskip("datasets").Dataset.from_pandas(FRAME)


def parts():
    return {
        name: TensorDataset(torch.tensor(X[k == OWNER]), torch.tensor(Y[k == OWNER]))
        for k, name in enumerate(sorted({*NAMES}))
    }


def pairs():
    return TensorDataset(torch.tensor(X), torch.tensor(Y))


@pytest.mark.parametrize(
    ("data", "roles"),
    [
        (lambda: {"x": X, "y": Y, "owner": NAMES}, {}),
        (lambda: FRAME, ROLES),
        (lambda: FRAME.astype({"site": "category"}), ROLES),
        (parts, {}),
        (lambda: {"dataset": pairs(), "owner": NAMES}, {}),
        (arrow, ROLES),
    ],
    ids=["arrays", "frame", "category", "one per client", "one", "hugging face"],
)
def test_in_memory(tmp_path, wanted, data, roles):
    assert run(tmp_path / "run", data(), roles) == wanted


def leaf_file(place):
    data = {
        name: {"x": X[name == NAMES].tolist(), "y": Y[name == NAMES].tolist()}
        for name in NAMES.tolist()
    }
    counts = [len(user["y"]) for user in data.values()]
    text = {"users": [*data], "num_samples": counts, "user_data": data}
    (place / "leaf.json").write_text(json.dumps(text))
    return {"name": "leaf", "path": str(place / "leaf.json")}


def csv_file(place):
    FRAME.to_csv(place / "mine.csv", index=False)
    return {"name": "csv", "path": str(place / "mine.csv"), **ROLES}


def sites(place):
    for name, rows in FRAME.groupby("site"):
        rows.drop(columns="site").to_csv(place / f"{name}.csv", index=False)
    return {"name": "table", "path": str(place), "label": "sick"}


def parquet(place):
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(place / "mine.parquet")
    return {"name": "table", "path": str(place / "mine.parquet"), **ROLES}


def feather(place):
    pytest.importorskip("pyarrow")
    FRAME.to_feather(place / "mine.feather")
    return {"name": "table", "path": str(place / "mine.feather"), **ROLES}


def saved(place):
    arrow().save_to_disk(place / "saved")
    return {"name": "table", "path": str(place / "saved"), **ROLES}


@pytest.mark.parametrize("file", [leaf_file, csv_file, sites, parquet, feather, saved])
def test_from_files(tmp_path, wanted, file):
    place = tmp_path / "data"
    place.mkdir()
    assert run(tmp_path / "run", section=file(place)) == wanted


def test_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (48, 4, 4), dtype=np.uint8)
    owner = np.repeat(["o", "p"], 24)
    label = np.repeat([0, 1, 0, 1], 12)
    for i, image in enumerate(pixels):
        place = tmp_path / "data" / owner[i] / "ab"[label[i]] / f"{i:02}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place)
    np.savez(tmp_path / "mine.npz", x=pixels, y=label, owner=owner)
    images = {"name": "image_folder", "path": str(tmp_path / "data"), "colors": "gray"}
    arrays = {"name": "npz", "path": str(tmp_path / "mine.npz")}
    found = [run(tmp_path / s["name"], section=s) for s in (images, arrays)]
    assert found[0] == found[1]
