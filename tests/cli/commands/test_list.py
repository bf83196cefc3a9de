import json

import pytest


@pytest.mark.parametrize(("given", "most"), [("", 100), ("72", 72), ("x", 100)])
def test_a_piped_list_is_wrapped(troth, monkeypatch, given, most):
    monkeypatch.setenv("COLUMNS", given)
    lines = troth("list", "aggregator").stdout.splitlines()
    assert max(map(len, lines)) == most
    names = {line.split(" ")[0] for line in lines}
    assert {"geometric_median", "centered_clipping"} <= names  # in one piece


def test_list(troth, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    result = troth("list", "personalizer")
    assert result.exit_code == 0 and result.stderr == ""
    (line,) = (x for x in result.stdout.splitlines() if x.startswith("ditto "))
    assert "lam = 1.0" in line and "li2021ditto" in line
    assert "clients (required)" in troth("list", "partition").stdout
    every = json.loads(troth("list", "--json").stdout)["kinds"]
    assert {"data", "model", "aggregator", "metric"} <= set(every)
    methods = {m["name"]: m for m in every["partition"]}
    assert methods["classes"]["options"]["clients"] == {
        "required": True,
        "default": None,
    }
    assert methods["classes"]["options"]["per_client"]["default"] == 5
    assert methods["classes"]["summary"] and methods["classes"]["citations"]


def test_one_method(troth, refused):
    """Its docstring explains the options, which the table only names."""
    result = troth("list", "personalizer", "ditto")
    assert result.exit_code == 0 and result.stderr == ""
    first, _, summary, *_, last = result.stdout.splitlines()
    assert first == "personalizer ditto" and summary.startswith("Train personal models")
    assert (
        "moving" in result.stdout and "personalizer.lam: default 1.0" in result.stdout
    )
    assert last.startswith("personalizer.few: default ")
    found = json.loads(troth("list", "personalizer", "ditto", "--json").stdout)
    assert [m["name"] for m in found["kinds"]["personalizer"]] == ["ditto"]
    assert "there is no personalizer 'dito'" in refused("list", "personalizer", "dito")
