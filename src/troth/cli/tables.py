"""Print the results of runs: tables and sentences for people, JSON for programs."""

import inspect
import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box, filesize
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from troth import files, lookup
from troth.config import reader
from troth.runs import compare
from troth.runs import table as grid
from troth.runs.compare import heading, number, short, signed
from troth.runs.load import Run, judged

if TYPE_CHECKING:
    from troth.api import Cost

_MOST = 20  # largest number of runs, and of pairs of methods, to print
_WIDE = 6  # columns of further scores
_WRAPPED = 100  # characters in a line of a wrapped table in a pipe or a file
_COLUMNS = {
    "mean": ("personal", "mean"),
    "std": ("personal", "std"),
    "worst 10 %": ("personal", "worst10"),
    "weighted": ("personal", "weighted"),
    "shared mean": ("shared", "mean"),
}


def duration(seconds: float) -> str:
    """Return a duration as text, such as `5 s`, `3 min 20 s` or `2 h 10 min`."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def console(stderr: bool = True, wrap: bool = False) -> Console:
    """Make a console, on stderr by default.

    On a terminal, lines are wrapped at its width. In a pipe or a file, lines are not
    wrapped, because programs may read the tables. If `wrap`, they are wrapped there
    too, at 100 characters or the environment variable `COLUMNS`.
    """
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        columns = os.environ.get("COLUMNS", "")
        most = int(columns) if columns.isdecimal() and int(columns) else _WRAPPED
        made.width = most if wrap else 999
    return made


def say(text: str, stderr: bool = True) -> None:
    """Print a line, by default to stderr; not wrapped, so that paths can be copied."""
    console(stderr).print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one object to stdout; NaN and infinity become null."""
    print(json.dumps(files.plain(value), default=str))


