"""Data and networks in memory: pass them to new runs, and again to runs on disk."""

from collections.abc import Mapping, Sequence
from typing import Any

from troth import lookup
from troth.config.schema import Experiment
from troth.types import Refusal

KINDS = ("data", "model")
Objects = Mapping[str, lookup.Given]
"""Kind (`data` or `model`) → its object in memory, known while this mapping exists.
"""


def give(data: Any = None, model: Any = None) -> Objects:
    """Register data and a network as members; `None` is left out."""
    found = {}
    if data is not None:
        from troth.data import sources

        found["data"] = sources.give(data)
    if model is not None:
        from troth.networks import in_memory

        found["model"] = in_memory.give(model)
    return found


def settings(objects: Objects) -> list[str]:
    """Return the settings that make an experiment use the objects."""
    return [f"{kind}.name={given.name}" for kind, given in objects.items()]


def check_sections(objects: Objects, sections: Mapping[str, Any]) -> None:
    """Refuse objects inside an experiment, and names that an object would replace."""
    for kind in KINDS:
        part = sections.get(kind, "")
        inside = part if not isinstance(part, str | Mapping) else None
        if isinstance(part, Mapping) and "x" in part and not isinstance(part["x"], str):
            inside = part["x"]
        if inside is not None:
            raise Refusal(
                f"the section '{kind}' of the experiment holds a "
                f"{type(inside).__name__}; pass objects as troth.run(…, {kind}=…)"
            )
        if kind in objects:
            name = part.get("name") if isinstance(part, Mapping) else part
            if name:
                raise Refusal(
                    f"{kind}= is given, and the experiment sets {kind}.name = "
                    f"'{name}'; remove one of the two"
                )
            for axis in {kind, f"{kind}.name"} & {*sections.get("grid", ())}:
                raise Refusal(
                    f"{kind}= is given, and grid.{axis} names others; remove one of "
                    "the two, or train each object by a troth.run"
                )


def check_used(objects: Objects, experiments: Sequence[Experiment]) -> None:
    """Refuse experiments that replace a given object by a named member."""
    for kind, given in objects.items():
        for e in experiments:
            if (name := getattr(e, kind).name) != given.name:
                raise Refusal(
                    f"{kind}= is given, and a setting or the grid sets {kind}.name = "
                    f"'{name}'; remove one of the two"
                )


def check_same(
    objects: Objects, experiments: Sequence[Experiment], where: object
) -> None:
    """Refuse other objects than those with which runs on disk were trained.

    Args:
        objects: the objects that are given again.
        experiments: the experiments of the runs.
        where: the folder of the runs, for the error message.
    """
    for kind, given in objects.items():
        for e in experiments:
            name = getattr(e, kind).name
            if not lookup.in_memory(name):
                raise Refusal(
                    f"{where} was trained with {kind} '{name}', which is not from "
                    f"memory; leave out {kind}="
                )
            if name != given.name:
                raise Refusal(
                    f"{where} was trained with {kind} '{name}', and {kind}= is "
                    f"'{given.name}' now; give the object with which the run was "
                    "trained, or train anew with troth.run"
                )


def check_here(experiments: Sequence[Experiment], where: object) -> None:
    """Refuse to continue runs whose data or network from memory are missing."""
    lost = [
        k for k in KINDS if any(lookup.lost(getattr(e, k).name) for e in experiments)
    ]
    if lost:
        again = ", ".join(f"{kind}=…" for kind in lost)
        raise Refusal(
            f"{where} was trained with {' and '.join(lost)} from memory, and this "
            "process does not have them; give the same again in Python: "
            f"troth.resume({str(where)!r}, {again})"
        )
