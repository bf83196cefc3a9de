"""`troth ui`."""

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

MAIN = "from troth.cli.app import main; main()"


@pytest.mark.slow("a process that serves")
def test_it_says_where_and_ends(one):
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
        assert process.stderr.read().endswith("Stopped\n")
