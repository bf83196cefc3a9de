"""A new experiment file, the schema for editors, and what a shell completes."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from troth import lookup
from troth.cli.commands import new


def test_a_new_file_runs(troth, refused, tmp_path):
    path = tmp_path / "mine.toml"
    settings = ("train.rounds=1", "train.steps=1", "engine.how=loop")
    changes = [word for s in settings for word in ("--set", s)]
    own = ("--personalizer", "local", "--model", "linear")
    result = troth("new", path, *own, *changes)
    assert result.exit_code == 0 and f"troth run {path}" in result.stderr
    assert tomllib.loads(path.read_text())["personalizer"] == {"name": "local"}
    result = troth("run", path, "--out", tmp_path / "run", "--json", "--quiet")
    assert json.loads(result.stdout)["runs"]
    assert "exists already" in refused("new", path)
    assert "did you mean 'mlp'" in refused("new", "-", "--model", "mpl")


def test_a_new_file_can_be_printed(troth):
    result = troth("new", "-", "--full")
    assert "[deployment]" in result.stdout and not result.stderr
    assert len(result.stdout) > len(troth("new", "-").stdout)


def test_the_schema_is_json(troth):
    assert json.loads(troth("schema").stdout)["properties"]["seed"]["type"] == "integer"


@pytest.mark.parametrize(
    "kind", ["data", "partition", "model", "personalizer", "attack", "aggregator"]
)
def test_members_are_completed(kind):
    said = new.new.__annotations__[kind].__metadata__[0].autocompletion("")
    assert said == lookup.names(kind)


def test_a_shell_completes_names_of_members():
    words = {"COMP_WORDS": "troth new --attack mi", "COMP_CWORD": "3"}
    asked = os.environ | words | {"_TROTH_COMPLETE": "complete_bash"}
    code = "from troth.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=asked, capture_output=True, text=True
    )
    assert done.stdout.split() == ["mimic", "min_max", "min_sum"], done.stderr
