"""Put marks on axes: SVG for marks, HTML for text, and no script.

A picture is as wide as its place: its marks are an SVG that is stretched without
changing the width of lines, and its words are HTML at positions in percent, so that
they are never scaled.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from troth.plot._style import SERIES

_NAMED = 12  # names of a legend, at most


class Scale(NamedTuple):
    """A range of values, drawn over 1000 units."""

    low: float
    high: float
    step: float

    def to(self, values: Any) -> np.ndarray:
        """Return positions from 0 to 1000; NaN stays NaN."""
        share = (np.asarray(values, float) - self.low) / (self.high - self.low)
        return np.round(1000 * share.clip(0, 1))

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions in percent, and their labels."""
        wide = self.high - self.low
        every = self.low + self.step * np.arange(int(wide / self.step + 1e-9) + 1)
        texts = [f"{v:.6g}".replace("-", "−") for v in np.round(every, 12) + 0.0]
        return [*zip(100 * (every - self.low) / wide, texts, strict=True)]


def scale(*parts: Any, most: float = math.inf, steps: int = 5) -> Scale:
    """Return a range with round ends that has all finite values in it, up to `most`."""
    every = np.concatenate([np.ravel(np.asarray(part, float)) for part in parts])
    every = every[np.isfinite(every)]
    low, high = (every.min(), every.max()) if len(every) else (0.0, 1.0)
    wide = float(high - low) or abs(float(high)) or 1.0
    power = 10.0 ** math.floor(math.log10(wide / steps))
    step = next(k * power for k in (1, 2, 5, 10) if k * power * steps >= wide * 0.999)
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    end = end + (end == start)
    if most < end * step:
        end, start = round(most / step), min(start, round(most / step) - 1)
    return Scale(start * step, end * step, step)


def color(at: int) -> str:
    """Return the color of a model by its index."""
    return f"var(--s{at})" if at < len(SERIES) else "var(--soft)"


def path(d: str, kind: str, **data: Any) -> Markup:
    """Return a path of a class; other arguments are attributes."""
    more = (Markup(' {}="{}"').format(k.replace("_", "-"), v) for k, v in data.items())
    return Markup('<path class="{}" d="{}"{}/>').format(kind, d, Markup().join(more))


def dots(x: Any, y: Any) -> str:
    return "".join(f"M{a:.0f} {b:.0f}h0" for a, b in zip(x, y, strict=True))


def line(x: Any, y: Any) -> str:
    """Return a line through points; a NaN interrupts it."""
    text, pen = "", "M"
    for a, b in zip(x, y, strict=True):
        known = not math.isnan(b)
        text += f"{pen}{a:.0f} {b:.0f}" if known else ""
        pen = "L" if known else "M"
    return text


def steps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a step line: between two points it has the later value."""
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def plot(
    marks: Iterable[Markup],
    says: str,
    high: float,
    x: Scale | None = None,
    y: Scale | None = None,
    heads: tuple[str, str] = ("", ""),
    more: Iterable[Markup] = (),
    kind: str = "",
    **data: Any,
) -> Markup:
    """Put marks on axes.

    Args:
        marks: Marks, in units of the SVG, which is 1000 wide and 1000 high.
        says: Description for readers who do not see the picture.
        high: Height in rem.
        x: The horizontal axis, with grid lines.
        y: The vertical axis, with grid lines.
        heads: Names of the axes.
        more: Further text, positioned by its style.
        kind: Further classes.
        data: Attributes.
    """
    across, up = (s.ticks() if s else [] for s in (x, y))
    grid = "".join(f"M{10 * at:.0f} 0V1000" for at, _ in across)
    grid += "".join(f"M0 {1000 - 10 * at:.0f}H1000" for at, _ in up)
    texts = [
        *(
            Markup('<i class="x" style="left:{:.1f}%">{}</i>').format(*t)
            for t in across
        ),
        *(Markup('<i class="y" style="bottom:{:.1f}%">{}</i>').format(*t) for t in up),
        Markup('<i class="xhead">{}</i>').format(heads[0]),
        *more,
    ]
    attributes = (
        Markup(' {}="{}"').format(k.replace("_", "-"), v) for k, v in data.items()
    )
    return Markup(
        '<div class="chart {}">{}<div class="plot" style="height:{}rem"{}>'
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}{}</svg>{}</div></div>'
    ).format(
        f"{kind} {'tall' if y else ''}".strip(),
        Markup('<b class="yhead">{}</b>').format(heads[1]) if heads[1] else "",
        f"{high:g}",
        Markup().join(attributes),
        says,
        path(grid, "grid"),
        Markup().join(marks),
        Markup().join(texts),
    )


def legend(items: Mapping[str, tuple[str, str]]) -> Markup:
    """Return a legend: name → color and dash."""
    item = Markup(
        '<li><svg viewBox="0 0 28 8" aria-hidden="true"><path class="line" d="M1 4H27" '
        'style="stroke:{};stroke-dasharray:{}"/></svg>{}</li>'
    )
    some = [item.format(c, d or "none", n) for n, (c, d) in [*items.items()][:_NAMED]]
    left = len(items) - _NAMED
    more = [Markup("<li>and {} more</li>").format(left)] if left > 0 else []
    return Markup('<ul class="legend">{}</ul>').format(Markup().join([*some, *more]))
