import gzip
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest

from troth import lookup
from troth.data.datasets import _files
from troth.data.datasets._files import Remote, Source, locate, obtain, verify, wrong
from troth.files import digest_of
from troth.types import Refusal

A, B = b"a" * 5000, b"b" * 5000
PAGE = "https://example.org/set"


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


PLAIN = Source("made", "set", ("a", "b"), PAGE, "CC0", how="ask the authors for a, b")
DIGESTS = {"a": md5(A), "b": md5(B)}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data but what a test makes."""
    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def source(server):
    """A set of two files that the server offers, with their digests."""
    urls = server.url("x/a", A), server.url("x/b", B)
    remotes = tuple(Remote(u, md5(c), 5000) for u, c in zip(urls, (A, B), strict=True))
    return PLAIN._replace(remotes=remotes, how="", digests=DIGESTS)


@pytest.fixture
def archive(server, tmp_path):
    """The same set in an archive, and its content."""
    folder = put(tmp_path / "packing", a=A, b=B)
    with tarfile.open(tmp_path / "set.tar.gz", "w:gz") as tar:
        tar.add(folder, "set-1.0")
    content = (tmp_path / "set.tar.gz").read_bytes()
    url = server.url("x/set.tar.gz", content)
    remote = Remote(f"{url}?v=1", md5(content), len(content), ("a", "b"))
    return PLAIN._replace(remotes=(remote,), digests={"a": md5(A)}), content


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_looks_in_every_place_in_order(monkeypatch):
    monkeypatch.setenv("TROTH_DATA", "/t")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    looked = [str(p) for p in _files.places("set", "/d")]
    own = [p for r in ["/d", "/t", "/c/troth"] for p in (f"{r}/set", r)]
    assert looked == [*own, "/usr/share/dataset-set"]
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.delenv("TROTH_DATA")
    cache = Path(os.path.expanduser("~/.cache/troth"))
    assert _files.places("set", None)[:2] == [cache / "set", cache]


@pytest.mark.parametrize("how", ["given", "variable", "cache"])
@pytest.mark.parametrize("flat", [False, True])
def test_finds_files_wherever_they_may_lie(monkeypatch, tmp_path, how, flat):
    root = tmp_path / "cache" / "troth" if how == "cache" else tmp_path / "root"
    place = put(root if flat else root / "set", a=A, b=B)
    put(tmp_path / "half", a=A)  # the first place that holds all wins
    if how == "variable":
        monkeypatch.setenv("TROTH_DATA", str(root))
    assert locate(PLAIN, str(root if how == "given" else tmp_path / "half")) == place


def test_what_cannot_be_fetched_is_refused_with_what_to_do(tmp_path, refuses):
    cache = tmp_path / "cache" / "troth"
    assert refuses("not on this", locate, PLAIN, str(tmp_path)) == (
        "data 'made' is not on this machine; ask the authors for a, b (from "
        f"{PAGE}) into {tmp_path / 'set'}, or set TROTH_DATA to the folder that holds "
        f"them; looked in {tmp_path / 'set'}, {tmp_path}, {cache / 'set'}, {cache}, "
        "/usr/share/dataset-set"
    )
    with pytest.raises(Refusal, match="'made' cannot be downloaded: ask the authors"):
        obtain(PLAIN, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
    many = PLAIN._replace(files=tuple(f"f{i}" for i in range(1440)), how="")
    words = r"put f0, .*, f7 … \(1440 files\) \(from"
    said = refuses(words, locate, many, str(tmp_path))
    assert len(said) < 600 + 3 * len(str(tmp_path))
    (put(tmp_path / "set", a=A) / "b").mkdir()
    refuses("lacks only b;", locate, PLAIN, str(tmp_path))


def test_downloads_into_the_cache(source, server, tmp_path, refuses):
    """What came stays when a later file fails, and a refusal says what to put where."""
    del server.files["/x/b"]
    words = "and was not downloaded: http://.*/x/b: .* 404 .*; put a, b .from .* into"
    refuses(words, locate, source, None)
    server.url("x/b", B)
    place = locate(source, str(tmp_path / "given"))
    assert place == tmp_path / "cache" / "troth" / "set"
    assert (place / "a").read_bytes() == A and (place / "b").read_bytes() == B
    assert not (tmp_path / "given").exists() and locate(source, None) == place
    assert [path for path, _ in server.seen] == ["/x/a", "/x/b", "/x/b"]


def test_obtain_mends_what_is_damaged_and_leaves_the_rest(source, server, tmp_path):
    place = put(tmp_path / "mine", a=A, b=B[:-1])
    assert obtain(source, place) == place and (place / "b").read_bytes() == B
    assert [path for path, _ in server.seen] == ["/x/b"]


def test_archives_are_unpacked_and_not_kept(archive, server, tmp_path):
    """One that a kill left there is used if it is whole."""
    for left in ("nothing", "whole", "damaged"):
        source, content = archive
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        server.seen.clear()
        there = {"whole": content, "damaged": content[:-1]}
        if left in there:
            files = {"set.tar.gz": there[left], "a.part": b""}
            put(tmp_path / "cache" / "troth" / "set", **files)
        place = locate(source, None)
        assert sorted(path.name for path in place.iterdir()) == [".lock", "a", "b"]
        assert (place / "a").read_bytes() == A and (place / "b").read_bytes() == B
        assert len(server.seen) == (left != "whole")


@pytest.mark.slow("starts two processes that import torch")
def test_two_processes_at_once_download_once(archive, server):
    """A slow server, two real processes, an archive to be unpacked."""
    server.pace = 0.05
    remote = archive[0].remotes[0]
    code = (
        "from troth.data.datasets._files import Remote, Source, locate\n"
        f"remote = Remote({remote.url!r}, {remote.digest!r}, makes=('a', 'b'))\n"
        "source = Source('made', 'set', ('a', 'b'), 'page', 'CC0', (remote,))\n"
        "place = locate(source, None)\n"
        "assert (place / 'a').stat().st_size == 5000 == (place / 'b').stat().st_size\n"
    )
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert len(server.seen) == 1


def test_verify_tells_swapped_and_changed_files(tmp_path, refuses):
    source, place = PLAIN._replace(digests=DIGESTS), put(tmp_path, a=A, b=B)
    verify(source, place)
    put(tmp_path, a=B, b=A)
    assert refuses("published", verify, source, place) == (
        f"{place / 'a'} is not the published file (it holds b; {md5(B)}, not "
        f"{md5(A)}): delete it and get it again from {PAGE}"
    )
    refuses("it holds a;", verify, source, place, ["b"])
    source = PLAIN._replace(files=("a",), digests={"a": f"gunzip.{md5(A)}"})
    for level in (1, 9):
        verify(source, put(tmp_path / str(level), a=gzip.compress(A, level)))
    assert "not the published" in wrong(source, put(tmp_path, a=gzip.compress(B)), "a")
    assert "(unreadable, not" in wrong(source, put(tmp_path, a=b"<html>"), "a")
    source = PLAIN._replace(files=("a",), digests={"a": md5(A)})
    verify(source, put(tmp_path, a=A))
    before = _files._known.cache_info().hits
    verify(source, tmp_path)
    assert _files._known.cache_info().hits == before + 1
    put(tmp_path, a=B)
    os.utime(tmp_path / "a", ns=(0, 1))
    refuses("not the published file", verify, source, tmp_path)


def sources():
    found = {}
    for name in lookup.names("data"):
        module = importlib.import_module(f"troth.data.datasets.{name}")
        if source := getattr(module, "SOURCE", None):
            found[name] = source
    return found


def test_every_absent_set_says_what_to_put_where(tmp_path, monkeypatch, refuses):
    """Rests of downloads and renamed files are not there, whatever else is."""
    monkeypatch.setenv("TROTH_OFFLINE", "1")
    pytest.importorskip("h5py")
    for name, source in sources().items():
        load = partial(lookup.find("data", name), str(tmp_path))
        said = refuses(f"data '{name}' is not on this machine", load)
        assert source.how in said and f"into {tmp_path / source.folder}" in said, name
        assert source.how or all(file in said for file in source.files), name
        assert "TROTH_DATA" in said and "lacks" not in said, name
        if len(source.files) > 1:
            *files, last = (tmp_path / source.folder / file for file in source.files)
            files[0].parent.mkdir(exist_ok=True)
            for path in (*files, f"{last}.part", last.with_suffix("")):
                Path(path).touch()
            refuses(f"{last.parent} lacks only {last.name};", load)
            shutil.rmtree(last.parent)


def test_every_source_is_whole():
    """All that is promised is left by some download, or a sentence says what to do."""
    for name, source in sources().items():
        assert source.name == name and source.files and source.licence, name
        assert source.page.startswith("http"), name
        assert {*source.digests} <= {*source.files}, name
        left = {file for remote in source.remotes for file in remote.leaves}
        assert {*source.files} <= left if source.remotes else source.how, name
        for form in (*source.digests.values(), *(r.digest for r in source.remotes)):
            kind, _, value = form.rpartition(":")
            length = {"md5": 32, "gunzip.md5": 32, "sha256": 64, "": 0}[kind]
            assert len(value) == length and int(value or "0", 16) >= 0, name


def test_what_is_not_a_file_is_not_there(tmp_path):
    path = put(tmp_path, a=A) / "b"
    assert _files.missing(PLAIN, tmp_path) == ["b"]
    path.symlink_to(path)
    assert _files.missing(PLAIN, tmp_path) == ["b"]
    path.unlink()
    os.mkfifo(path)
    assert _files.missing(PLAIN, tmp_path) == ["b"]


@pytest.mark.data
@pytest.mark.parametrize("name", sources())
def test_published_digests(real_files, name):
    """Of the files as they are offered, and of what is in them."""
    source = sources()[name]
    place = real_files(source)
    assert not any(wrong(source, place, file) for file in source.files)
    for remote in source.remotes:
        path = place / remote.name
        whole = path.is_file() and path.stat().st_size == remote.size
        if whole and remote.digest:  # else packed anew
            assert digest_of(path, remote.digest) == remote.digest
