"""`python -m troth`."""

import subprocess
import sys

from troth import __version__


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "troth"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"troth {__version__}\n")
    done = subprocess.run([*command, "runn"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("troth: No such command")
