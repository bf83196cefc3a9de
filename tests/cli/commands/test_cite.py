import json


def test_cite(troth, one, grid):
    text = troth("cite").stdout
    assert text.count("@inproceedings{li2021ditto,") == 1
    assert "bagdasaryan2020backdoor" in text and text.startswith("@")
    alone = troth("cite", one[0]).stdout
    assert "bagdasaryan" not in alone and "alpaydin1998digits" in alone
    assert "li2021ditto" not in alone  # `local` has no use for a regularizer
    assert alone.count("@inproceedings{mcmahan2017communication,") == 1
    assert "li2021ditto" in troth("cite", grid[0]).stdout
    found = json.loads(troth("cite", one[0].parent / "tiny.toml", "--json").stdout)
    assert found["citations"][0].startswith("@misc{alpaydin1998digits,")
