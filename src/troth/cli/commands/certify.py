"""The command `troth certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands import _flags as flags
from troth.cli.commands._flags import numbers, opened, whose
from troth.cli.commands._words import again, stoppable

if TYPE_CHECKING:
    from rich.console import Group

    from troth.examine.certify import Found

_SHOWN = 3  # number of radii in the table
_FEW = 3  # smallest number of clients whose differences are compared


def certify(
    path: flags.Folder,
    transform: Annotated[
        str,
        Flag(
            help="Change of inputs to certify against: pixel, rotation, translation "
            "or affine."
        ),
    ] = "pixel",
    sigma: Annotated[
        float,
        Flag(
            help="Size σ of the noise. pixel: for inputs scaled to 0 … 1. rotation: "
            "in radians. translation: see --units."
        ),
    ] = 0.5,
    models: Annotated[
        str,
        Flag(
            help="Models to certify: personal, shared, local, or several of them "
            "separated by commas. Default: all that the run has."
        ),
    ] = "",
    clients: flags.Clients = "all",
    client: flags.Client = None,
    examples: Annotated[int, Flag(help="Number of test examples per client.")] = 500,
    n: Annotated[
        int,
        Flag(help="Number of noisy samples from which an input's radius is computed."),
    ] = 100_000,
    n0: Annotated[
        int, Flag(help="Number of noisy samples from which an input's class is chosen.")
    ] = 100,
    alpha: Annotated[
        float, Flag(help="Largest allowed probability that a certificate is wrong.")
    ] = 0.001,
    samples: Annotated[
        str,
        Flag(
            help="fixed: draw --n samples of every input. adaptive: stop earlier, when "
            "it is decided which --radii are certified, or when the radius is known "
            "up to --tolerance."
        ),
    ] = "fixed",
    radii: Annotated[
        str,
        Flag(
            help="With --samples adaptive: stop when it is decided which of these "
            "radii are certified. Example: 0,0.25,0.5."
        ),
    ] = "",
    tolerance: Annotated[
        float,
        Flag(
            help="With --samples adaptive: stop when the relative error of the radius "
            "is at most this value, such as 0.01. 0: not used."
        ),
    ] = 0.0,
    seed: Annotated[
        int, Flag(help="Seed of the noise and of the choice of examples.")
    ] = 0,
    precision: Annotated[
        str, Flag(help="Precision of the model: float32 or bfloat16.")
    ] = "float32",
    interpolation: Annotated[
        str, Flag(help="Values between pixels: bilinear or nearest.")
    ] = "bilinear",
    padding: Annotated[
        str, Flag(help="Values outside the image: zeros, border or reflection.")
    ] = "zeros",
    frame: Annotated[
        str,
        Flag(
            help="Position of the coordinates -1 and 1 in an image. edges: outer edges "
            "of the border pixels. centres: their centers. mixed: as in the code of "
            "DeformRS."
        ),
    ] = "edges",
    units: Annotated[
        str,
        Flag(
            help="Unit of a translation: pixels, or normalised (half of the image's "
            "width or height)."
        ),
    ] = "normalised",
    tile: Annotated[
        int,
        Flag(help="Number of noisy samples of one input that are classified at once."),
    ] = 1000,
    local: Annotated[
        Path | None,
        Flag(
            help="Folder of another run, whose personalizer is `local`. Its models are "
            "certified as the local models."
        ),
    ] = None,
    out: flags.Out = None,
    device: flags.Device = "auto",
    data_dir: flags.DataDir = None,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Certify how far an input may change without a change of the prediction."""
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
    intro = f"Writing to {out or run.path}. Ctrl-C stops and loses nothing; {again()}"
    watch = progress.Counter("certificates", intro, quiet)

    def stopped() -> str:
        last = watch.last
        far = f" after {last.done} of {last.total} certificates" if last else ""
        return f"stopped{far}; {again()}"

    with stoppable(stopped), watch:
        found = certifying.certify(run, smoothing, watch=watch, **wanted)
    lines = [*_words(found), f"Files: {', '.join(map(str, found.files))}"]
    tables.show(_table(found), lines, found.told(), as_json, quiet)


def _table(found: Found) -> Group:
    """Return a table with one row per kind of model."""
    import numpy as np

    from troth.certificates.bounds import down
    from troth.cli import tables

    curves = found.curves.values()
    radii, clients = next((c.radii, len(c.clients)) for c in curves)
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
    who = f"mean ± std over {clients} clients" if clients > 1 else "1 client"
    title = f"Certified accuracy at a radius ({found.smoothing.unit}), {who}"
    return tables.table(title, columns, rows)


def _spread(found: Found) -> list[str]:
    """Return lines that say how much clients differ, and under which model more."""
    from troth.certificates.curves import paired

    if min(len(curve.clients) for curve in found.curves.values()) < _FEW:
        return []
    each = {k: float(c.summary()["acr_spread"]) for k, c in found.curves.items()}
    lines = [
        "Standard deviation of the radius over clients, without the part that is due "
        f"to few examples: {', '.join(f'{k} {v:.3f}' for k, v in each.items())}"
    ]
    for pair in paired(found.curves):
        one, two = pair["models"]
        if pair["acr"]["low"] > 0 or pair["acr"]["high"] < 0:
            more = "more" if pair["acr"]["low"] > 0 else "less"
            lines.append(f"Clients differ {more} with {one} than with {two} models")
        else:
            lines.append(
                f"Clients and examples are too few to tell whether clients differ more "
                f"with {one} or with {two} models"
            )
    return lines


def _words(found: Found) -> list[str]:
    """Return lines that explain the numbers and what a certificate promises."""
    s, total = found.smoothing, len(found.rows)
    open_ = sum(not row.certificate.settled for row in found.rows)
    none = sum(row.certificate.label < 0 for row in found.rows)
    sampled = " and one resampling of the original image (docs/how-to/certificates.md)"
    lines = _spread(found) + [
        "radius: mean over all examples, 0 where the class is wrong. if right: mean "
        f"over examples with the right class. Both are rounded down. No class was "
        f"certain for {none} of {total} examples",
        f"Each certificate holds with probability {1 - s.alpha:g}, for the smoothed "
        f"model{sampled if s.transform != 'pixel' else ''}",
    ]
    if open_:
        lines.append(
            f"For {open_} of {total} examples, {s.n:,} samples did not decide --radii "
            "or --tolerance; raise --n"
        )
    return lines
