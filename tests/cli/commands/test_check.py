import json


def test_check(troth):
    done = troth("check", "mlp", "--shape", "1,4,4", "--classes", "3", "--json")
    found = json.loads(done.stdout)
    assert found["layers"][-1]["kind"] == "Linear" and found["model"] == "mlp"
    text = troth("check", "mlp", "--shape", "1,4,4").stdout
    assert text.count("together") >= 3 and " ms (one client at a time), " in text


def test_shapes_that_are_none(refused):
    for shape in ("1,0", "a", "", "3,-1"):
        assert "must be whole numbers above 0" in refused(
            "check", "mlp", "--shape", shape
        )