def show(
    made: Group | None,
    lines: Sequence[str],
    told: Mapping[str, Any],
    as_json: bool,
    quiet: bool = False,
) -> None:
    """Print results to stdout: a table and lines or, if `as_json`, an object `told`.

    With `as_json`, the table and the lines are printed to stderr, unless `quiet`.
    """
    if not (as_json and quiet):
        if made is not None:
            console(stderr=as_json).print(made)
        for line in lines:
            say(line, stderr=as_json)
    if as_json:
        print_json(told)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    texts: int = 1,
    whole: int = 0,
) -> Group:
    """Return a table with its title.

    Args:
        title: the title.
        columns: names of the columns.
        rows: texts of the cells.
        texts: number of columns on the left that have text, and are aligned left. The
            others have numbers.
        whole: number of columns on the left that are never wrapped.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, name in enumerate(columns):
        side: Literal["left", "right"] = "left" if i < texts else "right"
        least = max(map(len, name.split()), default=0) if i >= texts else None
        made.add_column(
            name, justify=side, overflow="fold", no_wrap=i < whole, min_width=least
        )
    for row in rows:
        made.add_row(*row)
    return Group(f"\n{title}", made, "")


def _of_runs(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> Group:
    """Return a table with names of runs; on a narrow screen, numbers replace them.

    The names are then listed below the table.
    """
    longest = max(len(row[0]) for row in rows)
    for k, column in enumerate(columns[1:], 1):
        cells = (column, *(row[k] for row in rows))
        longest += 3 + max(len(word) for cell in cells for word in cell.split())
    if longest <= console(stderr=False).width:
        return table(title, columns, rows, whole=1)
    numbered = [[str(k), *row[1:]] for k, row in enumerate(rows, 1)]
    names = [Text(f"  {k}: {row[0]}") for k, row in enumerate(rows, 1)]
    head, grid, _ = table(title, columns, numbered).renderables
    return Group(head, grid, *names, "")


def _apart(labels: Sequence[str]) -> list[str]:
    """Return labels without the parts that all of several labels have in common."""
    parts = [label.split(",") for label in labels]
    both = [part for part in parts[0] if all(part in other for other in parts)]
    left = [",".join(p for p in own if p not in both) for own in parts]
    return left if len(labels) > 1 and all(left) else [*labels]


def width(shown: Group) -> int:
    """Return the width, in characters, that a table needs without wrapping."""
    endless = Console(width=100_000)
    inside = [one for one in shown.renderables if not isinstance(one, str)]
    return max(endless.measure(one).maximum for one in inside)


def indented(text: str) -> Padding:
    """Indent all lines of a text."""
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def benign(run: Run) -> int:
    """Count the benign clients that were evaluated, without newcomers."""
    values = run.clients[heading(run.summary)]
    return int(((values == values) & judged(run.clients)).sum())


def _judged(run: Run) -> str:
    """Return a description of the clients over which a table averages."""
    some, every = benign(run), run.summary["clients"]
    good = int(judged(run.clients).sum())
    aside = ", without newcomers" if "newcomer" in run.clients else ""
    if good == every:
        return f"{some} clients" if some == every else f"{some} of {every} clients"
    of = "the" if some == good else f"{some} of the"
    return f"{of} {good} benign of {every} clients{aside}"


def results(runs: Sequence[Run], labels: Sequence[str]) -> Group:
    """Return a table with one row per run."""
    counts = {(benign(run), run.summary["clients"]) for run in runs}
    aimed = any("attack_success_mean" in run.summary["shared"] for run in runs)
    success = {"attack success": "personal", "on shared": "shared"} if aimed else {}
    tests = _tests([run.summary.get("tests", {}) for run in runs])
    valid = ["valid mean"] if any("valid" in run.summary for run in runs) else []
    scores, rows = _scores(runs), []
    for run, label in zip(runs, labels, strict=True):
        s, head = run.summary, heading(run.summary)
        cells = [number(s[k][f"{head}_{m}"], head) for k, m in _COLUMNS.values()]
        chosen_by = s.get("valid", {}).get("personal", {}).get(f"{head}_mean")
        cells[1:1] = [number(chosen_by, head) for _ in valid]
        more = [s.get("tests", {}).get(t, {}).get(k, {}) for t, k in tests.values()]
        cells += [number(each.get(f"{head}_mean"), head) for each in more]
        cells += [number(s["personal"].get(f"{name}_mean")) for name in scores]
        cells += [number(s[k].get("attack_success_mean")) for k in success.values()]
        rows.append([short(label), *cells, f"{s['seconds']:.1f}"])
    who = _judged(runs[0]) if len(counts) == 1 else "benign clients"
    kinds = dict.fromkeys(heading(run.summary) for run in runs)
    what = f"{' or '.join(kinds).capitalize()} of the clients' own models"
    title = f"{what}, each on its own test data, over {who}"
    mean, *others = _COLUMNS
    names = [f"{name} mean" for name in scores]
    heads = ["run", mean, *valid, *others, *tests, *names, *success, "seconds"]
    return _of_runs(title, heads, rows)


def _scores(runs: Sequence[Run]) -> list[str]:
    """Return the first columns of the scores that the experiments name."""
    found: dict[str, None] = {}
    for run in runs:
        names = [p.name.rpartition(":")[2] for p in run.experiment.evaluate.scores]
        keys = [k.removesuffix("_mean") for k in run.summary["personal"]]
        parts = (k for k in keys for n in names if k == n or k.startswith(f"{n}_"))
        found |= dict.fromkeys(
            k for k in parts if f"{k}_mean" in run.summary["personal"]
        )
    return [*found][:_WIDE]


def _tests(several: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return column → name and kind of model, for additional test sets.

    Args:
        several: for each run, a dictionary whose keys are the names of its test sets.
    """
    names = dict.fromkeys(name for tests in several for name in tests)
    return {
        column: (name, kind)
        for name in names
        for column, kind in ((f"{name} mean", "personal"), (f"shared {name}", "shared"))
    }


def seeds(groups: Sequence[Mapping[str, Any]]) -> Group:
    """Return a table with one row per group of runs that differ only in the seed."""
    rows = []
    every = dict.fromkeys(key for group in groups for key in group["numbers"])
    parts = (key.split(".") for key in every if key.startswith("tests."))
    tests = _tests([{part[1]: {}} for part in parts])
    keys = {c: f"{kind}.{{}}_{metric}" for c, (kind, metric) in _COLUMNS.items()}
    keys |= {c: f"tests.{name}.{kind}.{{}}_mean" for c, (name, kind) in tests.items()}
    for group in groups:
        cells, metric = [], group["metric"]
        for key in keys.values():
            found = group["numbers"].get(key.format(metric), {})
            both = (number(found.get(k), metric) for k in ("mean", "half_width"))
            cells.append(" ± ".join(both))
        rows.append([short(group["label"]), str(len(group["seeds"])), *cells])
    title = "Over seeds: mean ± half width of its 95 % interval"
    return _of_runs(title, ["runs", "seeds", *keys], rows)


