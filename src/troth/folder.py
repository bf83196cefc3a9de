"""A run is a folder of plain files; each appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from troth.types import Refusal

EXPERIMENT, ROUNDS, CLIENTS = "experiment.toml", "rounds.jsonl", "clients.csv"
SUMMARY, SHARED, PERSONAL = "summary.json", "shared.safetensors", "personal.safetensors"
CHECKPOINT, GRID = "checkpoint/state.safetensors", "grid.toml"


def create(path: Path, name: str, text: str) -> None:
    """Make a folder that holds its first file from the very beginning."""
    check_free(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        write(part / name, text)
        part.rename(path)
    except OSError as error:
        raise Refusal(_unwritable(path, error)) from None


def check_free(path: Path) -> None:
    """Refuse, before any work, a folder that exists or could not be written."""
    if path.exists():
        raise Refusal(
            f"the output folder {path} exists already; give another one with --out, "
            f"or go on with it by: troth resume {path}"
        )
    parent = path.absolute()
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise Refusal(_unwritable(path, f"{parent} is not a folder you may write to"))


def _unwritable(path: Path, why: object) -> str:
    return f"the output folder {path} cannot be written ({why}); give another --out"


def write(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_json(path: Path, value: Any) -> None:
    """JSON in full precision; what is not a number becomes null."""
    write(path, json.dumps(plain(value), indent=2) + "\n")


def plain(value: Any) -> Any:
    """Only what JSON knows: NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """A table, a row a client; floats in full precision, NaN as an empty cell."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(columns)
    for row in zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True):
        out.writerow(["" if v != v else v for v in row])
    write(path, text.getvalue())


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """A table as columns of numbers; an empty cell is NaN."""
    with path.open(encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    columns = zip(*rows, strict=True) if rows else [[] for _ in head]
    return {
        name: np.array([_number(cell) for cell in column])
        for name, column in zip(head, columns, strict=True)
    }


def _number(cell: str) -> float | bool:
    if cell in ("True", "False"):
        return cell == "True"
    return float(cell) if cell else math.nan


def save(path: Path, tensors: dict[str, Tensor], **facts: Any) -> None:
    """Tensors with facts about them, whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(path.name + ".part")
    held = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    save_file(held, part, {"facts": json.dumps(facts)})
    descriptor = os.open(part, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    part.replace(path)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save` wrote."""
    with safe_open(path, "pt") as file:
        facts = json.loads((file.metadata() or {}).get("facts", "{}"))
        return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118


def read_rounds(path: Path) -> list[dict[str, Any]]:
    """The rounds of a run."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
