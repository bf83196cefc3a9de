"""Run the scripts in experiments/ that make entries, and read their results."""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from troth.data import catalogue
from troth.data.datasets import _files
from troth.deployment import processes
from troth.reproduce import store
from troth.reproduce.entry import Entry
from troth.reproduce.kept import experiments
from troth.reproduce.settings import packaged
from troth.reproduce.store import Record
from troth.types import Refusal

Lines = list[tuple[str, dict[str, float]]]
"""Pairs of a label and its numbers."""

NAMES = packaged("names")
"""Names of data sets, curves, quantities and panels as they are shown."""


def check(entry: Entry, data_dir: str | None = None) -> Path:
    """Return the folder experiments/.

    Raise Refusal if it or the data of an entry are not on this machine.
    """
    root = experiments()
    if root is None:
        raise Refusal(
            f"{entry.name} is made by experiments/{entry.script[0]}, which is not part "
            "of an installed package; run troth from a checkout of its source"
        )
    for data in entry.data:
        found = catalogue.entry(data, data_dir)
        if found.place is None and found.source is not None:
            why = f" (needed for {entry.name}; --show prints existing results)"
            raise Refusal(_files.absent(found.source, data_dir, why))
    return root


def run(entry: Entry, device: str = "auto", data_dir: str | None = None) -> None:
    """Run the script of an entry; it continues where it was stopped.

    Raise Refusal if the script fails.
    """
    root = check(entry, data_dir)
    name, *rest = entry.script
    text = (root / name).read_text("utf-8")
    command = [sys.executable, str(root / name), *rest]
    if "--device" in text or "from common import" in text:
        command += ["--device", device]
    code = ran(command, {"TROTH_DATA": data_dir} if data_dir else {})
    if code:
        raise Refusal(
            f"experiments/{name} ended with exit code {code}; its message is above, "
            "and its finished results are kept"
        )