def paired(pair: Mapping[str, Any]) -> str:
    """Return a comparison of two methods as one line."""
    keys, p = ("mean_difference", "low", "high"), pair["p_holm"]
    mean, low, high = (signed(pair[key], pair["metric"]) for key in keys)
    chance = "p < 0.001" if p is not None and p < 0.001 else f"p = {number(p)}"
    return (
        f"{pair['label']}: {mean} [{low}, {high}], better for {pair['better']}, "
        f"worse for {pair['worse']}, equal {pair['equal']}, {chance}"
    )


def _above_pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    """Return the line above the comparisons of methods."""
    many = {pair["seeds"] for pair in pairs}
    seeds = f"{max(many)} seeds" if max(many) > 1 else "one seed"
    corrected = (
        f", corrected for {len(pairs)} comparisons (Holm)" if len(pairs) > 1 else ""
    )
    return (
        f"Client by client, {seeds}: mean difference in {pairs[0]['metric']} with its "
        f"95 % interval, and p{corrected}"
    )


def words(runs: Sequence[Run], labels: Sequence[str]) -> str:
    """Return sentences that explain the results of the quickstart."""
    first, head = runs[0].summary["shared"], heading(runs[0].summary)
    mean, worst = first[f"{head}_mean"], first[f"{head}_worst10"]
    text = (
        f"The shared model has a mean {head} of {number(mean, head)} over "
        f"{benign(runs[0])} benign clients. For the worst tenth of them it is "
        f"{number(worst, head)}."
    )
    before, others = [("the shared model", mean)], []
    for run, label in zip(runs, labels, strict=True):
        if run.experiment.personalizer.name != "none":
            own = run.summary["personal"][f"{head}_mean"]
            beside = ", ".join(_beside(own, v, name, head) for name, v in before)
            others.append(f"{short(label)} has {number(own, head)}: {beside}")
            before.append((short(label), own))
    return f"{text} Personal models: {'; '.join(others)}." if others else text


def _beside(value: float | None, other: float | None, name: str, head: str) -> str:
    one, two = number(value, head), number(other, head)
    if value is None or other is None or one == two:
        return f"the same as {name}" if one == two else f"{name} has {two}"
    where = "above" if value > other else "below"
    return f"{number(abs(value - other), head)} {where} {name}"


def outcome(
    runs: Sequence[Run],
    labels: Sequence[str],
    compared: Sequence[Mapping[str, Any]],
    in_words: bool,
    stderr: bool = False,
) -> None:
    """Print the tables and comparisons of finished runs."""
    _means(runs, labels, stderr)
    say(times(runs), stderr)
    _comparisons(compared, stderr)
    for run, label in zip(runs, labels, strict=True):
        if "newcomers" in run.summary:
            say(newcomers(run, short(label)), stderr)
        if run.summary.get("stayed"):
            say(stayed(run, short(label)), stderr)
    if in_words:
        say(f"\n{words(runs, labels)}", stderr)


def _means(runs: Sequence[Run], labels: Sequence[str], stderr: bool) -> None:
    """Print the runs or, of a large grid, the pivot alone; and the best method."""
    pooled = grid.methods(runs, labels)
    cells = grid.pivot(pooled)
    if len(runs) <= _MOST or cells is None:
        both = zip(runs, labels, strict=True)
        full = _apart([compare.full(*pair) for pair in both])
        console(stderr).print(results(runs, full))
    if cells is not None:
        head = f"Mean {pooled[0].metric} over benign clients, on test data"
        console(stderr).print(table(head, cells.heads, cells.rows, cells.sides))
    for line in grid.choice(pooled):
        say(line, stderr)


def _comparisons(compared: Sequence[Mapping[str, Any]], stderr: bool) -> None:
    """Print the means over seeds, the pairs of methods, and what they do not show."""
    if groups := [each for each in compared if each["kind"] == "seeds"]:
        console(stderr).print(seeds(groups))
    if pairs := [each for each in compared if each["kind"] == "paired"]:
        say(_above_pairs(pairs), stderr)
    for pair in pairs[:_MOST]:
        say(f"  {paired(pair)}", stderr)
    if len(pairs) > _MOST:
        say(f"  … and {len(pairs) - _MOST} more; --json prints all", stderr)
    if unclear := compare.caution(compared):
        say(f"{unclear}.", stderr)


