"""Results: packed tables and loose files are one."""

import lzma

import pytest

from troth.reproduce import store
from troth.reproduce.store import TABLE, Store, named, slug
from troth.types import Refusal


def test_packed_and_loose_results_are_one(tmp_path):
    home = Store(tmp_path)
    assert home.records() == {} and home.pack() == 0 and not [*tmp_path.iterdir()]
    for name, value in (("b/x, λ=1", 1), ("a/y", 2)):
        home.put(name, {"value": value, "bad": float("nan")})
    assert [*home.records()] == ["a/y", "b/x, λ=1"] and len(home.loose()) == 2
    before = home.records()
    assert home.pack() == 2 and home.loose() == [] and home.records() == before
    first = (tmp_path / TABLE).read_bytes()
    home.put("a/y", {"value": 3, "bad": None})
    assert home.records()["a/y"]["value"] == 3  # the loose one counts
    assert home.find("b/*") == [before["b/x, λ=1"]] and home.get("c") is None
    assert [one["value"] for one in named(tmp_path.parent, f"{tmp_path.name}/a/*")] == [
        3
    ]
    home.put("a/y", {"value": 2, "bad": None})
    assert home.pack() == 1 and (tmp_path / TABLE).read_bytes() == first


def test_names_of_files_are_ascii():
    one, other = slug("a, λ=1 / ü"), slug("a, μ=1 / ü")
    assert one != other and one.isascii() and " " not in one + slug("x " * 200)
    assert len(slug("x " * 200)) < 100


def test_only_what_is_a_result_of_this_version_counts(tmp_path, monkeypatch):
    for k, text in enumerate(["[" * 100_000, "{}", "null", "1", "", "\udcff", "[]"]):
        (tmp_path / f"x~{k}.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "y~.json").mkdir()
    home = Store(tmp_path)
    assert home.records() == {}
    home.put("a", {})
    monkeypatch.setattr(store, "RESULTS", store.RESULTS + 1)
    assert home.records() == {}


def test_a_damaged_table_is_refused(tmp_path):
    for content in (b"x", lzma.compress(b"{"), lzma.compress(b"{}" * 1000)[:-9]):
        (tmp_path / TABLE).write_bytes(content)
        with pytest.raises(Refusal, match="is not a readable table"):
            Store(tmp_path).records()


def test_summaries_keep_means_and_how_accuracies_spread():
    own = {"accuracy_mean": 1, "accuracy_std": 2, "accuracy_deciles": [], "loss_std": 3}
    said = {"personal": own, "rounds": 4, "tests": {"x": {"loss_mean": 5}}}
    kept = {"accuracy_mean": 1, "accuracy_std": 2}
    assert store.brief(said) == {**said, "personal": kept}
