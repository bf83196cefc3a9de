"""Scripts are begun with what they need, and end with us."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from troth.reproduce import listing, scripts
from troth.reproduce.entry import Entry
from troth.types import Refusal


def test_scripts_are_not_begun_without_their_data(bare, monkeypatch):
    begun = []
    monkeypatch.setattr(scripts, "ran", lambda *a: begun.append(a))
    with pytest.raises(Refusal, match=r"needed for fmtl/figure1.*train-images-idx3"):
        scripts.run(listing.find("fmtl/figure1"))
    assert not begun


def test_a_script_is_told_where_data_are(tmp_path, monkeypatch):
    seen = []

    def began(command, told):
        seen.append((command, told["TROTH_DATA"]))
        return len(seen) - 1

    monkeypatch.setattr(scripts, "ran", began)
    entry = listing.find("fmtl/figure1")._replace(data=())
    scripts.run(entry, "cpu", str(tmp_path))
    ((command, place),) = seen
    assert place == str(tmp_path) and command[-3:] == ["term", "--device", "cpu"]
    with pytest.raises(Refusal, match="run.py ended with exit code 1; its message"):
        scripts.run(entry, "cpu", str(tmp_path))


def test_a_script_that_fails_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(scripts, "experiments", lambda: tmp_path)
    with pytest.raises(Refusal, match=r"experiments/bad.py ended with exit code 3"):
        scripts.run(Entry("p/figure7", "t", script=("bad.py",)))
    monkeypatch.setattr(scripts, "experiments", lambda: None)
    with pytest.raises(Refusal, match="run troth from a checkout"):
        scripts.run(Entry("p/figure7", "t", script=("bad.py",)))


CHILD = """
import os, pathlib, sys, tempfile, time
tempfile.mkdtemp()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
PARENT = """
import sys
from troth.cli.commands import _words
from troth.reproduce import scripts
_words.heed()
scripts.ran([sys.executable, "-c", *sys.argv[1:]], {})
"""


def gone(pid):
    """A moment later: whoever inherits it has to notice."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow("starts and kills real processes")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_us(tmp_path, by):
    place, file = tmp_path / "tmp", tmp_path / "pid"
    place.mkdir()
    command = [sys.executable, "-c", PARENT, CHILD, str(file)]
    process = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(place)}, stderr=subprocess.DEVNULL
    )
    while not (file.exists() and file.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(by)
    assert process.wait(60) != 0 and gone(int(file.read_text()))
    if by != signal.SIGKILL:
        assert list(place.iterdir()) == []
