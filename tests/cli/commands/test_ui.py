"""`troth ui`."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Troth = Callable[..., Result]
MAIN = "from troth.cli.app import main; main()"


def test_it_says_where_and_ends(one: tuple[Path, Result]) -> None:
    command = [sys.executable, "-c", MAIN, "ui", str(one[0].parent), "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stderr=pipe, stdout=pipe, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"Runs in (.*): (http://127\.0\.0\.1:\d+/)\n", line)
        assert found and found[1] == str(one[0].parent)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{found[2]}api/runs") as answer:
            assert b'"id": "out"' in answer.read()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()  # else a failure would wait for ever
        assert process.stderr.read().endswith("Ended\n")


def test_refusals(troth: Troth, tmp_path: Path) -> None:
    done = troth("ui", tmp_path / "nowhere")
    assert done.exit_code == 2 and "is not a folder" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = troth("ui", tmp_path, "--port", port)
    assert done.exit_code == 2
    assert done.stderr == (
        f"troth: port {port} of 127.0.0.1 is in use; give another --port, or --port 0 "
        "for any free one\n"
    )
