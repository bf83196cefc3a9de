import json


def test_list(troth):
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
