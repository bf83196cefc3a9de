"""How often clients are asked, and how good what they learn alone is: `local`, seed 0.

    python experiments/personalizers/asked.py             # writes results/asked.json

What a client learns by itself it learns in the rounds that ask it: see `tables.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent
sys.path += [str(ROOT.parent), str(ROOT)]

from cells import train  # noqa: E402
from choose import METHODS, cell  # noqa: E402

from troth import config, folder  # noqa: E402

DATA = ("mnist", "fashion")


def main() -> None:
    """Train, and keep what each client was asked and scored."""
    base, found = config.read(ROOT / "base.toml"), {}
    for data in DATA:
        changes = cell(data, "clean", "local", *METHODS["local"]).changes
        run = train(base, changes, 0, "cpu")
        found[data] = {
            "asked": [int(a) for a in run.clients["asked"]],
            "accuracy": [round(float(a), 6) for a in run.clients["accuracy"]],
        }
        shutil.rmtree(run.path.parent)
    folder.write(ROOT / "results" / "asked.json", json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
