"""Run tutorials in fresh kernels and keep their outputs in the files.

    python docs/tutorials/execute.py [NAME.ipynb …]

Without names, all of them. Look at every figure and reread the prose afterwards.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).resolve().parent
COLORS, WIDTH = 128, 1000
"""Colors and pixels that a committed figure has at most."""
METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def executed(path: Path, timeout: int = 600) -> Any:
    """Return a notebook with the outputs of a fresh kernel in an empty folder.

    Args:
        path: the notebook; it is not changed.
        timeout: seconds for one cell.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        tools = [str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = os.environ | {
            "COLUMNS": "100",
            "IPYTHONDIR": folder,
            "NO_COLOR": "1",
            "PATH": os.pathsep.join(tools),
            "TROTH_OFFLINE": "1",
        }
        client = NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment)
    notebook.metadata = METADATA
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "text" in output:
                output["text"] = re.sub(r"\x1b\[[0-9;]*m|\r", "", output["text"])
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = smaller(data["image/png"])
    return notebook


def smaller(png: str) -> str:
    """Return a PNG figure in base64 with few colors and no metadata."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.thumbnail((WIDTH, WIDTH))
    out = io.BytesIO()
    exact = Image.Quantize.MAXCOVERAGE  # rare colors stay what they are
    image.quantize(COLORS, exact, dither=Image.Dither.NONE).save(
        out, "png", optimize=True
    )
    return base64.b64encode(out.getvalue()).decode()


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all, and write them."""
    for path in [HERE / name for name in names] or sorted(HERE.glob("*.ipynb")):
        print(path.name, flush=True)
        nbformat.write(executed(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
