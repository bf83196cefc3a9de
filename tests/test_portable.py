"""A simulation needs nothing that only POSIX systems have (macOS and Windows)."""

import subprocess
import sys

import pytest

POSIX = """
import builtins, io, os, signal, sys

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # an import of it fails
import torch, sklearn.utils, pandas, matplotlib.pyplot  # theirs is not in question

for name in (
    *("sched_getaffinity", "sched_setaffinity", "preadv", "pwritev", "pread", "pwrite"),
    *("nice", "fork", "forkpty", "getuid", "geteuid", "getgid", "getloadavg"),
    *("statvfs", "posix_fallocate", "mkfifo", "killpg", "setsid", "getpgid", "uname"),
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGPIPE"):
    delattr(signal, name)
opened = io.open

def guarded(file, *arguments, **more):
    if str(file).startswith(("/proc", "/sys", "/dev/")):
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return opened(file, *arguments, **more)

builtins.open = io.open = guarded
"""
RUN = """
from pathlib import Path
from troth.cli import app

place = Path({place!r})
tree = '''
[partition]
name = "iid"
clients = 4
[train]
rounds = 2
[personalizer]
name = "ditto"
[grid]
seed = [0, 1]
'''
(place / "small.toml").write_text(tree)
for command in (
    ["run", place / "small.toml", "--out", place / "many", "--report"],
    ["resume", place / "many"],
    ["run", place / "small.toml", "--dry-run"],
    ["predict", place / "many/seed=0", "--client", "1", "--data", place / "x.npz"],
):
    sys.argv = ["troth", *map(str, command)]
    try:
        app.main()
    except SystemExit as end:
        assert end.code == 0, command
"""


@pytest.mark.slow("trains in a process of its own")
def test_a_run_without_what_only_posix_has(tmp_path):
    import numpy as np

    np.savez(tmp_path / "x.npz", x=np.zeros((3, 1, 8, 8), np.float32))
    code = POSIX + RUN.format(place=str(tmp_path))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "many").iterdir()} >= {
        *("grid.toml", "report.html", "seed=0", "seed=1"),
    }
    assert (tmp_path / "many/seed=1/summary.json").exists()
