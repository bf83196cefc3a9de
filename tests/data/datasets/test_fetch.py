import hashlib
import io
import os
import re
import resource
import tarfile
import threading
import time
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest

from troth import progress
from troth.data.datasets import _fetch
from troth.data.datasets._fetch import fetch, unpack
from troth.files import alone
from troth.types import Refusal

CONTENT = bytes(range(256)) * 500  # 128,000 bytes
MD5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path):
    return tmp_path / "a.bin"


@pytest.fixture
def url(server):
    return server.url("a.bin", CONTENT)


@contextmanager
def small_disk():
    """No file may be larger than 60,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_arrives_whole_and_nothing_else_is_left(server, url, target):
    target.with_name("a.bin.part").write_bytes(b"left by a process that was killed")
    fetch(url, target, MD5, len(CONTENT))
    assert left(target.parent) == ["a.bin"] and len(server.seen) == 1
    b, c = target.with_name("b"), target.with_name("c")
    fetch(url, b, f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")
    fetch(url, c)
    assert all(path.read_bytes() == CONTENT for path in (target, b, c))
    fetch(server.url("empty", b""), target)
    assert target.read_bytes() == b""


def test_tries_again_after_cuts(server, url, target, refuses):
    for at in (0, 50_000, 127_999):
        server.tricks = [("cut", at)] * (_fetch.TRIES - 1)
        fetch(url, target, MD5)
        assert target.read_bytes() == CONTENT and left(target.parent) == ["a.bin"]
    server.tricks = [("bare",)]
    fetch(url, target, "", len(CONTENT))
    assert target.read_bytes() == CONTENT
    server.url("a.bin", CONTENT[:-1])  # the published size tells a cut
    server.tricks = [("bare",)] * 99
    words = "did not come through: .*127,999 of 128,000 bytes"
    refuses(words, fetch, url, target.with_name("b"), "", len(CONTENT))
    assert left(target.parent) == ["a.bin"]


def test_a_wrong_file_is_deleted_or_not_even_downloaded(server, target, refuses):
    for content in (CONTENT + b"x", CONTENT[:-1], b"<html>moved"):
        words = f"has {len(content):,} bytes where 128,000 are"
        refuses(words, fetch, server.url("a.bin", content), target, MD5, len(CONTENT))
        assert left(target.parent) == []
    target.write_bytes(b"what was there")
    url = server.url("a.bin", CONTENT[:-1] + b"!")
    found = f"md5:{hashlib.md5(CONTENT[:-1] + b'!').hexdigest()}"
    said = refuses("deleted", fetch, url, target, MD5)
    assert said.startswith(url) and found in said and MD5 in said
    assert left(target.parent) == ["a.bin"]
    assert target.read_bytes() == b"what was there"


def test_a_server_that_answers_no(server, url, target, refuses):
    for code in (400, 401, 403, 404, 410, 501):
        server.seen.clear()
        server.tricks = [("status", code, {})] * 3
        refuses(f"{re.escape(url)}.* {code} ", fetch, url, target)
        assert len(server.seen) == 1 and left(target.parent) == []
    for code in (408, 429, 500, 502, 503, 504):
        server.seen.clear()
        server.tricks = [("status", code, {})] * (_fetch.TRIES - 1)
        fetch(url, target, MD5)
        assert target.read_bytes() == CONTENT and len(server.seen) == _fetch.TRIES
    server.seen.clear()
    server.tricks = [("status", 503, {})] * 20
    refuses("did not come through: the server answers 503", fetch, url, target, MD5)
    assert len(server.seen) == _fetch.TRIES


def test_pauses_grow_and_a_silent_server_is_left(server, url, target, monkeypatch):
    monkeypatch.setattr(_fetch, "TIMEOUT", 0.2)
    server.tricks = [("hang", 1.0), ("status", 302, {"Location": url})]
    fetch(server.url("elsewhere"), target, MD5)
    assert target.read_bytes() == CONTENT and len(server.seen) == 3
    slept = []
    monkeypatch.setattr(_fetch, "PAUSE", 0.1)
    monkeypatch.setattr(_fetch.time, "sleep", slept.append)
    server.tricks = [("status", 500, {})] * 3
    fetch(url, target, MD5)
    waits = [wait for wait in slept if wait]  # the server's own pace is 0
    assert waits == [0.1, 0.2, 0.4]


def test_bad_addresses_are_refused_at_once(server, target, monkeypatch, refuses):
    for url in (
        "nonsense",
        "http://[",
        "http://nowhere.invalid/a",
    ):
        monkeypatch.setattr(_fetch, "PAUSE", 60.0)
        refuses(f"{re.escape(url)} cannot be reached", fetch, url, target)


def test_nobody_there_and_nobody_asked(server, url, target, refuses, monkeypatch):
    nobody = url.replace(str(server.server_address[1]), "1")
    refuses("did not come through: .*refused", fetch, nobody, target)
    monkeypatch.setenv("TROTH_OFFLINE", "1")
    refuses("TROTH_OFFLINE is set", fetch, url, target)
    assert server.seen == [] and left(target.parent) == []
    for off in ("", "0"):
        monkeypatch.setenv("TROTH_OFFLINE", off)
        fetch(url, target)


def test_proxies_are_honoured(server, target, monkeypatch):
    """The proxy is asked for the whole address, of a host that does not exist."""
    server.url("data/a.bin", CONTENT)
    monkeypatch.setenv("http_proxy", server.url(""))
    fetch("http://nowhere.invalid/data/a.bin", target, MD5)
    (path, _), *_ = server.seen
    assert path == "http://nowhere.invalid/data/a.bin"
    assert target.read_bytes() == CONTENT
    monkeypatch.setenv("https_proxy", server.url(""))
    with pytest.raises(Refusal, match="did not come through: Tunnel .*501"):
        fetch("https://nowhere.invalid/a.bin", target)
    server.tricks = [("status", 403, {})]
    with pytest.raises(Refusal, match="cannot be reached .Tunnel .*403"):
        fetch("https://nowhere.invalid/a.bin", target)


def test_progress_is_told_to_whoever_watches(server, url, target):
    told = []
    server.tricks = [("cut", 50_000), ("status", 503, {})]
    with progress.watching(lambda *now: told.append(now)):
        fetch(url, target, MD5)
    done = [now for what, now, total in told if what == "a.bin" and total]
    assert done[-1] == len(CONTENT) and len(done) > 1
    assert {total for _, _, total in told} == {len(CONTENT), 0}
    assert any("503" in what and "again" in what for what, _, _ in told)
    said = len(told)
    fetch(url, target, MD5)  # nobody watches any more
    assert len(told) == said


def test_a_full_disk_and_a_folder_that_cannot_be(server, url, target, refuses):
    server.tricks = [("bare",)]
    refuses("cannot be written to .* bytes are needed", fetch, url, target, "", 10**18)
    with small_disk(), pytest.raises(Refusal, match=f"{target.parent} cannot be writt"):
        fetch(url, target)
    assert not target.exists()
    (target.parent / "file").touch()
    with pytest.raises(Refusal, match="cannot be written to .*XDG_CACHE_HOME"):
        fetch(url, target.parent / "file" / "a.bin")


def test_threads_wait_for_each_other_and_say_so(tmp_path):
    told, inside = [], threading.Event()

    def second():
        with progress.watching(lambda what, *_: told.append(what)), alone(tmp_path):
            assert inside.is_set()

    with alone(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        while not told:
            time.sleep(0.01)
        inside.set()
    thread.join()
    assert told[0] == f"waiting for process {os.getpid()} to finish this"


FILES = {"set/a.bin": b"a" * 3000, "set/train/b.txt": b"b", "set/READ.me": b"no"}
KINDS = ["s.zip", "s.tar.gz", "s.tar.bz2", "s.tar"]


def packed(path, files):
    """An archive of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("set")
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    mode = {".gz": "w:gz", ".bz2": "w:bz2", ".tar": "w"}[path.suffix]
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def files_in(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("held", "makes", "taken"),
    [
        (FILES, ("a.bin", "train/b.txt"), {"a.bin": b"a" * 3000, "train/b.txt": b"b"}),
        ({"a": b"1", "x/a": b"2"}, ("x/a",), {"x/a": b"2"}),
        ({"../../a.bin": b"evil"}, ("a.bin",), {"a.bin": b"evil"}),
        ({"/etc/a.bin": b"evil"}, ("a.bin",), {"a.bin": b"evil"}),
        ({"s/../../a.bin": b"evil"}, ("a.bin",), {"a.bin": b"evil"}),
    ],
    ids=["some", "whole path", "out", "root", "inner"],
)
def test_takes_out_what_is_named_and_no_more(tmp_path, held, makes, taken):
    """A member is written under the name that we give it, not under its own."""
    for kind in KINDS:
        root = tmp_path / kind.removeprefix("s.")
        root.mkdir()
        unpack(packed(root / kind, held), makes, root / "deep" / "out")
        assert files_in(root / "deep" / "out") == taken, kind
        assert len(files_in(root)) == len(taken)  # nor is the archive kept


