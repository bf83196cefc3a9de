"""What people and programs see of runs: progress, tables, comparisons, JSON."""

from __future__ import annotations

import inspect
import json
import math
import re
import shlex
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from rich import box, filesize
from rich.console import Console, Group
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table

from troth import comparison, config, folder, lookup, runs
from troth.api import Cost
from troth.loading import Run

_EVERY, _EVALUATED = 5.0, 1.0  # seconds between plain lines; between evaluated ones
_MARKS, _APART = 20, 0.5  # how many points a rate is taken over; seconds between them
_KEPT = 8  # bars of runs that stay on the screen
_MOST = 20  # pairs of runs that are printed
_COLUMNS = {
    "mean": ("personal", "mean"),
    "std": ("personal", "std"),
    "worst 10 %": ("personal", "worst10"),
    "weighted": ("personal", "weighted"),
    "shared mean": ("shared", "mean"),
}


def console(stderr: bool = True) -> Console:
    """Where people read; lines are cut only where there is a screen to cut them for."""
    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    found = Console(stderr=stderr, **plain)
    return found if found.is_terminal else Console(stderr=stderr, width=999, **plain)


def say(text: str) -> None:
    """A line for people; never broken, so that paths can be copied."""
    console().print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """The one object of `--json`, on stdout; what is not a number is null."""
    print(json.dumps(folder.plain(value), default=str))


def short(label: str) -> str:
    """A run's label for people: `ditto,lam=0.1` for `personalizer=ditto+lam=0.1`."""
    parts = []
    for part in label.split(","):
        kind, _, value = part.partition("=")
        named = kind in lookup.FOLDERS and value
        words = f"no {kind}" if value == "none" else value.replace("+", ",")
        parts.append(words if named else part)
    return ",".join(parts)


def difference(first: str, second: str) -> str:
    """« second − first » of two labels, with what they share in brackets after it."""
    a, b = first.split(","), second.split(",")
    both = [part for part in a if part in b]
    own = (",".join(p for p in parts if p not in both) for parts in (b, a))
    names = " − ".join(map(short, own))
    return f"{names} ({short(','.join(both))})" if both else names


