import json


def test_bench(troth, monkeypatch):
    from troth.runs import bench

    row = {"model": "tiny", "clients": 4, "device": "cpu", "loop_us": 400.0}
    row |= {"engine_us": 40.0, "ratio": 10.0, "plan": {"how": "vmap", "chunk": 4}}
    monkeypatch.setattr(bench, "measure", lambda quick: [row] * (1 if quick else 2))
    assert json.loads(troth("bench", "--quick", "--json").stdout) == {"rows": [row]}
    text = troth("bench").stdout
    assert text.count("tiny") == 2 and "10.0×" in text and "vmap 4" in text
