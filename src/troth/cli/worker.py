"""Train some runs of a grid, in a process that `troth.runs.spread` starts.

python -m troth.cli.worker FOLDER DEVICE '["seed=0", "seed=1"]'
"""

import _thread
import json
import sys
from pathlib import Path

from troth.runs import grid, spread
from troth.runs.train import Interrupted
from troth.types import Refusal


def main(root: str, device: str, labels: str) -> int:
    """Train the runs, or continue them; return the exit code of the process."""
    spread.obey(sys.stdin.fileno(), _thread.interrupt_main)
    try:
        grid.some(Path(root), json.loads(labels), device or None)
    except (Interrupted, KeyboardInterrupt):
        return 0
    except Refusal as refusal:
        print(f"troth: {refusal}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