def test_archives_that_hold_other_things(tmp_path, refuses):
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("set/a.bin")
            info.type, info.linkname = kind, str(tmp_path / "secret")
            tar.addfile(info)
    refuses("does not hold a.bin", unpack, tmp_path / "s.tar", ("a.bin",), tmp_path)
    assert not (tmp_path / "a.bin").exists()
    archive = packed(tmp_path / "s.zip", {"a.bin": bytes(500_000)})
    with small_disk(), pytest.raises(Refusal, match="cannot be written to"):
        unpack(archive, ("a.bin",), tmp_path / "out")
    assert archive.exists() and not (tmp_path / "out" / "a.bin").exists()


def test_what_is_missing_or_there_twice(tmp_path, refuses):
    for kind in KINDS:
        archive = packed(tmp_path / kind, FILES)
        with pytest.raises(Refusal, match="does not hold c.bin, d.bin$"):
            unpack(archive, ("a.bin", "d.bin", "c.bin"), tmp_path)
        archive = packed(tmp_path / kind, {"x/a.bin": b"", "y/a.bin": b""})
        refuses(
            "holds two files that end in a.bin", unpack, archive, ("a.bin",), tmp_path
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut", "flipped", "html", "empty"])
def test_a_damaged_archive_is_deleted_and_said(tmp_path, kind, damage):
    noise = np.random.default_rng(0).bytes(50_000)
    archive = packed(tmp_path / kind, {"a.bin": noise, "b.bin": b""})
    content = bytearray(archive.read_bytes())
    if damage == "flipped":
        if kind == "s.tar":
            pytest.skip("a plain tar has no checksum of its content")
        content[20_000] ^= 255
    made = {"cut": content[:20_000], "html": b"<html>moved", "empty": b""}
    archive.write_bytes(made.get(damage, content))
    with pytest.raises(Refusal, match=r"is damaged \(.*\) and was deleted$"):
        unpack(archive, ("a.bin", "b.bin"), tmp_path / "out")
    assert not archive.exists() and not (tmp_path / "out" / "a.bin").exists()
