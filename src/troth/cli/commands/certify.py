"""`troth certify`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import (
    Client,
    Clients,
    DataDir,
    Device,
    Folder,
    Json,
    Out,
    Quiet,
)
from troth.cli.commands._opening import numbers, opened, whose
from troth.cli.commands._words import stoppable

if TYPE_CHECKING:
    from rich.console import Group

    from troth.examine.certify import Found

_SHOWN = 3  # radii in the table


def certify(
    path: Folder,
    transform: Annotated[
        str, Flag(help="pixel, rotation, translation or affine.")
    ] = "pixel",
    sigma: Annotated[
        float, Flag(help="Of the noise: 0–1 scale, radians or half images.")
    ] = 0.5,
    models: Annotated[
        str, Flag(help="Of personal,shared,local; else what the run has.")
    ] = "",
    clients: Clients = "all",
    client: Client = None,
    examples: Annotated[int, Flag(help="Test examples of each client.")] = 500,
    n: Annotated[int, Flag(help="Samples that bound a probability.")] = 100_000,
    n0: Annotated[int, Flag(help="Samples that choose the class.")] = 100,
    alpha: Annotated[float, Flag(help="Failure probability.")] = 0.001,
    samples: Annotated[
        str, Flag(help="fixed, or adaptive: no more than the question needs.")
    ] = "fixed",
    radii: Annotated[
        str, Flag(help="Asked about by adaptive samples: 0,0.25,0.5 …")
    ] = "",
    tolerance: Annotated[
        float, Flag(help="Or: the radius to within this share, such as 0.01.")
    ] = 0.0,
    seed: Annotated[int, Flag(help="Of noise, and of the examples drawn.")] = 0,
    precision: Annotated[str, Flag(help="float32 or bfloat16.")] = "float32",
    interpolation: Annotated[str, Flag(help="bilinear or nearest.")] = "bilinear",
    padding: Annotated[str, Flag(help="zeros, border or reflection.")] = "zeros",
    frame: Annotated[str, Flag(help="edges, centres or mixed.")] = "edges",
    units: Annotated[
        str, Flag(help="Of a translation: normalised or pixels.")
    ] = "normalised",
    tile: Annotated[int, Flag(help="Samples that are classified together.")] = 1000,
    local: Annotated[
        Path | None, Flag(help="A run with personalizer local, for local models.")
    ] = None,
    out: Out = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prove how far inputs may change: a radius for every client's model."""
    from troth.certificates.smoothing import Smoothing
    from troth.cli import progress, tables
    from troth.examine import certify as certifying

    run = opened(path)
    words: dict[str, Any] = {"transform": transform, "samples": samples, "units": units}
    words |= {"precision": precision, "interpolation": interpolation}
    words |= {"padding": padding, "frame": frame, "n": n, "n0": n0, "alpha": alpha}
    words |= {"seed": seed, "tile": tile, "tolerance": tolerance}
    asked = tuple(numbers("--radii", radii, "0,0.25,0.5")) if radii else None
    smoothing = Smoothing(sigma=sigma, radii=asked, **words)
    wanted: dict[str, Any] = {"clients": whose(clients, client), "examples": examples}
    wanted["models"] = tuple(m.strip() for m in models.split(",")) if models else None
    wanted["local"] = None if local is None else opened(local)
    wanted |= {"out": out, "device": device, "data_dir": data_dir}
    again = f"the same command goes on: {shlex.join(['troth', *sys.argv[1:]])}"
    intro = (
        f"Writing to {out or run.path}. Ctrl-C stops and loses nothing; then {again}"
    )
    watch = progress.Counter("certificates", intro, quiet)

    def stopped() -> str:
        last = watch.last
        far = f" after {last.done} of {last.total} certificates" if last else ""
        return f"stopped{far}; {again}"

    with stoppable(stopped), watch:
        found = certifying.certify(run, smoothing, watch=watch, **wanted)
    lines = [*_words(found), f"Files: {', '.join(map(str, found.files))}"]
    tables.show(_table(found), lines, found.told(), as_json, quiet)


def _table(found: Found) -> Group:
    """One row per model."""
    import numpy as np

    from troth.certificates.bounds import down
    from troth.cli import tables

    s = found.smoothing
    radii = next(iter(found.curves.values())).radii
    at = sorted({*np.linspace(0, len(radii) - 1, _SHOWN + 1).astype(int)[:-1].tolist()})
    columns = ["model", *(f"at {down(float(radii[i]))}" for i in at)]
    columns += ["radius", "if right", "samples"]
    rows = []
    for name, curve in found.curves.items():
        c = curve.summary()
        cells = [f"{c['mean'][i]:.3f} ±{c['std'][i]:.2f}" for i in at]
        right = float(c["acr_right"])
        cells += [down(float(c["acr"])), "–" if np.isnan(right) else down(right)]
        rows.append([name, *cells, f"{c['used']:,.0f}"])
    n = len(next(iter(found.curves.values())).clients)
    who = f"mean ± std over {n} clients" if n > 1 else "1 client"
    title = f"Certified accuracy at a radius ({s.unit}), {who}"
    return tables.table(title, columns, rows)


def _words(found: Found) -> list[str]:
    """Say what the numbers promise, and what they do not."""
    s = found.smoothing
    open_ = sum(not row.certificate.settled for row in found.rows)
    none = sum(row.certificate.label < 0 for row in found.rows)
    sure = (
        f"Each certificate holds with probability {1 - s.alpha:g}, of the smoothed "
        "model"
    )
    if s.transform != "pixel":
        sure += ", for one resampling of the original image"
        sure += " (docs/how-to/certificates.md)"
    lines = [
        "radius: mean over all examples, 0 where the class is wrong; if right: over "
        f"those that are right. Rounded down. Abstained: {none} of {len(found.rows)}",
        sure,
    ]
    if open_:
        lines.append(
            f"For {open_} of {len(found.rows)} examples the {s.n:,} samples ran out "
            "before the question was settled; --n with more would say more"
        )
    return lines
