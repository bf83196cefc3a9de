"""The offline files of Weights & Biases hold the values of a run."""

import json
import sys

import pytest

from troth.config.schema import Part
from troth.runs import track
from troth.types import Refusal


def test_without_the_package_the_remedy_is_named(grid, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(Refusal, match="pip install wandb"):
        track.track([grid[0].path], Part("wandb"))


def records(data, block=2**15):
    """The records of a file in the log format of LevelDB, after a header of 7 bytes."""
    at, parts = 7, []
    while at + 7 <= len(data):
        if block - at % block < 7:  # no room for a head: the next block begins
            at += block - at % block
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts.append(data[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


@pytest.mark.filterwarnings("ignore")
def test_values_read_back_are_ours(grid, expected, tmp_path):
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    part = Part("wandb", {"mode": "offline", "folder": str(tmp_path)})
    (place,) = track.track([grid[0].path], part).places
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert place == str(file.parent / "files")
    found, settings = {}, {}
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        items = {
            "/".join(item.nested_key) or item.key: json.loads(item.value_json)
            for item in record.history.item
        }
        if record.history.item:
            step = record.history.step.num or items.get("_step")
            found[step] = {k: v for k, v in items.items() if k[0] != "_"}
        for item in record.run.config.update:
            settings[item.key] = json.loads(item.value_json)
    assert settings["train.rounds"] == "4"
    for name, values in expected(grid[0]).items():
        assert {step: found[step][name] for step in values} == values
