"""Count how often clients take part, and evaluate `local`, seed 0.

    python experiments/personalizers/asked.py             # saves the record `asked`

With `local`, a client learns only in the rounds in which it takes part: see
`tables.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent
sys.path += [str(ROOT.parent), str(ROOT)]

from choose import METHODS, cell

import troth
from troth.config import reader
from troth.reproduce.entry import merged
from troth.reproduce.store import Store

DATA = ("mnist", "fashion")


def main() -> None:
    """Train, and save each client's number of rounds and its accuracy."""
    base, found = reader.read(ROOT / "base.toml"), {}
    for data in DATA:
        changes = cell(data, "clean", "local", *METHODS["local"]).changes
        with tempfile.TemporaryDirectory() as place:
            tree, out = merged(base, changes), f"{place}/run"
            clients = troth.run(tree, out=out, device="cpu")[0].clients
        found[data] = {
            "asked": [int(a) for a in clients["asked"]],
            "accuracy": [round(float(a), 6) for a in clients["accuracy"]],
        }
    Store(ROOT).put("asked", found)


if __name__ == "__main__":
    main()
