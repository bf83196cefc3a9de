from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from troth import progress
from troth.data.datasets import _fetch
from troth.types import Refusal

CONTENT = bytes(range(256)) * 500  # 128,000 bytes
MD5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
FETCH = (
    "import sys; from pathlib import Path; from troth import fetching, disk\n"
    "url, target, digest = sys.argv[1:]\n"
    "with disk.alone(Path(target).parent):\n"
    "    if not Path(target).exists():\n"
    "        fetching.fetch(url, Path(target), digest)\n"
)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "a.bin"


def test_a_file_arrives_whole_and_nothing_else_is_left(server, target):
    url = server.url("a.bin", CONTENT)
    _fetch.fetch(url, target, MD5, len(CONTENT))
    assert target.read_bytes() == CONTENT
    assert left(target.parent) == ["a.bin"] and server.asked == [""]


def test_sha256_and_no_digest_at_all(server, target):
    url = server.url("a.bin", CONTENT)
    _fetch.fetch(url, target, f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")
    _fetch.fetch(url, target.with_name("b"))
    assert target.read_bytes() == CONTENT == target.with_name("b").read_bytes()


def test_an_empty_file(server, target):
    _fetch.fetch(server.url("a.bin", b""), target)
    assert target.read_bytes() == b""


@pytest.mark.parametrize("cuts", [[50_000], [1], [0], [30_000, 1, 90_000], [127_999]])
def test_resumes_after_cuts(server, target, cuts):
    """A cut in the body: only what is missing is asked for, by the version's tag."""
    url = server.url("a.bin", CONTENT)
    server.tricks = [("cut", k) for k in cuts]
    _fetch.fetch(url, target, MD5)
    assert target.read_bytes() == CONTENT
    at, expected = 0, [""]
    for k in cuts:
        at = min(at + k, len(CONTENT))
        expected.append(f"bytes={at}-" if at else "")
    assert server.asked == expected[: len(server.asked)]
    assert server.asked[-1] == expected[-1] or at == len(CONTENT)
    assert all(h["If-Range"] == '"1"' for _, h in server.seen if "Range" in h)


def test_many_cuts_are_no_failure_while_something_comes(server, target):
    url = server.url("a.bin", CONTENT)
    server.tricks = [("cut", 10_000)] * 12
    _fetch.fetch(url, target, MD5)
    assert target.read_bytes() == CONTENT and len(server.asked) == 13


def test_a_server_without_ranges_starts_over(server, target):
    server.ranges = False
    server.tricks = [("cut", 50_000)]
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5)
    assert target.read_bytes() == CONTENT
    assert server.asked == ["", "bytes=50000-"]


@pytest.mark.parametrize("kind", ["ETag", "Last-Modified"])
def test_a_file_that_changed_starts_over(server, target, kind):
    """What was there is of the old version: mixing the two would be nonsense."""
    url = server.url("a.bin", bytes(len(CONTENT)))
    server.headers = {kind: '"1"'}
    server.tricks = [("cut", 50_000), *[("status", 500, {})] * _fetch.TRIES]
    with pytest.raises(Refusal, match="500"):
        _fetch.fetch(url, target)
    assert target.with_name("a.bin.part").stat().st_size == 50_000
    server.headers, server.tricks = {kind: '"2"'}, []
    server.url("a.bin", CONTENT)
    _fetch.fetch(url, target)
    assert target.read_bytes() == CONTENT and server.asked[-1] == "bytes=50000-"


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"1"'}], ids=["none", "weak"])
def test_without_a_version_nothing_is_resumed(server, target, headers):
    server.headers = headers
    server.tricks = [("cut", 50_000)]
    _fetch.fetch(server.url("a.bin", CONTENT), target)
    assert target.read_bytes() == CONTENT and server.asked == ["", ""]


def test_without_a_length_the_published_size_tells_a_cut(server, target):
    server.tricks = [("bare",), ("bare",)]
    url = server.url("a.bin", CONTENT)
    _fetch.fetch(url, target, "", len(CONTENT))
    assert target.read_bytes() == CONTENT
    server.url("a.bin", CONTENT[:-1])
    server.tricks = [("bare",)] * 99
    with pytest.raises(
        Refusal, match="did not come through: .*(127,999 of 128,000 bytes|416)"
    ):
        _fetch.fetch(url, target.with_name("b"), "", len(CONTENT))


def test_a_wrong_checksum_is_deleted_and_said(server, target):
    target.write_bytes(b"what was there")
    url = server.url("a.bin", CONTENT[:-1] + b"!")
    found = f"md5:{hashlib.md5(CONTENT[:-1] + b'!').hexdigest()}"
    with pytest.raises(Refusal) as caught:
        _fetch.fetch(url, target, MD5)
    said = str(caught.value)
    assert said.startswith(url) and found in said and MD5 in said and "deleted" in said
    assert left(target.parent) == ["a.bin"]
    assert target.read_bytes() == b"what was there"


