"""Which clients are sampled in a round, which of them answer, and after how many steps.

All of this depends only on seed, round and client. So it does not depend on whether a
run was resumed, on how many clients are trained together, or on the other clients of
the round. The cost grows with the number of clients in the round, not with the number
of all clients.
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
_NEVER = 2**31 - 1  # larger than the number of any round


class Turnout(NamedTuple):
    """Which clients of a cohort answer, and how many steps each one takes."""

    ids: np.ndarray  # clients whose updates the server receives
    steps: np.ndarray | None  # steps of each client in `ids`; None means all steps
    absent: np.ndarray  # clients that did not answer
    cut: np.ndarray  # clients that a deadline stopped before their last step


def everyone(round_: int, cohort: np.ndarray) -> Turnout:
    """Return the turnout in which all clients of the cohort answer, with all steps."""
    return Turnout(cohort, None, cohort[:0], cohort[:0])


class Attendance:
    """The availability of clients: when they are present, if they answer, how fast."""

    def __init__(
        self, settings: Availability, seed: int, work: np.ndarray, rounds: int
    ) -> None:
        """Draw which clients join late or leave early, and read the schedule file.

        `work` [n] is the number of steps of each client in a round without a deadline.
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
        """Return a mask of the clients `ids` that are present in a round.

        A client is present if it has joined, has not left, and is in the active part of
        its period. If the schedule file lists the client, the round must also be in one
        of the listed spans.
        """
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
        """Return a mask of the clients `ids` that answer if they are sampled.

        A client fails to answer with probability `drop`. If `drop_spread` is set, every
        client has a different probability, which is constant over the run. It is drawn
        from the Beta distribution with mean `drop` and standard deviation
        `drop_spread`.
        """
        p, spread = self.settings.drop, self.settings.drop_spread
        if not p:
            return np.ones(len(ids), dtype=bool)
        chance: np.ndarray | float = p
        if spread:
            both = p * (1 - p) / spread**2 - 1  # a + b of the distribution Beta(a, b)
            u = self._uniform("unreliable", 0, ids)
            chance = special.betaincinv(p * both, (1 - p) * both, u)
        return np.asarray(self._uniform("drop", round_, ids) >= chance)

    def steps(self, round_: int, ids: np.ndarray) -> np.ndarray:
        """Return the number of steps that each client takes until the deadline.

        `work` is the number of steps without a deadline, which a client never exceeds.
        Until the deadline, a client of speed 1 takes `deadline` · median(work) steps.
        Speeds are log-normal with median 1: ln speed = speed_spread · z + speed_noise ·
        z', where z and z' are standard normal. A client has the same z in all rounds,
        and a new z' in every round.
        """
        s = self.settings
        work: np.ndarray = self._work[ids]
        if not s.deadline:
            return work
        speed = np.exp(
            s.speed_spread * self._normal("speed", 0, ids)
            + s.speed_noise * self._normal("speed of a round", round_, ids)
        )
        made = np.floor(self._time * speed + 1e-9)  # 1e-9, so that 0.29 · 100 gives 29
        return np.asarray(np.minimum(work, made), np.int64)

    def turnout(self, round_: int, cohort: np.ndarray) -> Turnout:
        """Return which clients of a cohort answer, and their numbers of steps."""
        steps = np.where(self.answers(round_, cohort), self.steps(round_, cohort), 0)
        cut = (steps > 0) & (steps < self._work[cohort])
        counts = (steps > 0) & ~(cut & (self.settings.partial == "drop"))
        absent = cohort[steps == 0]
        return Turnout(cohort[counts], steps[counts], absent, cohort[cut])

    def _drawn_spans(self, rounds: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Draw the rounds in which each client joins [n] and leaves [n], if any do."""
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
        left = np.maximum(0, rounds - 1 - first[gone])  # rounds after the first one
        end[gone] = first[gone] + 1 + np.floor(u * left)
        return first, end

    def _uniform(self, purpose: str, round_: int, ids: np.ndarray) -> np.ndarray:
        key = seeding.keys(self._seed, purpose, round_, torch.from_numpy(ids))
        return np.asarray(seeding.uniform(key, 1, torch.float64)[:, 0])

    def _normal(self, purpose: str, round_: int, ids: np.ndarray) -> np.ndarray:
        key = seeding.keys(self._seed, purpose, round_, torch.from_numpy(ids))
        return np.asarray(seeding.normal(key, 1, torch.float64)[:, 0])


class _Listed(NamedTuple):
    """Spans of rounds in which clients are present; without a span: in all rounds."""

    named: np.ndarray  # [n] whether a client has any span
    first: np.ndarray  # client · 2³² + first round of each span, sorted
    last: np.ndarray  # client · 2³² + last round of each span, sorted

    def there(self, round_: int, ids: np.ndarray) -> np.ndarray:
        """Return a mask of the clients `ids` that are present in this round.

        A client is in a span if more of its spans have begun than have ended.
        """
        now = (ids << 32) + round_
        begun = np.searchsorted(self.first, now, side="right")
        over = np.searchsorted(self.last, now, side="left")
        return np.asarray((begun > over) | ~self.named[ids])


def _read(path: str, n: int) -> _Listed | None:
    """Read the schedule, a CSV file with one span per line; None without a file."""
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
    """Yield (client, first round, last round) for every line of the file."""
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
                f"{line}, but there are {n} clients; name clients 0 to {n - 1}"
            )
        if first > last:
            _refuse(path, f"ends before it begins in line {line} ({first} to {last})")
        yield client, first, last


def _refuse(path: str, what: str) -> NoReturn:
    raise Refusal(
        f"availability.schedule = '{path}' {what}; it must be a CSV file whose first "
        "line is client,first,last and whose other lines are whole numbers: a client, "
        "and the first and last round of a span in which the client is present (an "
        "empty last means to the end of the run)"
    )


Sampler = Callable[[int], np.ndarray]
"""Number of a round → ids of the clients that are sampled (the cohort)."""


def named(
    how: str,
    seed: int,
    cohort: int,
    size: np.ndarray,
    there: There | None = None,
    hostile: np.ndarray | None = None,
) -> Sampler:
    """Return the sampler with the name `how`.

    `size` has the number of training examples of each client. `there` is a function
    (round, ids) → mask of clients that are present, and `hostile` a mask of malicious
    clients.
    """
    n = len(size)
    bad = np.zeros(n, bool) if hostile is None else hostile
    given = {"seed": seed, "n": n, "cohort": cohort, "size": size, "hostile": bad}
    function, options = lookup.find("sampler", how), lookup.check("sampler", how, {})
    sampler: Sampler = lookup.call(function, options, **given, there=there)
    return sampler


def by_size(how: str) -> bool:
    """Return whether a sampler needs the clients' numbers of examples."""
    return "size" in lookup.asks(lookup.find("sampler", how))