def times(runs: Sequence[Run]) -> str:
    """Return a sentence with the time of set-up and of training.

    Set-up consists of reading data and measuring the fastest way to train.
    """
    setup = sum(run.summary.get("setup_seconds", 0.0) for run in runs)
    training = sum(run.summary["seconds"] for run in runs)
    whole = " of all runs" if len(runs) > 1 else ""
    return f"Time{whole}: set-up {setup:.1f} s, training {training:.1f} s"


def newcomers(run: Run, label: str) -> str:
    """Return a sentence with the mean accuracy or error of newcomers' models."""
    head, kinds = heading(run.summary), ("newcomers", "newcomers_shared")
    own, shared = (number(run.summary[k][f"{head}_mean"], head) for k in kinds)
    count = int(run.clients["newcomer"].sum())
    who = f"{count} newcomers" if count > 1 else "1 newcomer"
    return f"{label}: {head} {own} for {who}, with the shared model {shared}"


def stayed(run: Run, label: str) -> str:
    """Return a sentence on the rounds in which the shared model did not change."""
    count, rounds = run.summary["stayed"], run.summary["rounds"]
    *_, why = (line["why"] for line in run.rounds if line["stayed"])
    return (
        f"{label}: the shared model did not change in {count} of {rounds} rounds, last "
        f"because {why}"
    )


def onward(runs: Sequence[Run], root: Path, stderr: bool = False) -> None:
    """Print where the files of the runs are, and which commands read them."""
    each = "" if runs[0].path == root else ", one folder per run"
    last, whole = (shlex.quote(str(path)) for path in (runs[-1].path, root))
    client = int((runs[-1].clients["malicious"] == 0).argmax())  # the first benign one
    say(
        f"\nFiles: {root}{each}: clients.csv, rounds.jsonl, summary.json, models\n"
        f"Next:  troth report {whole}\n"
        f"       troth predict {last} --client {client} --data FILE.npz\n"
        f"       troth cite {whole}",
        stderr,
    )


def costs(runs: "Sequence[Cost]", name: str, as_json: bool) -> None:
    """Print the cost of runs as a table, or as a JSON object for programs."""
    made: list[dict[str, Any]] = [
        {
            "label": cost.label or name,
            "client_steps": cost.client_steps,
            "memory_bytes": cost.memory,
            "disk_bytes": cost.disk,
            "seconds": cost.seconds,
            "experiment": reader.to_dict(cost.experiment),
        }
        for cost in runs
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
            "–" if cost["seconds"] is None else duration(cost["seconds"]),
        ]
        for cost in made
    ]
    title = "Cost (nothing was trained or written)"
    columns = ["run", "rounds", "client-steps", "memory", "disk", "training time"]
    console(stderr=False).print(table(title, columns, rows))
    known = [cost["seconds"] for cost in made if cost["seconds"] is not None]
    if known:
        say(
            f"Training takes about {duration(sum(known))} in all, by a measurement of "
            "single steps on this machine. Set-up and evaluation are not counted.",
            stderr=False,
        )
    for where in sorted({c.experiment.engine.state_dir for c in runs if c.disk}):
        say(
            f"Client state is stored on disk in {where or 'the folder of the run'}.",
            stderr=False,
        )


def methods(kinds: Mapping[str, Sequence[lookup.About]], as_json: bool) -> None:
    """Print methods to stdout: one table per kind, one row per method."""
    described = {k: [_method(about) for about in every] for k, every in kinds.items()}
    if as_json:
        print_json({"kinds": described})
        return
    for kind, every in described.items():
        rows = []
        for m in every:
            options = [
                f"{name} (required)" if o["required"] else f"{name} = {o['default']}"
                for name, o in m["options"].items()
            ]
            parts = ", ".join(options), ", ".join(m["citations"])
            rows.append([m["name"], m["summary"], *parts])
        columns = ["name", "what it is", "options", "paper"]
        shown = console(stderr=False, wrap=True)
        shown.print(table(f"[{kind}]", columns, rows, texts=4, whole=1))


def _method(about: lookup.About) -> dict[str, Any]:
    """Return a method as a dictionary, with the BibTeX keys of its papers."""
    options = {}
    for name, default in about.options.items():
        required = default is inspect.Parameter.empty
        options[name] = {"required": required, "default": None if required else default}
    keys = (re.match(r"@\w+\{\s*([^,\s]+)", entry) for entry in about.citations)
    cited = [key.group(1) for key in keys if key]
    return {**about._asdict(), "options": options, "citations": cited}


def speeds(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print measured speeds to stdout: one row per model."""
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
    console(stderr=False).print(table("Microseconds per client-step", columns, made))
