"""Read the sentences of the report, and write the numbers, names and commands in them.

`sentences.toml` has the sentences as named templates with placeholders for values.
"""

import contextlib
import functools
import re
import shlex
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd

from troth import files, lookup
from troth.certificates.bounds import lower, upper
from troth.runs.compare import number, short
from troth.runs.inspect import Dossier
from troth.types import Refusal

Sentence = tuple[str, ...]
"""The name of a sentence template, and its values as text."""

_FILE = resources.files("troth.reports.cards").joinpath("sentences.toml")
RULES = {
    f"{about}.{rule}": text
    for about, rules in tomllib.loads(_FILE.read_text("utf-8")).items()
    for rule, text in rules.items()
}
"""Name → sentence template. The summary of the page uses names with `page.`."""


def words(sentence: Sentence) -> str:
    """Write a sentence: its template, filled in with its values."""
    return re.sub(r"\{(\d+)\}", lambda at: sentence[1 + int(at[1])], RULES[sentence[0]])


Interval = tuple[float, float]
_LISTED = 20  # clients that a list names, at most


@functools.lru_cache(maxsize=4096)  # many clients have the same arguments
def interval(share: float, examples: int) -> Interval | None:
    """Return the 95 % interval (Clopper and Pearson) of a share of examples.

    Return None if `share` is not a whole number of examples divided by all.
    """
    count = share * examples
    if not examples or not 0 <= share <= 1 or abs(count - round(count)) > 1e-6:
        return None
    low, high = (bound(round(count), examples, 0.025) for bound in (lower, upper))
    return float(low), float(high)


def proportion(run: Dossier, value: float, examples: int) -> Interval | None:
    """Return the interval of a client's value, or None if the value is not a share."""
    if run.metric != "accuracy" or run.resolved.get("multi_label"):
        return None
    return interval(value, examples)


def chance(p: float) -> str:
    """Write a p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {number(p)}"


def name(run: Dossier) -> str:
    """Return the short name of a run."""
    return short(run.label)


def quoted(run: Dossier) -> str:
    """Return the short name of a run in quotation marks, for sentences."""
    return f"“{name(run)}”"


_PLAINLY = {
    "none": "one model for all clients",
    "local": "each client's own, trained on its data alone",
    "ditto": "each client's own, trained on its data and close to the shared model",
    "finetune": "the shared model, trained further by each client at the end",
}


def plainly(run: Dossier) -> str:
    """Describe the models that the clients of a run predict with."""
    kind = run.part("personalizer")
    return _PLAINLY.get(kind) or _summary("personalizer", kind) or "–"


def _summary(kind: str, member: str) -> str:
    """Return the summary of a member without its full stop; "" if there is none."""
    with contextlib.suppress(Refusal):
        return lookup.about(kind, member).summary.rstrip(".")
    return ""


_DOES = {
    "model_replacement": "multiply their updates by the number of selected clients",
    "random_labels": "train on random labels",
    "flip_labels": "train on flipped labels",
    "sign_flip": "send the negative of their update",
    "gaussian": "send random updates",
}


def hostility(run: Dossier) -> str:
    """Describe what malicious clients do, with the names in the experiment."""
    attack, corruption = run.part("attack"), run.part("corruption")
    single = not run.resolved.get("multi_label")
    named = f"corruption {corruption}"
    if corruption == "auto":
        flips = run.resolved.get("classes") == 2 and single
        corruption = "flip_labels" if flips else "random_labels"
        named += f", which here is {corruption}"
    parts = [("corruption", corruption, named), ("attack", attack, f"attack {attack}")]
    lines = [f"they {_does(k, n)} ({w})" for k, n, w in parts if n != "none"]
    return ", and ".join(lines) or "they do nothing"


@functools.cache
def _does(kind: str, member: str) -> str:
    """Describe what a client with this attack or corruption does."""
    summary = _summary(kind, member)
    unknown = f"do this: {summary}" if summary else "do what its code says"
    return _DOES.get(member, unknown)


def listed(ids: np.ndarray, most: int = _LISTED) -> str:
    """List clients by number; of many, list the first ones and count the others."""
    if not len(ids):
        return "no client"
    some = ", ".join(str(int(k)) for k in ids[:most])
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"client{'s' if len(ids) > 1 else ''} {some}{more}"


def command(*words: object) -> str:
    """Write a command that can be copied."""
    return shlex.join(["troth", *(str(word) for word in words)])


def from_memory(run: Dossier, *kinds: str) -> str:
    """Return the arguments that pass the Python objects of a run, such as `data=DATA`.

    Return "" if the run has none: then the command line can be used. `kinds` are the
    objects that are needed, by default data and model.
    """
    names = (k for k in kinds or ("data", "model") if lookup.in_memory(run.part(k)))
    return ", ".join(f"{kind}={kind.upper()}" for kind in names)


def loaded(run: Dossier, *kinds: str) -> str:
    """Write the Python call that opens a run."""
    objects = from_memory(run, *kinds)
    return f"troth.load({str(run.path)!r}{', ' if objects else ''}{objects})"


def certify(
    run: Dossier,
    transform: str = "pixel",
    sigma: float = 0.25,
    client: int | None = None,
) -> str:
    """Write the command that certifies all models of a run, or one client's."""
    if from_memory(run):
        one = "" if client is None else f", clients='{client},'"
        how = f"Smoothing(transform={transform!r}, sigma={sigma:g})"
        return (
            "import troth; from troth.certificates.smoothing import Smoothing; "
            "from troth.examine.certify import certify; "
            f"certify({loaded(run)}, {how}{one})"
        )
    only = () if client is None else ("--client", client)
    noise = ("--transform", transform, "--sigma", f"{sigma:g}")
    return command("certify", run.path, *noise, *only)