@pytest.mark.parametrize("content", [CONTENT + b"x", CONTENT[:-1], b"<html>moved"])
def test_a_wrong_size_is_refused_before_it_is_downloaded(server, target, content):
    with pytest.raises(Refusal, match=f"has {len(content):,} bytes where 128,000 are"):
        _fetch.fetch(server.url("a.bin", content), target, MD5, len(CONTENT))
    assert left(target.parent) == []


def test_a_damaged_rest_of_an_earlier_time_is_got_anew(server, target):
    """A machine that fell over leaves zeros at the end; the digest tells."""
    url = server.url("a.bin", CONTENT)
    target.with_name("a.bin.part").write_bytes(bytes(70_000))
    target.with_name("a.bin.part.tag").write_text('"1"')
    _fetch.fetch(url, target, MD5)
    assert target.read_bytes() == CONTENT and server.asked == ["bytes=70000-", ""]


@pytest.mark.parametrize("size", [len(CONTENT), 0], ids=["size known", "size unknown"])
def test_whole_but_not_yet_in_its_place(server, target, size):
    """Killed between the last byte and the renaming."""
    target.with_name("a.bin.part").write_bytes(CONTENT)
    target.with_name("a.bin.part.tag").write_text('"1"')
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5, size)
    assert target.read_bytes() == CONTENT and left(target.parent) == ["a.bin"]
    assert len(server.seen) == (0 if size else 2)


def test_more_than_there_is_starts_over(server, target):
    target.with_name("a.bin.part").write_bytes(CONTENT * 2)
    target.with_name("a.bin.part.tag").write_text('"1"')
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5, len(CONTENT))
    assert target.read_bytes() == CONTENT and server.asked == [""]


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 501])
def test_an_answer_that_is_final_is_not_asked_for_twice(server, target, code):
    server.tricks = [("status", code, {})] * 3
    with pytest.raises(Refusal, match=f"{re.escape(server.url('a.bin'))}.* {code} "):
        _fetch.fetch(server.url("a.bin"), target)
    assert len(server.seen) == 1 and left(target.parent) == []


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server, target, code):
    server.tricks = [("status", code, {})] * (_fetch.TRIES - 1)
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5)
    assert target.read_bytes() == CONTENT and len(server.seen) == _fetch.TRIES


def test_a_server_that_stays_busy_is_given_up(server, target):
    server.tricks = [("status", 503, {})] * 20
    with pytest.raises(Refusal, match="did not come through: the server answers 503"):
        _fetch.fetch(server.url("a.bin", CONTENT), target, MD5)
    assert len(server.seen) == _fetch.TRIES


def test_waits_as_long_as_the_server_asks(server, target):
    server.tricks = [("status", 503, {"Retry-After": "1"})]
    began = time.monotonic()
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5)
    assert time.monotonic() - began >= 1


def test_pauses_grow(server, target, monkeypatch):
    monkeypatch.setattr(_fetch, "PAUSE", 0.1)
    server.tricks = [("status", 500, {})] * 3
    began = time.monotonic()
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5)
    assert time.monotonic() - began >= 0.1 + 0.2 + 0.4


def test_a_silent_server_is_cut_and_tried_again(server, target, monkeypatch):
    monkeypatch.setattr(_fetch, "TIMEOUT", 0.2)
    server.tricks = [("hang", 1.0)]
    _fetch.fetch(server.url("a.bin", CONTENT), target, MD5)
    assert target.read_bytes() == CONTENT and len(server.seen) == 2


def test_nobody_at_the_address(server, target):
    url = server.url("a.bin").replace(str(server.server_address[1]), "1")
    with pytest.raises(Refusal, match="did not come through: .*refused"):
        _fetch.fetch(url, target)


@pytest.mark.parametrize("url", ["nonsense", "http://[", "gopher://a/b", "http://a b/"])
def test_addresses_that_are_none(server, target, url):
    with pytest.raises(Refusal, match="cannot be reached"):
        _fetch.fetch(url, target)


def test_no_such_host_is_refused_at_once(server, target, monkeypatch):
    monkeypatch.setattr(_fetch, "PAUSE", 60.0)
    with pytest.raises(Refusal, match="http://nowhere.invalid/a.bin cannot be reached"):
        _fetch.fetch("http://nowhere.invalid/a.bin", target)


