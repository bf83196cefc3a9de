"""Run the script that makes an entry; it ends when we do."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from troth.data import catalogue
from troth.data.datasets import _files
from troth.deployment import processes
from troth.reproduce.entry import Entry
from troth.reproduce.kept import experiments
from troth.types import Refusal


def check(entry: Entry, data_dir: str | None = None) -> Path:
    """Whether an entry's script can be run; the folder that it lies below.

    Raises:
        Refusal: there is no checkout with experiments, or data are not here.
    """
    root = experiments()
    if root is None:
        raise Refusal(
            f"{entry.name} is made by experiments/{entry.script[0]}, which is not part "
            "of an installed package; run troth from a checkout of its source"
        )
    for data in entry.data:
        found = catalogue.entry(data, data_dir)
        if found.place is None and found.source is not None:
            why = f" (wanted for {entry.name}; --show tells what has been run)"
            raise Refusal(_files.absent(found.source, data_dir, why))
    return root


def script(entry: Entry, device: str = "auto", data_dir: str | None = None) -> None:
    """Run the script that makes an entry; it goes on where it was.

    Raises:
        Refusal: it cannot be run (`check`), or it fails.
    """
    root = check(entry, data_dir)
    name, *rest = entry.script
    text = (root / name).read_text("utf-8")
    command = [sys.executable, str(root / name), *rest]
    if "--device" in text or "from common import" in text:
        command += ["--device", device]
    code = ran(command, {"TROTH_DATA": data_dir} if data_dir else {})
    if code:
        raise Refusal(
            f"experiments/{name} ended with code {code}; what it said is "
            "above, and what it finished is kept"
        )


def ran(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a process that ends with ours, and leaves no folders behind."""
    with tempfile.TemporaryDirectory(prefix="troth-script-") as place:
        own = {**environment, "TMPDIR": place}
        with processes.child(command, own, stdout=subprocess.DEVNULL) as process:
            return process.wait()
