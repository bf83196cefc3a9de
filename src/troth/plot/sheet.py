"""Draw a data set: some examples, and how they are split among clients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from troth import seeding
from troth.plot._style import INK, SERIES, SOFT, dress, figure
from troth.types import Arrays

_BAR, _LINE = SERIES[:2]
_ROWS = 10  # approximate number of rows of images
_PIXELS = 1400  # if all rows together are higher, only every k-th pixel is drawn
_NAMED = 24  # if there are more classes or clients, they are not labeled
_FEATURES = 16  # largest number of histograms
_MANY = 100  # largest number of classes in a heat map
_WIDE = 1500  # largest number of clients in a heat map
_HUES = 5  # if there are more classes, a histogram has one color
_SINGLE = 60  # if there are more clients, bars touch


def draw(arrays: Arrays, clients: Sequence[np.ndarray], title: str) -> Figure:
    """Draw examples (or histograms) on the left, and the split on the right.

    Args:
        arrays: The data set.
        clients: Indices of the examples of each client.
        title: Title of the figure.
    """
    made = figure(14, 7.4)
    made.suptitle(title, x=0.012, ha="left", size=15, weight="bold", color=INK)
    halves: Any = made.subfigures(1, 2, width_ratios=(1.0, 1.08), wspace=0.03)
    left, right = halves
    if arrays.x.ndim == 4 and arrays.x.shape[1] in (1, 3):
        _sheet(left.subplots(), arrays)
    else:
        _histograms(left, arrays)
    above, below = right.subplots(2, 1, height_ratios=(1, 1.35))
    order = sorted(range(len(clients)), key=lambda k: -len(clients[k]))
    ranked = [clients[k] for k in order]
    _sizes(above, ranked)
    if arrays.classes == 0:
        _targets(below, arrays.y, ranked)
    elif arrays.classes <= _MANY:
        _shares(below, arrays, ranked)
    else:
        _variety(below, arrays, ranked)
    _clients(above, order, "")
    _clients(below, order, f"{len(order):,} clients, the largest first")
    return made


def _clients(axes: Axes, order: Sequence[int], words: str) -> None:
    """Label the axis of clients; if there are few, tick each with its number."""
    axes.set_xlim(-0.5, len(order) - 0.5)
    axes.set_xlabel(words, color=SOFT)
    if len(order) <= _NAMED:
        axes.set_xticks(range(len(order)), [str(k) for k in order])
        axes.tick_params(axis="x", length=0)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.xaxis.set_major_formatter("{x:,.0f}")


def _sheet(axes: Axes, arrays: Arrays) -> None:
    """Draw rows of images; if there are few classes, each row has one class."""
    rows, names = _rows(arrays)
    finer = max(1, rows.shape[0] * arrays.x.shape[-2] // _PIXELS)  # step in pixels
    x = arrays.x[rows][..., ::finer, ::finer].astype(np.float64) / arrays.scale
    h, w = x.shape[-2:]
    gap = max(1, round(h * 0.06))
    each = len(rows) // max(len(names), 1)  # rows of images per class
    part = 3 * gap if 1 < each < len(rows) else 0  # gap between classes
    tops = [i * (h + gap) + i // each * part for i in range(len(rows))]
    sheet = np.ones((tops[-1] + h, rows.shape[1] * (w + gap) - gap, 3))
    for i, j in np.ndindex(rows.shape):
        start = j * (w + gap)
        sheet[tops[i] : tops[i] + h, start : start + w] = np.moveaxis(x[i, j], 0, -1)
    axes.imshow(np.clip(sheet, 0, 1), interpolation="nearest", aspect="equal")
    shape = "×".join(map(str, arrays.x.shape[1:]))
    dress(axes, f"Examples ({shape})", "")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    last = [tops[(k + 1) * each - 1] + h for k in range(len(names))]
    middle = [(tops[k * each] + end) / 2 for k, end in enumerate(last)]
    axes.set_yticks(middle, names)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_anchor("NW")


def _rows(arrays: Arrays) -> tuple[np.ndarray, list[str]]:
    """Choose examples to draw at random.

    Returns:
        Indices of the examples, [rows, columns], and the name of each class, in the
        order of the rows. If there are many classes, or several labels per example,
        rows have mixed classes, and the list of names is empty.
    """
    draws = seeding.generator(0, "gallery")
    if arrays.y.ndim > 1 or not 0 < arrays.classes <= _NAMED:
        m, wanted = len(arrays.y), _ROWS * _ROWS
        return draws.choice(m, wanted, m < wanted).reshape(_ROWS, _ROWS), []
    there = np.unique(arrays.y)
    each = max(1, round(_ROWS / len(there)))
    columns = each * len(there)
    wanted, rows = each * columns, []
    for label in there:
        of = np.flatnonzero(arrays.y == label)
        rows.append(draws.choice(of, wanted, len(of) < wanted))
    return np.concatenate(rows).reshape(-1, columns), _names(arrays, there)


def _names(arrays: Arrays, classes: np.ndarray) -> list[str]:
    """Return the short name of each class, or its number if classes have no names."""
    known = arrays.labels or [str(k) for k in range(arrays.classes)]
    words = [known[k] for k in classes]
    return [word if len(word) <= 16 else f"{word[:15]}…" for word in words]


def _histograms(part: SubFigure, arrays: Arrays) -> None:
    """Draw a histogram per feature; if there are few classes, each has a color."""
    x = arrays.x.reshape(len(arrays.x), -1)
    count = min(x.shape[1], _FEATURES)
    side = int(np.ceil(np.sqrt(count)))
    grid = part.subplots(-(-count // side), side, squeeze=False)
    few = 2 <= arrays.classes <= _HUES and arrays.y.ndim == 1
    names = _names(arrays, np.arange(arrays.classes)) if few else ["all"]
    for j, axes in enumerate(grid.flat):
        axes.set_visible(j < count)
        if j < count:
            name = arrays.names[j] if j < len(arrays.names) else f"feature {j}"
            of = [arrays.y == k for k in range(len(names))] if few else [slice(None)]
            _histogram(axes, name, [x[rows, j] for rows in of])
    what = "Features" if count == x.shape[1] else f"{count} of {x.shape[1]:,} features"
    part.suptitle(what, x=0.02, ha="left", size=11, color=INK)
    if few:
        patches = [Patch(color=hue, alpha=0.6) for hue in SERIES[: len(names)]]
        looks: dict[str, Any] = {"frameon": False, "labelcolor": SOFT, "fontsize": 9}
        part.legend(patches, names, loc="upper right", ncols=len(names), **looks)


def _histogram(axes: Axes, name: str, groups: Sequence[np.ndarray]) -> None:
    """Draw a histogram of one feature, with the share of missing values in the title.

    Args:
        axes: where to draw.
        name: name of the feature.
        groups: values of the feature, one array per color.
    """
    values = [group[np.isfinite(group)].astype(np.float64) for group in groups]
    every = np.concatenate(values)
    missing = 1 - len(every) / max(sum(map(len, groups)), 1)
    title = f"{name[:18]}" + (f" ({missing:.0%} missing)" if missing else "")
    dress(axes, title, "")
    axes.tick_params(labelsize=7, length=2)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if len(every):
        edges = np.histogram_bin_edges(every, bins=24).tolist()
        for value, hue in zip(values, SERIES, strict=False):
            axes.hist(value, edges, color=hue, alpha=0.6, density=len(values) > 1)


def _sizes(axes: Axes, ranked: Sequence[np.ndarray]) -> None:
    """Draw the number of examples of each client, the largest first."""
    sizes = np.array([len(rows) for rows in ranked])
    width = 0.8 if len(sizes) <= _SINGLE else 1.0
    if len(sizes) <= _WIDE:
        axes.bar(np.arange(len(sizes)), sizes, width, color=_BAR)
    else:
        axes.fill_between(np.arange(len(sizes)), sizes, step="mid", color=_BAR, lw=0)
    low, high, middle = sizes.min(), sizes.max(), float(np.median(sizes))
    words = f"{low:,} to {high:,}, median {middle:,.0f}" if low < high else f"{low:,}"
    dress(axes, f"Examples per client: {words}", "", "examples")
    if low < high:
        axes.axhline(middle, color=_LINE, lw=1, ls=(0, (4, 3)))
    if 0 < 100 * low < high:
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _shares(axes: Axes, arrays: Arrays, ranked: Sequence[np.ndarray]) -> None:
    """Draw the share of each class in each client's examples as a heat map."""
    n = len(ranked)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _WIDE)).round().astype(int))
    kept = [ranked[k] for k in chosen]
    k = arrays.classes
    shares = np.zeros((k, len(kept)))
    for j, rows in enumerate(kept):
        y = arrays.y[rows]
        counts = y.sum(0) if y.ndim > 1 else np.bincount(y, minlength=k)
        shares[:, j] = counts / max(len(rows), 1)
    most = min(1.0, max(float(shares.max()), 2 / k))  # 1/k: at most half the color
    looks: dict[str, Any] = {"extent": (-0.5, n - 0.5, k - 0.5, -0.5), "vmax": most}
    looks |= {"vmin": 0.0, "aspect": "auto", "interpolation": "nearest"}
    image = axes.imshow(shares, "Blues", **looks)
    held = (shares > 0).sum(0)
    words = f"{held.min()} to {held.max()}" if held.min() < held.max() else f"{held[0]}"
    dress(axes, f"Classes per client: {words} of {k}", "")
    axes.grid(visible=False)
    if k <= _NAMED:
        axes.set_yticks(range(k), _names(arrays, np.arange(k)))
        axes.tick_params(axis="y", length=0)
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01, aspect=30, format="{x:.0%}")
    bar.locator = MaxNLocator(5, steps=[1, 2, 5, 10])
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=SOFT, labelsize=8, length=0)
    bar.set_label("of its examples", color=SOFT)


def _targets(axes: Axes, y: np.ndarray, ranked: Sequence[np.ndarray]) -> None:
    """Draw the median and the 10 % and 90 % quantiles of each client's targets."""
    levels = (10, 50, 90)
    found = np.array([np.percentile(y[rows], levels) for rows in ranked if len(rows)])
    at = np.arange(len(found))
    axes.vlines(at, found[:, 0], found[:, 2], color=_BAR, alpha=0.5, lw=3)
    axes.plot(at, found[:, 1], "o", color=_LINE, ms=4)
    dress(axes, "Targets per client: median, and 10 to 90 %", "", "target")


def _variety(axes: Axes, arrays: Arrays, ranked: Sequence[np.ndarray]) -> None:
    """Draw the number of classes of each client."""
    every = (arrays.y[rows] for rows in ranked)
    several = arrays.y.ndim > 1
    held = np.array([y.any(0).sum() if several else len(np.unique(y)) for y in every])
    axes.fill_between(np.arange(len(held)), held, step="mid", color=_BAR, lw=0)
    words = f"Classes per client: {held.min():,} to {held.max():,}"
    dress(axes, words, "", "classes")
