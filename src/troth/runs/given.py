"""Data and networks that are Python objects, for new runs and for resumed runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from troth import lookup
from troth.config.schema import Experiment
from troth.types import Refusal

KINDS = ("data", "model")
Objects = Mapping[str, lookup.Given]
""""data" or "model" → the registered object, registered while this mapping exists.
"""


def give(data: Any = None, model: Any = None) -> Objects:
    """Register data and a network, if they are not None.

    Experiments can then name them.
    """
    found = {}
    if data is not None:
        from troth.data import sources

        found["data"] = sources.give(data)
    if model is not None:
        from troth.networks import in_memory

        found["model"] = in_memory.give(model)
    return found


def settings(objects: Objects) -> list[str]:
    """Return settings by which an experiment uses the objects."""
    return [f"{kind}.name={given.name}" for kind, given in objects.items()]


def in_main(sections: Mapping[str, Any]) -> bool:
    """Return whether an experiment names functions of the main script or a notebook."""
    return "'__main__:" in repr(sections)


def check_sections(objects: Objects, sections: Mapping[str, Any]) -> None:
    """Raise Refusal for objects in an experiment, and for data or model set twice."""
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
            if name and name != objects[kind].name:  # a run's own file names it
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
    """Raise Refusal if an experiment uses something else than a given object."""
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
    """Raise Refusal if runs on disk were not trained with these objects.

    Args:
        objects: Objects that the caller passed again.
        experiments: Experiments of the runs.
        where: Folder of the runs, for the message.
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
    """Raise Refusal if runs were trained with objects that are not registered now."""
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
