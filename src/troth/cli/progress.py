"""Show progress: bars on a terminal or in a notebook, lines in a log."""

import io
import math
import time
from collections import deque
from typing import Any, Self

from rich import filesize
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from troth.cli.tables import console
from troth.cli.tables import duration as duration
from troth.progress import watching
from troth.runs import train
from troth.runs.compare import heading, number, short

_EVERY, _EVALUATED = 5.0, 1.0  # seconds between lines without and with an evaluation
_MARKS, _APART = 20, 0.5  # number of time stamps for the rate; seconds between them
_REPLACED = 0.2  # seconds between two updates of an output in a notebook
_KEPT = 8  # largest number of bars on the screen


def amount(done: int, total: int) -> str:
    """Return as text how much is done: `3/20` for counts, `3.1 of 9.9 MB` for bytes.

    Numbers of 2000 or more are taken for bytes. If `total` is 0, it is unknown, and a
    count gives "".
    """
    if max(done, total) < 2000:
        return f"{done}/{total}" if total else ""
    if not total:
        return filesize.decimal(done)
    unit, name = filesize.pick_unit_and_suffix(total, ["B", "kB", "MB", "GB"], 1000)
    return f"{done / unit:.1f} of {total / unit:.1f} {name}"


class _Shown:
    """Progress as bars on a terminal or in a notebook, otherwise as lines.

    Args:
        intro: text that subclasses print at the first progress.
        quiet: whether to show nothing.
    """

    _soon = _EVERY  # least seconds between lines about work of unknown length

    def __init__(self, intro: str, quiet: bool) -> None:
        self.last: Any = None
        self._intro, self._quiet = intro, quiet
        self._printed, self._began, self._what = -math.inf, 0.0, ""
        self._started = time.monotonic()
        shown = console()
        bars = not quiet and (shown.is_terminal or shown.is_jupyter)
        self._bars = _bars() if bars else None
        self._tasks: dict[str, TaskID] = {}  # label → its latest bar
        self._pulse: TaskID | None = None
        self._hears = watching(self.heard)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._hears.__enter__()
        if self._bars:
            self._bars.start()
            self._wait("preparing")
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the bars. If there was any progress, they remain on the screen."""
        if self._bars:
            self._wait("")
            self._bars.live.transient = not self._tasks
            self._bars.stop()
        self._hears.__exit__(None, None, None)

    def _print(self, text: str) -> None:
        if text and not self._quiet:
            (self._bars or console()).print(text, soft_wrap=True)

    def heard(self, what: str, done: int, total: int) -> None:
        """Show the progress of other work, such as a download.

        In a log, work of unknown length that begins within `_soon` seconds after
        another line is not printed.

        Args:
            what: name of the work; "": the work has ended.
            done: amount of work that is done.
            total: amount of all work; 0: unknown.
        """
        now, over, far = time.monotonic(), total and done >= total, amount(done, total)
        fresh, self._what = what != self._what, what
        if self._bars:
            if fresh or self._pulse is None:
                self._wait(what or ("working" if self._tasks else "preparing"))
            assert self._pulse is not None
            known: dict[str, Any] = {"total": total} if total else {}
            self._bars.update(self._pulse, completed=done, count=far, **known)
        elif what and (
            (fresh and total)
            or over
            or now - max(self._printed, self._started)
            >= (self._soon if fresh else _EVERY)
        ):
            passed = int(now - self._started)
            clock = f", {duration(passed)}" if passed else ""
            self._print(f"{what}: {far}" if far else f"{what}{clock}")
            self._printed = now

    def _bar(self, p: Any, label: str, pace: str, note: str, fresh: bool) -> None:
        """Update the latest bar. If `fresh`, add a new bar first."""
        assert self._bars is not None
        facts: dict[str, Any] = {"count": f"{p.done}/{p.total}"}
        facts |= {"pace": pace, "note": note}
        if fresh:
            self._wait("")
            self._tasks.pop(label, None)
            self._tasks[label] = self._bars.add_task(label, total=p.total, **facts)
            for old in list(self._tasks.values())[:-_KEPT]:
                self._bars.update(old, visible=False)
        self._bars.update(self._tasks[label], completed=p.done, **facts)
        if p.done == p.total:
            self._wait("working")

    def _wait(self, word: str) -> None:
        """Show a pulsing bar with a word below all other bars; "" removes it."""
        assert self._bars is not None
        if self._pulse is not None:
            self._bars.remove_task(self._pulse)
        facts: dict[str, Any] = {"count": "", "pace": "", "note": ""}
        add = self._bars.add_task
        self._pulse = add(word, total=None, **facts) if word else None


class _Lap:
    """What is shown of one run."""

    def __init__(self, began: float) -> None:
        self.began, self.done, self.share, self.note = began, 0, 0.0, ""
        self.marks = deque[tuple[float, int]](maxlen=_MARKS)  # time, rounds done


class Watcher(_Shown):
    """Progress of training, round by round.

    Args:
        name: label of a run that has no label.
        intro: text that is printed at the first progress.
        quiet: whether to show nothing.
    """

    _soon = 2.0

    def __init__(self, name: str, intro: str, quiet: bool = False) -> None:
        super().__init__(intro, quiet)
        self.last: train.Progress | None = None
        self._name = name
        self._laps: dict[str, _Lap] = {}  # label → its run

    def __call__(self, p: train.Progress) -> None:
        """Show a round; before the first round, show the disk space of client state."""
        if p.state is not None:
            most, file = filesize.decimal(p.state.bytes), p.state.file
            self._print(f"Client state is stored on disk: up to {most} in {file}")
            return
        if self.last is None:
            self._print(self._intro)
        self.last, now, lap = p, time.monotonic(), self._laps.get(p.label)
        self._what = ""
        fresh = lap is None or lap.done >= p.done
        if lap is None or fresh:
            lap = self._laps[p.label] = _Lap(now)
        lap.done, lap.share = p.done, p.done / p.total
        if not lap.marks or now - lap.marks[-1][0] >= _APART:
            lap.marks.append((now, p.done))
        if p.evaluation is not None:
            head = heading(p.evaluation)
            means = {k: p.evaluation[k][f"{head}_mean"] for k in ("personal", "shared")}
            lap.note = " ".join(f"{k} {number(v, head)}" for k, v in means.items())
        label = short(p.label) if p.label else self._name
        if p.runs > 1:
            label = f"run {p.run} of {p.runs}, {label}"
        if self._bars:
            self._bar(p, label, self._pace(p, lap), lap.note, fresh)
            return
        wait = _EVERY if p.evaluation is None else _EVALUATED
        if now - self._printed >= wait or p.done == p.total:
            parts = f"{label}: round {p.done}/{p.total}", self._pace(p, lap), lap.note
            self._print(", ".join(part for part in parts if part))
            self._printed = now

    def _pace(self, p: train.Progress, lap: _Lap) -> str:
        """Write the speed of the run and the time left, and that of the whole grid."""
        parts = self._speed(p, lap), self._left(p)
        return ", ".join(part for part in parts if part)

    def _left(self, p: train.Progress) -> str:
        """Return a text such as `2 min 5 s left in all`; "" for a single run.

        The remaining runs are assumed to take as long, on average, as those before.
        """
        now, done = time.monotonic(), sum(lap.share for lap in self._laps.values())
        if p.runs == 1 or p.over + done >= p.runs:
            return ""
        rest = (now - self._started) / done * (p.runs - p.over - done)
        return f"{duration(rest)} left in all"

    def _speed(self, p: train.Progress, lap: _Lap) -> str:
        """Write `31 rounds/s, 5 s left` from the latest rounds; "" for a single one."""
        now, (when, before) = time.monotonic(), lap.marks[0]
        if p.done == before or now <= when:
            return ""
        if p.done == p.total:
            return duration(now - lap.began)
        rate = (p.done - before) / (now - when)
        whole = 0 if rate > 9 or rate < 0.1 else 1
        speed = f"{rate:.{whole}f} rounds/s"
        if rate < 0.5:
            speed = f"{1 / rate:.{whole}f} s per round"
        return f"{speed}, {duration((p.total - p.done) / rate)} left"


class ProgressBar(Watcher):
    """Show the progress of `troth.run` or `troth.resume`.

    In a notebook and on a terminal, there is one bar per run. Otherwise, lines are
    printed to stderr.

    Args:
        name: Label of a run that has no name.

    >>> import tempfile, troth
    >>> folder = tempfile.TemporaryDirectory()
    >>> tree = {"partition": {"name": "iid", "clients": 4}, "train": {"rounds": 2}}
    >>> [run] = troth.run(tree, out=f"{folder.name}/run", watch=troth.ProgressBar())
    >>> run.finished
    True
    >>> folder.cleanup()

    Read on: `docs/how-to/watch.md`.
    """

    def __init__(self, name: str = "run") -> None:
        super().__init__(name, "")

    def shown(self) -> Self:
        """Return the context in which the bar is shown; `troth.run` enters it."""
        return self


class Counter(_Shown):
    """Progress of work that consists of pieces, such as certificates.

    Args:
        what: plural of the pieces' name.
        intro: text that is printed at the first progress.
        quiet: whether to show nothing.
    """

    def __init__(self, what: str, intro: str, quiet: bool = False) -> None:
        super().__init__(intro, quiet)
        self._counted = what

    def __call__(self, p: Any) -> None:
        """Show progress.

        `p.done` of `p.total` pieces are finished. This command made `p.made` of them,
        from `p.used` samples. The others existed before.
        """
        first, self.last = self.last is None, p
        if first:
            self._print(self._intro)
        now = time.monotonic()
        seconds = max(now - self._began, 1e-9)
        left = duration(seconds / p.made * (p.total - p.done))
        pace = f"{p.used / seconds:,.0f} samples/s, {left} left"
        if self._bars:
            self._bar(p, self._counted, pace, p.what, first)
        elif first or now - self._printed >= _EVERY or p.done == p.total:
            self._print(f"{p.done}/{p.total} {self._counted}, {pace}, {p.what}")
            self._printed = now


class _Pace(ProgressColumn):
    """The speed beside a bar; for work of unknown length, the time since it began."""

    def render(self, task: Task) -> Text:
        """Return the text of this column for a bar."""
        waiting = task.total is None and not task.fields["pace"]
        return Text(
            duration(int(task.elapsed or 0)) if waiting else task.fields["pace"]
        )


class _Output(Progress):
    """Bars in a notebook, as an output that is replaced at every update.

    No widgets are needed, so this works in every notebook program.
    """

    _shown, _next = None, -math.inf  # the output; time of the next replacement

    def start(self) -> None:
        from IPython.display import display

        content = self._content()
        self._shown = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        self._replace()

    def update(self, task_id: TaskID, *arguments: Any, **values: Any) -> None:
        super().update(task_id, *arguments, **values)
        if time.monotonic() >= self._next:
            self._replace()

    def _replace(self) -> None:
        if self._shown is not None:
            self._shown.update(self._content(), raw=True)
            self._next = time.monotonic() + _REPLACED

    def _content(self) -> dict[str, str]:
        page = Console(file=io.StringIO(), width=100, force_jupyter=False, record=True)
        page.print(self.get_renderable())
        text = page.export_text(clear=False)
        form = '<pre style="font-family: monospace; line-height: normal">{code}</pre>'
        html = page.export_html(code_format=form, inline_styles=True)
        return {"text/plain": text, "text/html": html}


def _bars() -> Progress:
    kind = _Output if console().is_jupyter else Progress
    label = Column(no_wrap=True, overflow="ellipsis")
    return kind(
        TextColumn("{task.description}", table_column=label, markup=False),
        BarColumn(None, table_column=Column(ratio=1, min_width=6)),
        TextColumn("{task.fields[count]}", table_column=Column(no_wrap=True)),
        _Pace(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True)),
        console=console(),
        expand=True,
    )