def audit(run: Dossier, client: int | None = None) -> str:
    """Write the command that audits all models of a run, or one client's.

    Only images have a known range, and only before they are standardized.
    """
    section = run.sections.get("adversarial")
    bounds = section.get("bounds") if isinstance(section, dict) else None
    image = len(run.resolved.get("shape") or ()) == 3 and run.part("features") == "none"
    free = bounds == [0.0, 1.0] and not image  # the default, which no table fits
    if from_memory(run):
        one = "" if client is None else f", clients='{client},'"
        return f"troth.audit({loaded(run)}{one}{', bounds=[]' if free else ''})"
    only = () if client is None else ("--client", client)
    return command("audit", run.path, *only, *(("--bounds", "none") if free else ()))


def whole(run: Dossier) -> Path:
    """Return the folder of the grid that a run belongs to, or the run's own folder."""
    if "whole" not in run.kept:
        grid = (run.path.parent / files.GRID).exists()
        run.kept["whole"] = run.path.parent if grid else run.path
    return Path(run.kept["whole"])


def again(run: Dossier, why: str, *settings: str) -> tuple[str, str]:
    """Return a new folder `…-why`, and the command that trains a changed run there.

    `settings` are the changed settings.
    """
    if ("again", why) not in run.kept:  # the same for all cards of the run
        root = whole(run)
        place = root.with_name(f"{root.resolve().name}-{why}")
        place = place if root == run.path else place / run.path.name
        more = [part for setting in settings for part in ("--set", setting)]
        file = run.path / files.EXPERIMENT
        asks = command("run", file, *more, "--out", place)
        if objects := from_memory(run):
            asks = f"troth.run({str(file)!r}, settings={[*settings]}, {objects}, "
            asks += f"out={str(place)!r})"
        run.kept["again", why] = str(place), asks
    found: tuple[str, str] = run.kept["again", why]
    return found


def resume(run: Dossier) -> str:
    """Write the command that continues a run."""
    objects = from_memory(run)
    call = f"troth.resume({str(run.path)!r}, {objects})"
    return call if objects else command("resume", run.path)


def beside(run: Dossier, place: str) -> str:
    """Write the command that reports a run and the run in folder `place` together."""
    return command("report", whole(run), place)


def saved(run: Dossier) -> bool:
    """Return whether the models that the clients predict with were saved."""
    return run.part("personalizer") == "none" or (run.path / files.PERSONAL).exists()


def keeping(run: Dossier) -> str:
    """Write the command that trains the same experiment and saves its models."""
    return again(run, "kept", "output.personal=true")[1]


def ranks(values: np.ndarray, who: np.ndarray, metric: str) -> np.ndarray:
    """Return the ranks [n] of the clients in `who`; 1 is best, and ties share a rank.

    All other clients have rank 0.
    """
    loss = np.where(who, -values if metric == "accuracy" else values, np.nan)
    place = pd.Series(loss).rank(method="min")
    return np.asarray(place.fillna(0), dtype=np.int64)
