"""What is committed is found by the cells that it is of."""

from __future__ import annotations

import json
from pathlib import Path

from troth import config
from troth.reproduce import kept, listing
from troth.reproduce.entry import experiment, merged

ROOT = Path(__file__).parents[2] / "experiments"
CELLS = [entry for entry in listing.entries().values() if entry.cells]


def test_committed_results_are_of_the_very_cells_that_point_at_them() -> None:
    """The experiment that a file says it is of is the cell's, key by key."""
    shelf, seen = kept.Shelf(None, ROOT), 0
    aside = ("engine", "output", "resolved", "name", "checkpoint")
    for entry in CELLS:
        for cell in entry.everywhere():
            for choice, pattern in enumerate(cell.kept):
                result = shelf.find(cell, choice, 0)
                if result is None:
                    continue
                seen += 1
                own = config.to_dict(experiment(cell.choices[choice], 0))
                theirs = _experiment(ROOT / pattern.format(seed=0))
                for name in own.keys() - {*aside, "evaluate"}:
                    assert own[name] == theirs[name], (cell.label, name)
    assert seen > 80


def _experiment(file: Path) -> dict[str, object]:
    if file.name == "summary.json":
        tables = [t for _, t in config.expand(config.read(_base(file)))]
        wanted = file.parent.name
        for changed, tree in config.expand(config.read(_base(file))):
            if config.label(changed) == wanted:
                return config.to_dict(config.from_dict(tree))
        raise AssertionError((file, len(tables)))
    said = json.loads(file.read_text())
    folder = ROOT / file.relative_to(ROOT).parts[0]
    base = next(
        f for f in (folder / "base.toml", folder / "experiment.toml") if f.exists()
    )
    tree = {k: v for k, v in config.read(base).items() if k != "grid"}
    whole = merged(tree, {**said["changes"], "seed": said["seed"]})
    return config.to_dict(config.from_dict(whole))


def _base(file: Path) -> Path:
    return ROOT / "natural" / f"{file.parent.parent.name}.toml"


def test_a_file_has_a_line_a_key() -> None:
    said = {"label": "a / b", "accuracy": [0.5, 1.0], "summary": {"x": {"y": None}}}
    text = kept._text(said)
    assert json.loads(text) == said and len(text.splitlines()) == 2 + len(said)
    assert json.loads(kept._text({})) == {}