def number(value: float | None, head: str = "accuracy") -> str:
    """An accuracy with three decimals, an error with four digits."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3f}" if head == "accuracy" else f"{value:.4g}"


def signed(value: float | None, head: str) -> str:
    """A difference, with its sign."""
    plus = "+" if value is not None and value >= 0 else ""
    return (plus + number(value, head)).replace("-", "−")


def duration(seconds: float) -> str:
    """`5 s`, `3 min 20 s` or `2 h 10 min`."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Watcher(AbstractContextManager["Watcher"]):
    """Told after every round: bars on a terminal, lines in a log.

    Args:
        name: of a run that has none of its own.
        intro: said when the first round is done, for then nothing is refused any more.
        quiet: say nothing.
    """

    def __init__(self, name: str, intro: str, quiet: bool = False) -> None:
        self.last: runs.Progress | None = None
        self._name, self._intro, self._quiet = name, intro, quiet
        self._printed, self._found = -math.inf, ""
        self._marks: deque[tuple[float, int]] = deque()  # when how many were done
        self._began = 0.0
        terminal = not quiet and console().is_terminal
        self._bars = _bars() if terminal else None
        self._tasks: list[TaskID] = []
        self._pulse: TaskID | None = None

    def __enter__(self) -> Watcher:
        if self._bars:
            self._bars.start()
            self._wait("preparing")
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bars of what was trained; where nothing was, no trace."""
        if self._bars:
            self._wait("")
            self._bars.live.transient = not self._tasks
            self._bars.stop()

    def __call__(self, p: runs.Progress) -> None:
        """Show a round."""
        last, self.last = self.last, p
        if self._quiet:
            return
        if last is None:
            (self._bars or console()).print(self._intro, soft_wrap=True)
        fresh = last is None or last.label != p.label or last.done >= p.done
        now = time.monotonic()
        if fresh:
            self._began, self._found, self._marks = now, "", deque(maxlen=_MARKS)
        if not self._marks or now - self._marks[-1][0] >= _APART:
            self._marks.append((now, p.done))
        if p.evaluation is not None:
            head = heading(p.evaluation)
            means = {k: p.evaluation[k][f"{head}_mean"] for k in ("personal", "shared")}
            self._found = " ".join(f"{k} {number(v, head)}" for k, v in means.items())
        label = short(p.label) if p.label else self._name
        if self._bars:
            self._bar(p, label, fresh)
        else:
            self._line(p, label)

    def _pace(self, p: runs.Progress) -> str:
        """« 31 rounds/s, 5 s left », of late; after a single round nothing is known."""
        now, (when, before) = time.monotonic(), self._marks[0]
        if p.done == before or now <= when:
            return ""
        if p.done == p.total:
            return duration(now - self._began)
        rate = (p.done - before) / (now - when)
        whole = 0 if rate > 9 or rate < 0.1 else 1
        speed = f"{rate:.{whole}f} rounds/s"
        if rate < 0.5:
            speed = f"{1 / rate:.{whole}f} s a round"
        return f"{speed}, {duration((p.total - p.done) / rate)} left"

    def _line(self, p: runs.Progress, label: str) -> None:
        """A line, at evaluations and where these are rare."""
        now = time.monotonic()
        wait = _EVERY if p.evaluation is None else _EVALUATED
        if now - self._printed >= wait or p.done == p.total:
            parts = f"{label}: round {p.done}/{p.total}", self._pace(p), self._found
            say(", ".join(part for part in parts if part))
            self._printed = now

    def _bar(self, p: runs.Progress, label: str, fresh: bool) -> None:
        """Move the bar of this run; make one where it is new."""
        assert self._bars is not None
        facts: dict[str, Any] = {"count": f"{p.done}/{p.total}", "found": self._found}
        facts["pace"], over = self._pace(p), p.done == p.total
        if fresh:
            self._wait("")
            self._tasks.append(self._bars.add_task(label, total=p.total, **facts))
            for old in self._tasks[:-_KEPT]:
                self._bars.update(old, visible=False)
        self._bars.update(self._tasks[-1], completed=p.done, **facts)
        if over:
            self._wait("working")

    def _wait(self, word: str) -> None:
        """A bar below the others that only says that work goes on; "" takes it away."""
        assert self._bars is not None
        if self._pulse is not None:
            self._bars.remove_task(self._pulse)
        facts: dict[str, Any] = {"count": "", "pace": "", "found": ""}
        add = self._bars.add_task
        self._pulse = add(word, total=None, **facts) if word else None


def _bars() -> Progress:
    label = Column(no_wrap=True, overflow="ellipsis")
    return Progress(
        TextColumn("{task.description}", table_column=label, markup=False),
        BarColumn(None, table_column=Column(ratio=1, min_width=6)),
        *(
            TextColumn(f"{{task.fields[{field}]}}", table_column=Column(no_wrap=True))
            for field in ("count", "pace", "found")
        ),
        console=console(),
        expand=True,
    )


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1
) -> Group:
    """A table under its title: texts in the first columns, numbers in the others."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, name in enumerate(columns):
        side: Literal["left", "right"] = "left" if i < texts else "right"
        made.add_column(name, justify=side, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return Group(f"\n{title}", made, "")


def heading(summary: Mapping[str, Any]) -> str:
    """What clients are judged by: accuracy, or error for a regression."""
    return "accuracy" if "accuracy_mean" in summary["personal"] else "error"


def benign(run: Run) -> int:
    """How many benign clients were evaluated."""
    values, hostile = run.clients[heading(run.summary)], run.clients["malicious"]
    return int(((values == values) & (hostile == 0)).sum())


def results(found: Sequence[Run], labels: Sequence[str]) -> Group:
    """A row a run."""
    counts = {(benign(run), run.summary["clients"]) for run in found}
    some, every = min(counts)
    who = f"the {some} benign of {every} clients" if some < every else f"{some} clients"
    rows = []
    for run, label in zip(found, labels, strict=True):
        s, head = run.summary, heading(run.summary)
        cells = [number(s[k][f"{head}_{m}"], head) for k, m in _COLUMNS.values()]
        rows.append([short(label), *cells, f"{s['seconds']:.1f}"])
    who = who if len(counts) == 1 else "benign clients"
    what = f"{head.capitalize()} of the clients' own models"
    title = f"{what}, each on its own test data, over {who}"
    return table(title, ["run", *_COLUMNS, "seconds"], rows)


def seeds(groups: Sequence[Mapping[str, Any]]) -> Group:
    """A row for the runs that differ only in their seed."""
    rows = []
    for group in groups:
        cells = []
        for kind, metric in _COLUMNS.values():
            found = group["numbers"][f"{kind}.{group['metric']}_{metric}"]
            both = (number(found[k], group["metric"]) for k in ("mean", "half_width"))
            cells.append(" ± ".join(both))
        rows.append([short(group["label"]), str(len(group["seeds"])), *cells])
    title = "Over seeds: mean ± half width of its 95 % interval"
    return table(title, ["runs", "seeds", *_COLUMNS], rows)


def paired(pair: Mapping[str, Any]) -> str:
    """Two runs, client by client, in a line."""
    keys, p = ("mean_difference", "low", "high"), pair["p_value"]
    mean, low, high = (signed(pair[key], pair["metric"]) for key in keys)
    chance = "p < 0.001" if p is not None and p < 0.001 else f"p = {number(p)}"
    return (
        f"{pair['label']}: {mean} [{low}, {high}], better for {pair['better']}, "
        f"worse for {pair['worse']}, equal {pair['equal']}, {chance}"
    )


def compare(found: Sequence[Run], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Runs over their seeds, and pairs of runs client by client."""
    told = [(_settings(run), run.summary) for run in found]
    several = [group for group in comparison.by_seed(told) if len(group.runs) > 1]
    alike = [  # in other data or parts of them client k is somebody else
        pair
        for pair in comparison.pairs(told)
        if not pair.setting.startswith(("data.", "partition."))
    ]
    return [
        *(_over_seeds(group, found, labels) for group in several),
        *(_by_client(pair, found, labels) for pair in alike),
    ]


def _over_seeds(
    group: comparison.Group, found: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    first = group.runs[0]
    parts = [p for p in labels[first].split(",") if not p.startswith("seed=")]
    numbers = {k: {"mean": m, "half_width": h} for k, (m, h) in group.numbers.items()}
    return {
        "kind": "seeds",
        "label": ",".join(parts) or "all",
        "metric": heading(found[first].summary),
        "runs": [identity(found[i]) for i in group.runs],
        "seeds": group.seeds,
        "numbers": numbers,
    }


def _by_client(
    pair: comparison.Pair, found: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    a, b = found[pair.first], found[pair.second]
    metric = heading(a.summary)
    who = (a.clients["malicious"] == 0) & (b.clients["malicious"] == 0)
    one, two = (run.clients[metric][who] for run in (a, b))
    return {
        "kind": "paired",
        "label": difference(labels[pair.first], labels[pair.second]),
        "metric": metric,
        "setting": pair.setting,
        "first": identity(a),
        "second": identity(b),
        **comparison.paired(one, two, metric == "accuracy")._asdict(),
    }


def identity(run: Run) -> str:
    """The same for runs that must give the same numbers."""
    return str(run.experiment.resolved["fingerprint"])


def _settings(run: Run) -> dict[str, Any]:
    """Dotted key → value, of all that decides the numbers of a run."""
    aside = ("name", "engine.", "checkpoint.", "output.")
    flat = config.differences(config.to_dict(run.experiment), {})
    return {k: v for k, (v, _) in flat.items() if not k.startswith(aside)}


def words(found: Sequence[Run], labels: Sequence[str]) -> str:
    """What the numbers of the quickstart say."""
    first, head = found[0].summary["shared"], heading(found[0].summary)
    mean, worst = first[f"{head}_mean"], first[f"{head}_worst10"]
    text = (
        f"On average over {benign(found[0])} benign clients the {head} of the shared "
        f"model is {number(mean, head)}, and {number(worst, head)} for the worst tenth."
    )
    before, others = [("the shared model", mean)], []
    for run, label in zip(found, labels, strict=True):
        if run.experiment.personalizer.name != "none":
            own = run.summary["personal"][f"{head}_mean"]
            beside = [_beside(own, value, name, head) for name, value in before]
            others.append(
                f"{short(label)} has {number(own, head)}: {', '.join(beside)}"
            )
            before.append((short(label), own))
    return f"{text} With models of their own, {'; '.join(others)}." if others else text


def _beside(value: float | None, other: float | None, name: str, head: str) -> str:
    one, two = number(value, head), number(other, head)
    if value is None or other is None or one == two:
        return f"level with {name}" if one == two else f"beside {two} of {name}"
    where = "above" if value > other else "below"
    return f"{number(abs(value - other), head)} {where} {name}"


def outcome(
    found: Sequence[Run],
    labels: Sequence[str],
    compared: Sequence[Mapping[str, Any]],
    in_words: bool,
) -> None:
    """Tables and comparisons of finished runs."""
    console().print(results(found, labels))
    if groups := [each for each in compared if each["kind"] == "seeds"]:
        console().print(seeds(groups))
    if pairs := [each for each in compared if each["kind"] == "paired"]:
        say(
            f"Client by client: mean difference in {pairs[0]['metric']} and its 95 % "
            "interval; p by Wilcoxon's signed ranks"
        )
    for pair in pairs[:_MOST]:
        say(f"  {paired(pair)}")
    if len(pairs) > _MOST:
        say(f"  … and {len(pairs) - _MOST} more, which --json prints")
    if in_words:
        say(f"\n{words(found, labels)}")


def onward(found: Sequence[Run], root: Path) -> None:
    """Where the files are, and what to do with them."""
    each = "" if found[0].path == root else ", a folder a run"
    last, whole = (shlex.quote(str(path)) for path in (found[-1].path, root))
    client = int((found[-1].clients["malicious"] == 0).argmax())  # the first benign one
    say(
        f"\nFiles: {root}{each}: clients.csv, rounds.jsonl, summary.json, the models\n"
        f"Next:  troth predict {last} --client {client} --data FILE.npz\n"
        f"       troth cite {whole}"
    )


def entries(found: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs, for `--json`."""
    return [
        {
            "id": identity(run),
            "folder": str(run.path),
            "experiment": config.to_dict(run.experiment),
            "summary": run.summary,
        }
        for run in found
    ]


def costs(found: Sequence[Cost], name: str, as_json: bool) -> None:
    """What runs would take: a table, or for `--json` an object."""
    made: list[dict[str, Any]] = [
        {
            "label": cost.label or name,
            "client_steps": cost.client_steps,
            "memory_bytes": cost.memory,
            "experiment": config.to_dict(cost.experiment),
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
        ]
        for cost in made
    ]
    title = "What it would take (nothing was trained or written)"
    columns = ["run", "rounds", "client-steps", "memory"]
    console().print(table(title, columns, rows))


def methods(kinds: Mapping[str, Sequence[lookup.About]], as_json: bool) -> None:
    """What exists, on stdout: a table a kind, a row a method."""
    found = {k: [_method(about) for about in every] for k, every in kinds.items()}
    if as_json:
        print_json({"kinds": found})
        return
    for kind, every in found.items():
        rows = [
            [
                each["name"],
                each["summary"],
                _options(each),
                ", ".join(each["citations"]),
            ]
            for each in every
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
