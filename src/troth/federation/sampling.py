"""Who is present in a round, who is asked, who answers, and how many steps each makes.

All of it is a function of (seed, round, client): a resumed run, another plan and other
clients in the round change nothing. Only the clients in question are looked at.
"""

import csv
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from scipy import special

from troth import lookup, seeding
from troth.config.schema import Availability, rounded_up
from troth.federation.samplers import There
from troth.types import Refusal

_COLUMNS = ("client", "first", "last")
_NEVER = 2**31 - 1  # a round that no run comes to


class Turnout(NamedTuple):
    """Which of the clients that a round asked answer, and with how much work."""

    ids: np.ndarray  # whose work counts
    steps: np.ndarray | None  # how many steps each of them makes; None: all of its own
    absent: np.ndarray  # who sent nothing
    cut: np.ndarray  # who had made only a part of its steps at the deadline


def everyone(round_: int, cohort: np.ndarray) -> Turnout:
    """Let all clients that are asked answer, with all of their work."""
    return Turnout(cohort, None, cohort[:0], cohort[:0])


class Attendance:
    """When the clients of a run are present, answer, and how fast they are."""

    def __init__(
        self, settings: Availability, seed: int, work: np.ndarray, rounds: int
    ) -> None:
        """Draw who joins and who leaves, and read the schedule.

        `work` [n] is how many steps each client makes in a round without a deadline.
        """
        self.settings, self._seed, self._work = settings, seed, work
        self._time = settings.deadline * float(np.median(work))
        self._spans = self._drawn_spans(rounds)
        self._listed = _read(settings.schedule, len(work))

    @property
    def varies(self) -> bool:
        """Whether some clients are not present in every round."""
        s = self.settings
        return bool(s.join or s.leave or s.period or s.schedule)

    def there(self, round_: int, ids: np.ndarray) -> np.ndarray:
        """Return a mask of who is present: has joined, has not left, and is on."""
        s, here = self.settings, np.ones(len(ids), dtype=bool)
        if self._spans is not None:
            first, end = self._spans
            here &= (first[ids] <= round_) & (round_ < end[ids])
        if s.period:
            phase = np.floor(s.period * self._uniform("phase", 0, ids))
            here &= (round_ + phase) % s.period < s.on
        if self._listed is not None:
            here &= self._listed.there(round_, ids)
        return here

    def answers(self, round_: int, ids: np.ndarray) -> np.ndarray:
        """Return a mask of who answers when asked.

        A client's chance to fail is `drop`, or its own: fixed over the run, from the
        Beta distribution with mean `drop` and standard deviation `drop_spread`.
        """
        p, spread = self.settings.drop, self.settings.drop_spread
        if not p:
            return np.ones(len(ids), dtype=bool)
        chance: np.ndarray | float = p
        if spread:
            both = p * (1 - p) / spread**2 - 1  # a + b of Beta(a, b)
            u = self._uniform("unreliable", 0, ids)
            chance = special.betaincinv(p * both, (1 - p) * both, u)
        return np.asarray(self._uniform("drop", round_, ids) >= chance)

    def steps(self, round_: int, ids: np.ndarray) -> np.ndarray:
        """Return how many steps each makes until the deadline, at most all of its own.

        The deadline lasts `deadline` · median(work) steps of a client of speed 1.
        Speeds are log-normal with median 1: ln speed = speed_spread · z (a client's
        own, over the whole run) + speed_noise · z' (of a round), both standard normal.
        """
        s = self.settings
        work: np.ndarray = self._work[ids]
        if not s.deadline:
            return work
        speed = np.exp(
            s.speed_spread * self._normal("speed", 0, ids)
            + s.speed_noise * self._normal("speed of a round", round_, ids)
        )
        made = np.floor(self._time * speed + 1e-9)  # 0.29 · 100 is 29
        return np.asarray(np.minimum(work, made), np.int64)

    def turnout(self, round_: int, cohort: np.ndarray) -> Turnout:
        """Return who of a round's cohort answers, and with how many steps."""
        steps = np.where(self.answers(round_, cohort), self.steps(round_, cohort), 0)
        cut = (steps > 0) & (steps < self._work[cohort])
        counts = (steps > 0) & ~(cut & (self.settings.partial == "drop"))
        absent = cohort[steps == 0]
        return Turnout(cohort[counts], steps[counts], absent, cohort[cut])

    def _drawn_spans(self, rounds: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Draw the round [n] in which each client joins, and the first without it."""
        s, n = self.settings, len(self._work)
        if not s.join and not s.leave:
            return None
        first = np.zeros(n, dtype=np.int32)
        end = np.full(n, _NEVER, dtype=np.int32)
        late = seeding.choose(self._seed, "join", 0, n, rounded_up(s.join, n))
        u = self._uniform("join round", 0, late)
        first[late] = 1 + np.floor(u * (rounds - 1))
        gone = seeding.choose(self._seed, "leave", 0, n, rounded_up(s.leave, n))
        u = self._uniform("leave round", 0, gone)
        left = np.maximum(0, rounds - 1 - first[gone])  # rounds after its first
        end[gone] = first[gone] + 1 + np.floor(u * left)
        return first, end

    def _uniform(self, purpose: str, round_: int, ids: np.ndarray) -> np.ndarray:
        key = seeding.keys(self._seed, purpose, round_, torch.from_numpy(ids))
        return np.asarray(seeding.uniform(key, 1, torch.float64)[:, 0])

    def _normal(self, purpose: str, round_: int, ids: np.ndarray) -> np.ndarray:
        key = seeding.keys(self._seed, purpose, round_, torch.from_numpy(ids))
        return np.asarray(seeding.normal(key, 1, torch.float64)[:, 0])


class _Listed(NamedTuple):
    """Spans of rounds by client; a client with none is always there."""

    named: np.ndarray  # [n] whether a client has any
    first: np.ndarray  # client · 2³² + first round of a span, ascending
    last: np.ndarray  # client · 2³² + its last round, ascending

    def there(self, round_: int, ids: np.ndarray) -> np.ndarray:
        """Return who is in one of its spans: more of them have begun than are over."""
        now = (ids << 32) + round_
        begun = np.searchsorted(self.first, now, side="right")
        over = np.searchsorted(self.last, now, side="left")
        return np.asarray((begun > over) | ~self.named[ids])


def _read(path: str, n: int) -> _Listed | None:
    """Read the schedule from a CSV file, one span per row."""
    if not path:
        return None
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            spans = np.array(list(_spans(path, file, n)), dtype=np.int64)
    except (OSError, UnicodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        _refuse(path, f"cannot be read ({why})")
    if len(spans) == 0:
        _refuse(path, "names no client")
    named = np.zeros(n, dtype=bool)
    named[spans[:, 0]] = True
    client = spans[:, 0] << 32
    return _Listed(named, np.sort(client + spans[:, 1]), np.sort(client + spans[:, 2]))


def _spans(path: str, file: Iterator[str], n: int) -> Iterator[tuple[int, int, int]]:
    """Yield (client, first, last) of every row."""
    rows = csv.reader(file)
    head = [cell.strip() for cell in next(rows, [])]
    if tuple(head) != _COLUMNS:
        _refuse(path, f"begins with the line '{','.join(head)}'")
    for row in rows:
        cells, line = [cell.strip() for cell in row], rows.line_num
        if not any(cells):
            continue
        if len(cells) != len(_COLUMNS):
            _refuse(path, f"has {len(cells)} cells in line {line}")
        cells[2] = cells[2] or str(_NEVER)
        for name, cell in zip(_COLUMNS, cells, strict=True):
            if not (cell.isascii() and cell.isdecimal() and len(cell) < 19):
                _refuse(path, f"has {name} = '{cell}' in line {line}")
        client, first, last = (min(int(cell), _NEVER) for cell in cells)
        if client >= n:
            raise Refusal(
                f"availability.schedule = '{path}' names client {cells[0]} in line "
                f"{line}, and there are {n}; the first is 0 and the last {n - 1}"
            )
        if first > last:
            _refuse(path, f"ends before it begins in line {line} ({first} to {last})")
        yield client, first, last


def _refuse(path: str, what: str) -> NoReturn:
    raise Refusal(
        f"availability.schedule = '{path}' {what}; it must be a CSV file whose first "
        "line is client,first,last and whose others are whole numbers: a client and "
        "the first and last round of a span in which it is there (no last: to the end)"
    )


Sampler = Callable[[int], np.ndarray]
"""Round → ids of the clients that are asked."""


def named(
    how: str,
    seed: int,
    cohort: int,
    size: np.ndarray,
    there: There | None = None,
    hostile: np.ndarray | None = None,
) -> Sampler:
    """Return the sampler of this name, of clients of these sizes."""
    bad = np.zeros(len(size), bool) if hostile is None else hostile
    given = {
        "seed": seed,
        "n": len(size),
        "cohort": cohort,
        "size": size,
        "hostile": bad,
    }
    function, options = lookup.find("sampler", how), lookup.check("sampler", how, {})
    sampler: Sampler = lookup.call(function, options, **given, there=there)
    return sampler


def by_size(how: str) -> bool:
    """Return whether a sampler needs to know how many examples clients have."""
    return "size" in lookup.asks(lookup.find("sampler", how))
