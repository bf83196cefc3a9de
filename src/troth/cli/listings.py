"""What people and programs see of what there is: costs, methods, speeds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich import filesize

from troth import lookup
from troth.api import Cost
from troth.cli.tables import console, print_json, say, short, table
from troth.config import reader


def costs(found: Sequence[Cost], name: str, as_json: bool) -> None:
    """What runs would take: a table, or for `--json` an object."""
    made: list[dict[str, Any]] = [
        {
            "label": cost.label or name,
            "client_steps": cost.client_steps,
            "memory_bytes": cost.memory,
            "disk_bytes": cost.disk,
            "experiment": reader.to_dict(cost.experiment),
        }
        for cost in found
    ]
    if as_json:
        print_json({"runs": made})
        return
    rows = [
        [
            short(cost["label"]),
            str(cost["experiment"]["train"]["rounds"]),
            f"{cost['client_steps']:,}",
            filesize.decimal(cost["memory_bytes"]),
            filesize.decimal(cost["disk_bytes"]) if cost["disk_bytes"] else "–",
        ]
        for cost in made
    ]
    title = "What it would take (nothing was trained or written)"
    columns = ["run", "rounds", "client-steps", "memory", "disk"]
    console().print(table(title, columns, rows))
    for where in sorted({c.experiment.engine.state_dir for c in found if c.disk}):
        say(f"Personal state on disk lies in {where or 'the folder of the run'}.")


def methods(kinds: Mapping[str, Sequence[lookup.About]], as_json: bool) -> None:
    """What exists, on stdout: a table a kind, a row a method."""
    found = {k: [_method(about) for about in every] for k, every in kinds.items()}
    if as_json:
        print_json({"kinds": found})
        return
    for kind, every in found.items():
        rows = [
            [m["name"], m["summary"], _options(m), ", ".join(m["citations"])]
            for m in every
        ]
        columns = ["name", "what it is", "options", "paper"]
        console(stderr=False).print(table(f"[{kind}]", columns, rows, 4))


def _method(about: lookup.About) -> dict[str, Any]:
    """Its options by name, its papers by key."""
    options = {}
    for name, default in about.options.items():
        required = default is inspect.Parameter.empty
        options[name] = {"required": required, "default": None if required else default}
    keys = (re.match(r"@\w+\{\s*([^,\s]+)", entry) for entry in about.citations)
    cited = [key.group(1) for key in keys if key]
    return {**about._asdict(), "options": options, "citations": cited}


def _options(method: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} (required)" if facts["required"] else f"{name} = {facts['default']}"
        for name, facts in method["options"].items()
    )


def speeds(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """What was measured, on stdout: a row a model."""
    if as_json:
        print_json({"rows": rows})
        return
    columns = ["model", "clients", "device", "loop µs", "engine µs", "ratio", "plan"]
    made = []
    for row in rows:
        plan = " ".join(str(part) for part in row["plan"].values())
        times = [f"{row[key]:.4g}" for key in ("loop_us", "engine_us")]
        facts = [row["model"], str(row["clients"]), row["device"]]
        made.append([*facts, *times, f"{row['ratio']:.1f}×", plan])
    console(stderr=False).print(table("Microseconds a client-step", columns, made))