def test_follows_a_redirection(server, target):
    url = server.url("a.bin", CONTENT)
    server.tricks = [("status", 302, {"Location": url})]
    _fetch.fetch(server.url("elsewhere"), target, MD5)
    assert target.read_bytes() == CONTENT


def test_offline_asks_nobody(server, target, monkeypatch):
    monkeypatch.setenv("TROTH_OFFLINE", "1")
    with pytest.raises(Refusal, match="TROTH_OFFLINE is set"):
        _fetch.fetch(server.url("a.bin", CONTENT), target)
    assert server.seen == [] and left(target.parent) == []
    for off in ("", "0"):
        monkeypatch.setenv("TROTH_OFFLINE", off)
        _fetch.fetch(server.url("a.bin"), target)


def test_proxies_are_honoured(server, target, monkeypatch):
    """The proxy is asked for the whole address, of a host that does not exist."""
    server.url("data/a.bin", CONTENT)
    monkeypatch.setenv("http_proxy", server.url(""))
    _fetch.fetch("http://nowhere.invalid/data/a.bin", target, MD5)
    (path, _), *_ = server.seen
    assert path == "http://nowhere.invalid/data/a.bin"
    assert target.read_bytes() == CONTENT
    monkeypatch.setenv("no_proxy", "nowhere.invalid")
    with pytest.raises(Refusal, match="cannot be reached"):
        _fetch.fetch("http://nowhere.invalid/data/a.bin", target)


def test_a_proxy_for_https_is_asked_to_connect(server, target, monkeypatch):
    monkeypatch.setenv("https_proxy", server.url(""))
    with pytest.raises(Refusal, match="did not come through: Tunnel .*501"):
        _fetch.fetch("https://nowhere.invalid/a.bin", target)
    server.tricks = [("status", 403, {})]
    with pytest.raises(Refusal, match="cannot be reached .Tunnel .*403"):
        _fetch.fetch("https://nowhere.invalid/a.bin", target)


def test_progress_is_told_to_whoever_watches(server, target):
    told: list[tuple[str, int, int]] = []
    url = server.url("a.bin", CONTENT)
    server.tricks = [("cut", 50_000), ("status", 503, {})]
    with progress.watching(lambda *now: told.append(now)):
        _fetch.fetch(url, target, MD5)
    done = [now for what, now, total in told if what == "a.bin" and total]
    assert done == sorted(done) and done[-1] == len(CONTENT) and len(done) > 1
    assert {total for _, _, total in told} == {len(CONTENT), 0}
    assert any("503" in what and "again" in what for what, _, _ in told)
    said = len(told)
    _fetch.fetch(url, target, MD5)  # nobody watches any more
    assert len(told) == said


def test_a_full_disk(server, target):
    server.tricks = [("bare",)]
    server.url("a.bin", CONTENT)
    with pytest.raises(Refusal, match="cannot be written to .* bytes are needed"):
        _fetch.fetch(server.url("a.bin"), target, "", 10**18)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(Refusal, match=f"{target.parent} cannot be written to"):
            _fetch.fetch(server.url("a.bin", CONTENT), target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not target.exists()


def test_a_folder_that_cannot_be(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="cannot be written to .*XDG_CACHE_HOME"):
        _fetch.fetch(server.url("a.bin", CONTENT), tmp_path / "file" / "a.bin")


def start(url: str, target: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", FETCH, url, str(target), MD5]
    return subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE)


def test_two_processes_at_once_download_once(server, target):
    server.pace = 0.003
    url = server.url("a.bin", CONTENT)
    both = [start(url, target) for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert target.read_bytes() == CONTENT and server.asked == [""]


def test_a_process_that_is_killed_leaves_what_the_next_goes_on_with(server, target):
    """kill -9 leaves a part and a lock; neither stands in the way."""
    server.pace = 0.02
    url, part = server.url("a.bin", CONTENT), target.with_name("a.bin.part")
    process = start(url, target)
    deadline = time.monotonic() + 300
    while not (part.exists() and part.stat().st_size > 5000):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not target.exists() and (target.parent / ".lock").exists()
    have, server.pace = part.stat().st_size, 0.0
    _fetch.fetch(url, target, MD5)
    assert target.read_bytes() == CONTENT
    assert server.asked == ["", f"bytes={have}-"]


def test_threads_wait_for_each_other_and_say_so(tmp_path):
    from troth.files import alone

    told: list[str] = []
    inside = threading.Event()

    def second() -> None:
        with (
            progress.watching(lambda what, *_: told.append(what)),
            alone(tmp_path),
        ):
            assert inside.is_set()

    with alone(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        while not told:
            time.sleep(0.01)
        inside.set()
    thread.join()
    assert told[0] == f"waiting for process {os.getpid()}, which is at it"
