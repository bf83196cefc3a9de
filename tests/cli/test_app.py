import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from troth import api
from troth.cli import app

TROTH = [sys.executable, "-c", "from troth.cli.app import main; main()"]


def test_a_bug_shows_itself(troth, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(api, "run", broken)
    assert isinstance(troth("run").exception, ZeroDivisionError)


def test_help_and_version(troth):
    assert troth("--version").stdout.startswith("troth 0.")
    for arguments in ([], ["--help"], ["-h"]):
        result = troth(*arguments)
        assert result.exit_code == 0 and "predict" in result.stdout
    for command in ("run", "resume", "data", "list", "cite", "predict", "bench"):
        assert troth(command, "--help").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--sett", "a=1"], "No such option '--sett'"),
        (["runn"], "No such command 'runn'"),
        (["--bogus"], "No such option '--bogus'"),
        (["run", "--rounds", "5"], "Set it by --set train.rounds=VALUE; see: "),
        (["run", "--lr=5"], "Set it by --set train.lr=VALUE; see: "),
        (["run", "--seed", "5"], "Set it by --set seed=VALUE; see: "),
        (["cite", "--rounds", "5"], "No such option '--rounds'"),
        (["resume"], "Missing argument"),
        (["predict", "x", "--client", "two", "--data", "y"], "--client"),
        (["run", "a.toml", "b.toml"], "b.toml"),
        (["list", "agregator"], "(did you mean 'aggregator'?)"),
        (["cite", "nowhere.toml"], "nowhere.toml"),
        (["resume", "nowhere"], "nowhere is not the folder of a run"),
        (["predict", "nowhere", "--client", "0", "--data", "y"], "nowhere is not the"),
    ],
)
def test_usage_errors_are_one_line(refused, arguments, words):
    said = refused(*arguments)  # click before 8.4 writes the option without quotes
    assert words in re.sub(r"option: (\S+?)([ ;.])", r"option '\1'\2", said)


def test_nothing_heavy_is_imported_before_a_command_runs():
    files = [Path(app.__file__), *Path(app.commands.__file__).parent.glob("*.py")]
    assert len(files) > 7
    for file in files:
        body = ast.parse(file.read_text("utf-8")).body
        top = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
        names = {f"{getattr(n, 'module', '')}.{a.name}" for n in top for a in n.names}
        others = {name for name in names if not name.startswith("troth.cli.commands")}
        heavy = {"troth", "torch", "numpy", "rich", "scipy", "sklearn", "matplotlib"}
        assert not heavy & {n.strip(".").split(".")[0] for n in others}, file
    code = "import troth.cli.app, sys; assert not {'torch', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow("a process that imports torch")
def test_a_reader_who_leaves_is_no_error():
    command = subprocess.Popen(
        [*TROTH, "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None and command.stderr is not None
    command.stdout.close()
    said = command.stderr.read()
    command.stderr.close()
    assert command.wait(timeout=300) == 1 and said == b""


LISTS = pytest.mark.slow("processes that import torch")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("--version", 0), ("runn", 2), pytest.param("list data", 0, marks=LISTS)],
)
def test_closed_streams_are_no_error(arguments, code):
    for closed in (">&-", "2>&-", ">&- 2>&-", "<&-"):
        line = f"exec {shlex.join(TROTH)} {arguments} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
        assert done.returncode == code and "Traceback" not in done.stderr, closed


HEEDS = """
import signal, sys, time
from troth.cli.commands import _words
signal.signal(signal.SIGINT, getattr(signal, sys.argv[1]))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
_words.heed()
try:
    signal.raise_signal(signal.SIGHUP)
    print("goes on", flush=True)
    signal.raise_signal(signal.SIGTERM)
    time.sleep(60)
except KeyboardInterrupt:
    print(_words.stopped(_words.STOPPED), _words.stopped(2))
"""


@pytest.mark.parametrize("before", ["SIG_IGN", "default_int_handler"])
def test_whoever_ends_a_command_ends_it_as_ctrl_c_does(before):
    """Even in the background, where shells have Ctrl-C ignored; nohup is heeded."""
    command = [sys.executable, "-c", HEEDS, before]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n143 2\n"


def test_warnings_of_the_library_are_lines_on_stderr():
    code = """
import logging
from troth.cli import app
app.app = lambda **_: logging.getLogger("troth.run").warning("of %d\\n rounds", 2)
app.main()
logging.getLogger("troth.run").info("nothing")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "troth: of 2 rounds\n")


def test_an_error_in_a_users_function_is_short(tmp_path, monkeypatch, troth, tiny):
    """The message names the function, its line and the error, without our frames."""
    text = "def typo(messages):\n    return messages.updat.mean(0)\n"
    (tmp_path / "with_typo.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "e.toml"
    file.write_text(f'aggregator = "with_typo:typo"\n{tiny}')
    result = troth("run", file, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 1 and not (tmp_path / "out").exists()
    first, *rest = result.stderr.splitlines()
    assert first.startswith("troth: error in your function typo (")
    assert "with_typo.py, line 2): AttributeError" in first
    assert len(rest) < 5 and not any("troth/" in line for line in rest)
