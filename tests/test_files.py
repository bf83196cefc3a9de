"""Files of tensors and tables, written whole or not at all; digests and locks."""

import errno
import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from troth import files
from troth.files import alone, digest_of, on_disk
from troth.types import Refusal

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
KINDS = [*files._KINDS]
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
shapes = st.lists(st.integers(0, 4), max_size=3)
tables = st.dictionaries(names, st.tuples(st.sampled_from(KINDS), shapes), max_size=6)


@settings(deadline=None, max_examples=60)
@given(tables, st.integers(0, 99))
def test_what_is_saved_is_read_by_others_and_by_us(tmp_path_factory, table, seed):
    table.pop("__metadata__", None)  # the format keeps that name for itself
    draw = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.randint(0, 2, shape, generator=draw).to(dtype)
        for name, (dtype, shape) in table.items()
    }
    path = tmp_path_factory.mktemp("tensors") / "a"
    files.save(path, tensors, seed=seed, words="é")
    found, facts = files.load(path)
    assert facts == {"seed": seed, "words": "é"}
    for read in (found, load_file(path)):
        assert read.keys() == tensors.keys()
        for name, value in tensors.items():
            assert read[name].dtype == value.dtype and torch.equal(read[name], value)


def test_views_and_shared_tensors_are_written_as_they_are_seen(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    given = {"turned": base.T, "some": base[:, 1::2], "again": base, "same": base}
    files.save(tmp_path / "a", given)
    found, _ = files.load(tmp_path / "a")
    assert all(torch.equal(found[name], value) for name, value in given.items())


def test_models_are_streamed_and_read_one_by_one(tmp_path):
    clients, d = torch.tensor([2, 5, 9, -1]), 7
    shapes = {"client": (torch.int64, [4]), "parameters": (torch.float32, [4, d])}
    rows = (torch.full((1, d), float(client)) for client in clients)
    files.stream(tmp_path / "a", shapes, chain([clients], rows))
    for client, value in ((5, 5), (2, 2), (9, 9), (0, -1), (3, -1)):
        row = files.load_model(tmp_path / "a", client)
        assert torch.equal(row, torch.full((d,), float(value)))
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_failure_on_the_way_leaves_what_was_there(tmp_path):
    shapes = {"client": (torch.int64, [2])}
    files.stream(tmp_path / "a", shapes, [torch.tensor([1, 2])])
    before = (tmp_path / "a").read_bytes()

    def broken(error):
        yield torch.tensor([3])
        raise error

    less = iter([torch.tensor([3])])  # than the header says
    for parts, error, words in (
        (broken(KeyError("x")), KeyError, "x"),
        (less, AssertionError, None),
        (broken(FULL), Refusal, "a cannot be written .No space left on device"),
    ):
        with pytest.raises(error, match=words):
            files.stream(tmp_path / "a", shapes, parts)
    assert (tmp_path / "a").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(Refusal, match="cannot be written"):
        files.save(tmp_path / "a" / "b", {"x": torch.zeros(1)})
    with pytest.raises(Refusal, match="cannot be written to"), alone(tmp_path / "a"):
        pass


def test_a_text_that_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "taken").mkdir()
    with pytest.raises(Refusal, match=r"taken cannot be written .*; give another"):
        files.write(tmp_path / "taken", "x")
    with pytest.raises(Refusal, match="cannot be written .File name too long"):
        files.write(tmp_path / ("x" * 300), "x")
    with pytest.raises(UnicodeEncodeError):
        files.write(tmp_path / "a", "\udcff")
    files.write(tmp_path / "a", "before")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=FULL))
    with pytest.raises(Refusal, match="No space left on device.*make room"):
        files.write(tmp_path / "a", "after")
    with pytest.raises(Refusal, match="output folder .* cannot be written"):
        files.create(tmp_path / "run", "experiment.toml", "x")
    assert (tmp_path / "a").read_text() == "before"
    assert {p.name for p in tmp_path.iterdir()} == {"a", "taken"}


def test_several_may_write_one_file_at_once(tmp_path):
    """None takes another's half for its own: the file is always one of the texts."""
    texts = [str(k) * 50_000 for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(files.write, [tmp_path / "a"] * 80, texts * 10))
    assert (tmp_path / "a").read_text() in texts
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_tables_come_back(tmp_path, n):
    columns = {
        "client": np.arange(n),
        "malicious": np.arange(n) % 2 == 1,
        "accuracy": np.random.default_rng(0).random(n),
        "loss": np.array([np.nan, np.inf, 1e-300][:n]),
    }
    files.write_csv(tmp_path / "a.csv", columns)
    found = files.read_csv(tmp_path / "a.csv")
    assert list(found) == list(columns)
    np.testing.assert_equal(found, columns)
    assert not n or found["malicious"].dtype == bool


def test_digests_as_others_print_them(tmp_path):
    """Of « abc »: RFC 1321, appendix A.5, and FIPS 180-2, appendix B.1."""
    file, md5 = tmp_path / "a", "md5:900150983cd24fb0d6963f7d28e17f72"
    sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    file.write_bytes(b"abc")
    assert digest_of(file, "md5:") == md5
    assert digest_of(file, "sha256:anything") == f"sha256:{sha}"
    file.write_bytes(gzip.compress(b"abc", mtime=0))
    assert digest_of(file, "gunzip.md5:") == f"gunzip.{md5}"

    file.unlink()
    assert digest_of(file, "gunzip.md5:") == "unreadable"  # no file
    for content in (b"abc", gzip.compress(bytes(999), mtime=0)[:-5]):
        file.write_bytes(content)
        assert digest_of(file, "gunzip.md5:") == "unreadable"


def test_a_disk_that_fails_is_refused_with_a_remedy():
    for number, remedy in (
        *((errno.ENOSPC, "free some space"), (errno.EDQUOT, "free some space")),
        *((errno.EACCES, "make it writable"), (errno.EROFS, "make it writable")),
    ):
        words = f"^/x cannot be written to .*: {remedy}, or set"
        with pytest.raises(Refusal, match=words), on_disk(Path("/x")):
            raise OSError(number, "no")


def test_alone_makes_the_folder_and_lets_go(tmp_path):
    for _ in range(2):
        with alone(tmp_path / "a" / "b"):
            assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(ZeroDivisionError), alone(tmp_path / "a"):
        raise ZeroDivisionError
    with alone(tmp_path / "a"):
        pass


def test_a_lock_is_a_sign_of_life(tmp_path):
    file = tmp_path / "x"
    assert not files.busy(file)
    with file.open("ab") as one, file.open("ab") as other:
        assert not files.busy(file)
        assert files.hold(one) and not files.hold(other)
        assert files.busy(file) and files.busy(file)
    assert not files.busy(file)
