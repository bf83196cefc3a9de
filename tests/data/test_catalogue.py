import numpy as np
import pytest

from troth import lookup
from troth.data import catalogue
from troth.data.datasets import mnist
from troth.types import Refusal


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_every_data_set_is_found_and_no_other(refuses):
    found = {entry.about.name: entry.kind for entry in catalogue.entries()}
    assert list(found) == lookup.names("data")
    assert found["npz"] == "yours" and found["digits"] == "made"
    assert found["linear_regression"] == "made" and found["mnist"] == "files"
    entry = catalogue.entry("mnist")
    assert entry.place is None and entry.size == 0 and entry.source is mnist.SOURCE
    refuses(r"no data 'minst' .did you mean 'mnist'", catalogue.entry, "minst")
    refuses("data 'digits' is not made of files", catalogue.get, "digits")


def test_size_on_disk(tmp_path):
    """All of its own folder; of a folder that is shared, its own files."""
    (tmp_path / "mnist" / "more").mkdir(parents=True)
    for i, file in enumerate([*mnist.SOURCE.files, "notes", "more/notes"]):
        (tmp_path / "mnist" / file).write_bytes(bytes(10**i))
    entry = catalogue.entry("mnist", str(tmp_path))
    assert entry.place == tmp_path / "mnist" and entry.size == 111_111
    assert entry.looked[0] == tmp_path / "mnist"
    entry = catalogue.entry("mnist", str(tmp_path / "mnist"))
    assert entry.place == tmp_path / "mnist"
    (tmp_path / "mnist").rename(tmp_path / "other")
    entry = catalogue.entry("mnist", str(tmp_path / "other"))
    assert entry.place == tmp_path / "other" and entry.size == 1111
    assert catalogue.files(mnist.SOURCE, entry.place) == [
        (file, 10**i) for i, file in enumerate(mnist.SOURCE.files)
    ]


def test_a_function_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "weather.py").write_text(
        "from functools import partial\n"
        "SOURCE = 'my mother'\n"
        "def sun(*, path: str): 'It shines.'\n"
        "rain = partial(sun, path='x')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert catalogue.entry("weather:sun")[1:3] == ("yours", None)
    assert catalogue.entry("weather:rain").source is None


def test_what_is_whole_in_any_place_is_not_got_again(tmp_path, monkeypatch):
    source = mnist.SOURCE._replace(files=("a.bin",), remotes=(), digests={})
    monkeypatch.setattr(mnist, "SOURCE", source)
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    (tmp_path / "a.bin").touch()
    assert catalogue.get("mnist") == tmp_path


def test_owners_are_clients_or_ten_have_equal_shares(tmp_path):
    file, x, y = tmp_path / "mine.npz", np.zeros((12, 1)), np.arange(12) % 3
    np.savez(file, x=x, y=y, owner=np.repeat([5, 7, 9], 4))
    dealt = catalogue.deal("npz", [f"data.path={file}"])
    assert dealt.partition == "natural" and dealt.name == "npz"
    assert np.array_equal(dealt.clients, np.arange(12).reshape(3, 4))
    np.savez(file, x=x[:2], y=y[:2])
    dealt = catalogue.deal("npz", [f"data.path={file}"])
    assert list(map(len, dealt.clients)) == [1, 1] and dealt.partition == "iid"


def test_partitions_may_be_set(tmp_path):
    file = tmp_path / "e.toml"
    file.write_text(
        'data = "digits"\n[partition]\nname = "iid"\nclients = 7\n[grid]\nseed = [0, 1]'
    )
    for name in (None, "digits"):
        dealt = catalogue.deal(name, [], file)
        assert dealt.name == "digits" and len(dealt.clients) == 7
        assert sum(map(len, dealt.clients)) == 1797
    with pytest.raises(Refusal, match="has data 'digits', not 'mnist'; leave"):
        catalogue.deal("mnist", [], file)