def ran(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its exit code.

    The process ends if this process ends, and its temporary folders are removed.
    """
    with tempfile.TemporaryDirectory(prefix="troth-script-") as place:
        own = {**environment, "TMPDIR": place}
        with processes.child(command, own, stdout=subprocess.DEVNULL) as process:
            return process.wait()


def results(entry: Entry, root: Path) -> list[Record]:
    """Return the existing results of an entry's script."""
    every = (sorted(store.named(root, some), key=_order) for some in entry.results)
    return [record for some in every for record in some]


def _order(record: Record) -> list[str | int]:
    """Return a sort key of a record, by which 20 in a name comes before 100."""
    parts = re.split(r"(\d+)", store.order(record)[-1])
    return [int(part) if k % 2 else part for k, part in enumerate(parts)]


def committed(entry: Entry, root: Path) -> str | None:
    """Return the date of the last git commit with results of an entry's script."""
    homes = dict.fromkeys(some.partition("/")[0] for some in entry.results)
    command = ["git", "-C", str(root), "log", "-1", "--format=%cI", "--"]
    command += [f"{home}/{store.TABLE}" for home in homes]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout
        return None
    return found.stdout.strip() or None


def labelled(entry: Entry, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield label and result; if a label occurs in several folders, add the folder."""
    every = []
    for record in results(entry, root):
        place, _, name = record["name"].rpartition("/")
        every.append((str(record.get("label", name)), place, record))
    homes = Counter(label for label, _ in {(label, place) for label, place, _ in every})
    for label, place, found in every:
        folder = place.rpartition("/")[2]
        named = f"{folder}: {label}" if homes[label] > 1 else label
        yield named, {"folder": folder, **found}


def seconds(entry: Entry, root: Path) -> float:
    """Return the seconds of all runs of an entry, as far as they are recorded."""
    every = (record for _, record in labelled(entry, root))
    took = (one.get("seconds", one.get("summary", {}).get("seconds")) for one in every)
    return sum(float(value or 0) for value in took)


def lines(entry: Entry, root: Path) -> Lines:
    """Return the numbers of an entry, one line per label or, for some, per panel.

    Results with the same label differ in their seeds. Numbers are means over them.
    """
    found: dict[str, list[dict[str, float]]] = {}
    number = entry.name.rpartition("figure")[2]
    for label, one in labelled(entry, root):
        if f"figure {number}" in one:
            return _panels(one[f"figure {number}"])
        found.setdefault(label, []).append(_numbers(one))
    means = {label: _mean(every) for label, every in found.items()}
    if not entry.shows:
        return [*means.items()]
    names = [*entry.shows, "seeds"]
    return [(k, {n: own[n] for n in names if n in own}) for k, own in means.items()]


def ways(record: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return quantity → its mean over clients after each evaluated step of fine-tuning.

    The disparity of accuracy is the accuracy on biased data minus that on conflicting
    data; for losses the sign is the opposite. As in Figure 6 of the paper on spurious
    features, the smallest adversarial accuracy is subtracted from all values.
    """
    every = record["curves"].items()  # [steps][clients] each
    found = {
        NAMES["ways"].get(name, name): np.nanmean(np.array(values, float), axis=1)
        for name, values in every
    }
    for name, sign in (("accuracy", 1), ("loss", -1)):
        if name in found and (other := found.get(f"conflicting {name}")) is not None:
            found[f"{name} disparity"] = sign * (found[name] - other)
    if "adversarial accuracy" in found:
        adversarial = found["adversarial accuracy"]
        found["adversarial accuracy gained"] = adversarial - adversarial.min()
    return found


Numbers = dict[tuple[str, str, str], list[float]]
"""(part, row, column) → one number per seed."""


PROBLEMS = {
    "mnist_fixed": ("MNIST", ""),
    "mnist": ("MNIST", ", x/255"),
    "coil20": ("Coil20", ""),
}
"""Problem of experiments/shortcuts → the paper's data, and an addition to the row.

The paper does not state how it scales inputs. Standardized inputs, (x − .1307)/.3081,
are compared with the paper's numbers, because then fine-tuning loses as much accuracy
on conflicting data as in the paper. The results with x/255 are in separate rows. CelebA
is left out, because it needs all identities.
"""


def shortcuts(root: Path) -> Numbers:
    """Return our numbers for Table 1 of the paper on spurious features.

    If a seed has several results for a cell, they are averaged.
    """
    row_of = {"finetune": "FT", "upweight": "UW", "transfer": "Ours"}
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for figure, whose in (("shared", "shared"), ("table", "personal")):
        for record in store.named(root, f"shortcuts/{figure}/*"):
            problem, _, rest = record["label"].partition(", ")
            row = "Global" if figure == "shared" else row_of.get(rest.split(", ")[0])
            if problem not in PROBLEMS or not row:
                continue
            data, scaling = PROBLEMS[problem]
            summary = record["summary"]
            tests = {"B": summary, "BC": summary["tests"]["conflicting"]}
            for test, part in tests.items():
                column = f"{data} Acc_{test}"
                at = ("coloured MNIST, CelebA and Coil20", row + scaling, column)
                runs = found.setdefault(at, {})
                value = float(part[whose]["accuracy_mean"])
                runs.setdefault(record["seed"], []).append(value)
    return {at: [*map(mean, runs.values())] for at, runs in found.items()}


def sums(root: Path) -> Numbers:
    """Return our numbers for Table 1 of the paper on attack equivalence.

    They are the accuracies at the end of training, with λ = 1.
    """
    rows = {"idle user's model": "idle", "active user's model": "own"}
    rows |= {"global model": "shared"}
    found, kept = {}, store.Store(root / "attack_chain")
    for sign, fit in (("E", "mean"), ("Σ", "sum")):
        for model, name in (("linear", "linear"), ("network", "MLP")):
            curves = kept.get(f"sums/{name}, {fit}, λ=1.0") or {}
            for row, key in rows.items():
                if key in curves:
                    at = ("noisy Fashion-MNIST", row, f"{sign} {model}")
                    found[at] = [float(curves[key][-1])]
    return found


def layout(lines: Lines) -> tuple[list[str], list[list[str]]]:
    """Return names of columns, and one row of texts per label.

    If a number is missing, the text is empty.
    """
    heads = list(dict.fromkeys(name for _, found in lines for name in found))
    rows = [
        [label, *(f"{found[head]:.4g}" if head in found else "" for head in heads)]
        for label, found in lines
    ]
    return heads, rows


def _mean(every: list[dict[str, float]]) -> dict[str, float]:
    mean = {name: float(np.mean([one[name] for one in every])) for name in every[0]}
    return mean | {"seeds": float(len(every))}


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    if "certified" in record:
        certified: dict[str, float] = {}
        for whose, curve in record["certified"]["models"].items():
            mean = curve["mean"]
            certified[f"{whose}, certified at 0"] = float(mean[0])
            certified[f"{whose}, at half of the radii"] = float(mean[len(mean) // 2])
            certified[f"{whose}, average radius"] = float(curve["acr"])
        return certified
    if "summary" in record:
        summary, pooled = record["summary"], record.get("pooled", {})
        found = {
            f"{whose}, {what}": float(summary[whose][f"accuracy_{what}"])
            for whose in ("shared", "personal")
            for what in ("weighted", "std")
        }
        for name, each in summary.get("tests", {}).items():
            for whose in ("shared", "personal"):
                biased = float(summary[whose]["accuracy_mean"])
                other = float(each[whose]["accuracy_mean"])
                found |= {f"{whose}, biased": biased, f"{whose}, {name}": other}
                found[f"{whose}, disparity"] = biased - other
        whole = {f"all clients', {name}": float(v) for name, v in pooled.items()}
        return found | whole
    if "curves" in record:
        return {name: float(way[-1]) for name, way in ways(record).items()}
    if "end" in record:
        return {name: float(value) for name, value in record["end"].items()}
    curves = {
        name: record[key] for key, name in NAMES["curves"].items() if key in record
    }
    return {name: float(curve[-1]) for name, curve in curves.items()}


def _panels(figure: dict[str, Any]) -> Lines:
    """Return one line per panel of a simulated figure of Ditto.

    Figure 1 has the least error and its λ, and Figure 2 mean errors.
    """
    found: Lines = []
    for panel in figure["panels"]:
        if "lam" in figure:
            case, error = panel["case"], np.array(panel["error"])
            at = int(error.argmin())
            label = f"K = {case['K']}, {case['K_a']} adversaries"
            numbers = {"least error": float(error[at])}
            numbers["at λ"] = float(figure["lam"][at])
            if "theory" in panel:
                numbers["least by theory"] = float(min(panel["theory"]["error"]))
                numbers["λ* by theory"] = float(panel["best"])
        else:
            numbers = {
                f"mean error, {name}": float(np.mean(values))
                for name, values in panel.items()
                if isinstance(values, list) and name != "best"
            }
            if "best" in panel:
                numbers["λ* where clients differ most"] = float(panel["best"][0])
                numbers["where least"] = float(panel["best"][-1])
            label = str(panel.get("title", len(found) + 1)).replace("\n", " ")
            label = label.replace("$", "")
        found.append((label, numbers))
    return found
