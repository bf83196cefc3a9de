"""Clients that come and go.

Where a law is tested, correct code fails with probability 1e-6 a test (over the choice
of the seed; the seeds are fixed, so a test passes or fails for good).
"""

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import troth
from troth import build, files
from troth.config import reader
from troth.config.schema import Availability
from troth.federation.sampling import Attendance, everyone
from troth.types import Refusal

ALPHA = 1e-6
N = 6
DITTO = {"personalizer": "ditto"}


def attendance(n=0, work=None, seed=0, rounds=100, **keys):
    steps = np.full(n, 10) if work is None else np.array(work)
    return Attendance(Availability(**keys), seed, steps, rounds)


def matrix(a, n, rounds):
    """[rounds, n] who is there."""
    return np.stack([a.there(r, np.arange(n)) for r in range(rounds)])


# The deadline


@pytest.mark.parametrize(
    ("partial", "deadline", "came", "cut", "absent", "steps"),
    [
        ("count", 0.5, [3, 1, 0, 2], [3, 1, 2], [], [2, 2, 2, 2]),
        ("drop", 0.5, [0], [3, 1, 2], [], [2]),
        ("count", 0.2, [], [], [3, 1, 0, 2], []),  # not one step was done
        ("drop", 0.2, [], [], [3, 1, 0, 2], []),
    ],
)
def test_what_is_done_until_the_deadline(partial, deadline, came, cut, absent, steps):
    """Of 2, 4, 4 and 10 steps the median is 4, and half of that time is 2 steps."""
    a = attendance(work=[2, 4, 4, 10], deadline=deadline, partial=partial)
    found = a.turnout(3, np.array([3, 1, 0, 2]))
    lists = [x.tolist() for x in (found.ids, found.cut, found.absent, found.steps)]
    assert lists == [came, cut, absent, steps]


@pytest.mark.parametrize(
    ("work", "deadline", "made"),
    [
        ([100], 0.29, [29]),  # though 0.29 · 100 is 28.999999999999996
        ([10], 0.7, [7]),
        ([3, 3], 1.0, [3, 3]),
        ([1, 5], 1.0, [1, 3]),  # the median of two is between them
        ([4, 8], 1e9, [4, 8]),
        ([4, 8], 1e-300, [0, 0]),
    ],
)
def test_steps_are_whole(work, deadline, made):
    a = attendance(work=work, deadline=deadline)
    assert a.steps(0, np.arange(len(work))).tolist() == made


def logs(a, r, n, work):
    return np.log(a.steps(r, np.arange(n)) / work)


def test_speeds_are_log_normal_with_median_one():
    n, work = 20_000, 10**7
    own = attendance(n, [10**9] * n, deadline=0.01, speed_spread=0.7)
    found = logs(own, 0, n, work)
    assert stats.kstest(found / 0.7, "norm").pvalue > ALPHA
    assert (logs(own, 9, n, work) == found).all()  # fixed over the run
    noise = attendance(n, [10**9] * n, deadline=0.01, speed_noise=0.7)
    a, b = logs(noise, 0, n, work), logs(noise, 1, n, work)
    assert stats.kstest(a / 0.7, "norm").pvalue > ALPHA
    assert stats.pearsonr(a, b).pvalue > ALPHA
    both = attendance(n, [10**9] * n, deadline=0.01, speed_spread=0.3, speed_noise=0.4)
    assert stats.kstest(logs(both, 2, n, work) / 0.5, "norm").pvalue > ALPHA
    assert stats.pearsonr(logs(both, 2, n, work), found).pvalue < ALPHA  # its own part


# Who answers


def test_a_share_does_not_answer():
    n, rounds, p = 1_000, 200, 0.3
    a = attendance(n, drop=p)
    found = np.stack([~a.answers(r, np.arange(n)) for r in range(rounds)])
    assert stats.binomtest(int(found.sum()), n * rounds, p).pvalue > ALPHA
    for counts, size in ((found.sum(0), rounds), (found.sum(1), n)):
        z = (counts - size * p) / math.sqrt(size * p * (1 - p))
        assert stats.chi2.sf((z**2).sum(), len(z)) > ALPHA  # alike and independent
        assert stats.chi2.cdf((z**2).sum(), len(z)) > ALPHA


@pytest.mark.parametrize(("p", "spread"), [(0.3, 0.2), (0.1, 0.05), (0.5, 0.499)])
def test_some_are_less_reliable_than_others(p, spread):
    """How often of six times a client fails is beta-binomial."""
    n, rounds = 20_000, 6
    a = attendance(n, drop=p, drop_spread=spread)
    failed = sum(~a.answers(r, np.arange(n)) for r in range(rounds))
    both = p * (1 - p) / spread**2 - 1
    law = stats.betabinom.pmf(np.arange(7), rounds, p * both, (1 - p) * both) * n
    found = np.bincount(failed, minlength=7)
    order = np.argsort(law)  # cells with few are put together
    rare = int((law[order].cumsum() < 10).sum()) + 1
    cells = [order[:rare], *([k] for k in order[rare:])]
    expected = [law[c].sum() for c in cells]
    assert stats.chisquare([found[c].sum() for c in cells], expected).pvalue > ALPHA


def test_drop_outs_are_absent():
    a, cohort = attendance(50, drop=0.5), np.arange(0, 50, 2)
    turnout, answering = a.turnout(7, cohort), a.answers(7, cohort)
    assert 0 < answering.sum() < 25
    assert turnout.ids.tolist() == cohort[answering].tolist()
    assert turnout.absent.tolist() == cohort[~answering].tolist()
    assert turnout.cut.tolist() == [] and (turnout.steps == 10).all()


# Who is there


@pytest.mark.parametrize(
    ("key", "share", "few"), [("join", 0.3, 301), ("leave", 0.5, 501)]
)
def test_they_join_or_leave_once_and_for_good(key, share, few):
    n, rounds = 1_001, 40  # 300.3 and 500.5, rounded up
    here = matrix(attendance(n, rounds=rounds, **{key: share}), n, rounds)
    here = here[::-1] if key == "leave" else here
    assert here[0].sum() == n - few
    assert here[-1].all() and (here[1:] >= here[:-1]).all()
    first = here.argmax(0)
    counts = np.bincount(first[first > 0], minlength=rounds)[1:]
    assert stats.chisquare(counts).pvalue > ALPHA


def test_whoever_joins_is_there_before_it_leaves():
    n, rounds = 500, 10
    here = matrix(attendance(n, join=1.0, leave=1.0, rounds=rounds), n, rounds)
    assert not here[0].any()
    assert (here.sum(0) >= 1).all()
    assert (np.abs(np.diff(here.astype(int), axis=0)).sum(0) <= 2).all()  # one span
    assert 0 < here[-1].sum() < n  # the last to come cannot leave any more


def test_joining_and_leaving_are_drawn_apart():
    n = 10_000
    a = attendance(n, join=0.5, leave=0.5, rounds=1_000)
    late, gone = ~a.there(0, np.arange(n)), ~a.there(10**6, np.arange(n))
    assert late.sum() == gone.sum() == 5_000
    table = [[(one & other).sum() for other in (gone, ~gone)] for one in (late, ~late)]
    assert stats.fisher_exact(table).pvalue > ALPHA


def test_day_and_night():
    n, period, on = 2_400, 24, 7
    here = matrix(attendance(n, period=period, on=on), n, 3 * period)
    assert (here[:period] == here[period : 2 * period]).all()
    assert (here[:period].sum(0) == on).all()
    wakes = here[1:] & ~here[:-1]
    assert (wakes[:period].sum(0) == 1).all()  # in a row
    first = wakes[:period].argmax(0)
    assert stats.chisquare(np.bincount(first, minlength=period)).pvalue > ALPHA
    assert matrix(attendance(9, period=5, on=5), 9, 12).all()


def schedule(path, text):
    file = path / "schedule.csv"
    file.write_bytes(text.encode())
    return str(file)


def test_a_schedule_as_spreadsheets_write_it(tmp_path):
    text = '\ufeffclient, first, last\r\n"1", 2 ,3\r\n\r\n,,\r\n0,1,\r\n'
    a = attendance(2, schedule=schedule(tmp_path, text))
    assert matrix(a, 2, 5).astype(int).T.tolist() == [[0, 1, 1, 1, 1], [0, 0, 1, 1, 0]]
    assert a.there(10**6, np.arange(2)).tolist() == [True, False]


SPANS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 12), st.integers(0, 6)), min_size=1
)


@given(spans=SPANS)
@settings(max_examples=60, deadline=None)
def test_a_schedule_means_what_it_says(tmp_path_factory, spans):
    rows = [f"{k},{first},{first + more}" for k, first, more in spans]
    text = "\n".join(["client,first,last", *rows])
    path = schedule(tmp_path_factory.mktemp("s"), text)
    expected = np.ones((20, 5), bool)
    expected[:, [k for k, *_ in spans]] = False
    for k, first, more in spans:
        expected[first : first + more + 1, k] = True
    assert (matrix(attendance(5, schedule=path), 5, 20) == expected).all()


def test_there_is_who_all_keys_say_is(tmp_path):
    keys = [{"join": 0.4, "leave": 0.3}, {"period": 6, "on": 4}]
    keys += [{"schedule": schedule(tmp_path, "client,first,last\n7,0,9\n8,10,\n")}]
    whole = {key: value for each in keys for key, value in each.items()}
    *each, found = (
        matrix(attendance(300, rounds=30, **k), 300, 30) for k in (*keys, whole)
    )
    assert (found == np.logical_and.reduce(each)).all() and found.any()


BUSY = {"drop": 0.3, "drop_spread": 0.2, "join": 0.3, "leave": 0.3}
BUSY |= {"period": 5, "on": 3}
BUSY |= {"deadline": 0.8, "speed_spread": 0.5, "speed_noise": 0.5}


def test_a_client_fares_alike_alone_and_in_any_company():
    n = 60
    a, everybody = attendance(n, **BUSY), np.arange(n)
    some = np.random.default_rng(0).integers(0, n, 25)  # in any order, some twice
    for r in (0, 17):
        for ask in (a.there, a.answers, a.steps):
            assert ask(r, some).tolist() == ask(r, everybody)[some].tolist()
            assert ask(r, np.arange(0)).tolist() == []


def test_seeds_and_rounds_differ_and_repeat():
    def seen(seed, r):
        a, ids = attendance(200, seed=seed, **BUSY), np.arange(200)
        return [ask(r, ids).tobytes() for ask in (a.there, a.answers, a.steps)]

    assert seen(0, 3) == seen(0, 3)
    for other in (seen(1, 3), seen(0, 4)):
        assert all(a != b for a, b in zip(seen(0, 3), other, strict=True))


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"drop": 1.0}, "availability.drop = 1.0 is out of range; it must be at least"),
        ({"join": 1.1}, "availability.join = 1.1 is out of range; it must be at least"),
        ({"deadline": math.inf}, "availability.deadline = inf is out of range"),
        ({"deadline": 1, "speed_spread": 11}, "spread = 11.0 is out of range; it must"),
        ({"drop_spread": 0.1}, "drop_spread = 0.1 is too much for availability.drop ="),
        ({"drop": 0.5, "drop_spread": 0.5}, "spread so far: it must be below 0.5"),
        ({"period": 5}, "availability.on = 0 of availability.period = 5 is no pattern"),
        ({"on": 5}, "availability.on = 5 of availability.period = 0 is no pattern"),
        ({"period": 5, "on": 6}, "set on to at least 1 and at most period"),
        ({"speed_spread": 0.5}, "speed_spread = 0.5 does nothing without a deadline"),
        ({"speed_noise": 0.5}, "speed_noise = 0.5 does nothing without a deadline"),
        ({"partial": "drop"}, "partial = 'drop' does nothing without a deadline; set"),
    ],
)
def test_settings_that_make_no_sense(keys, sentence):
    with pytest.raises(Refusal) as caught:
        reader.from_dict({"availability": keys})
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "begins with the line ''; it must be a CSV file whose first line is"),
        ("client,first,last\n", "names no client"),
        ("client,first,last\n0,1,2,3\n", "has 4 cells in line 2"),
        ("client,first,last\n0,1,2\n\nx,1,2\n", "has client = 'x' in line 4"),
        ("client,first,last\n0,-1,2\n", "has first = '-1' in line 2"),
        ("client,first,last\n0,1,٣\n", "has last = '٣' in line 2"),
        (f"client,first,last\n0,1,{'9' * 5000}\n", "in line 2"),
        ("client,first,last\n0,5,2\n", "ends before it begins in line 2 (5 to 2)"),
        ("client,first,last\n0,1,2\0\n", "schedule.csv"),
        ('client,first,last\n"0,1,2\n', "cells in line 2"),
    ],
)
def test_schedules_that_make_no_sense(tmp_path, text, sentence):
    path = schedule(tmp_path, text)
    with pytest.raises(Refusal) as caught:
        attendance(5, schedule=path)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"availability.schedule = '{path}' ")


def test_schedules_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"client,first,last\n\xe9,1,2\n")
    for path in (tmp_path / "none.csv", tmp_path, tmp_path / "latin.csv"):
        with pytest.raises(Refusal, match="cannot be read"):
            attendance(5, schedule=str(path))


def test_who_does_not_answer_is_left_as_it_was(built):
    f = built(**DITTO, availability={"drop": 0.5}).federation
    plain = built(**DITTO).federation
    lost = 0
    for r in range(6):
        rows, before = f.population.read(np.arange(N)), f.broadcast
        record = f.step()
        assert record.cohort.tolist() == plain.sample(r).tolist()  # asked all the same
        came = record.messages.client.tolist()
        assert sorted([*came, *record.absent]) == record.cohort.tolist()
        assert record.cut.tolist() == []
        lost += len(record.absent)
        expected, new = f.engine.run("local", before, rows[came], np.array(came), r)
        assert torch.equal(record.messages.update, expected.update)
        rows[came] = new
        assert torch.equal(f.population.read(np.arange(N)), rows)
        assert not record.stayed
        mean = before.w + expected.update.mean(0)
        assert torch.allclose(record.broadcast.w, mean, 0, 1e-14)
    assert 0 < lost < 24


def one_by_one(f, before, k, r, steps):
    """FedAvg's update of a client after so many steps, written out."""
    feed, w = f.engine.feed, before.w.clone()
    slots, weight = feed.draw(np.array([k]), steps, r)
    for t in range(steps):
        x, y = feed.gather(slots[t, 0], feed.data.train)
        z = torch.zeros((), dtype=torch.long)
        w = w - 0.1 * f.engine.task.grad(w, troth.types.Batch(x, y, weight[t, 0], z, z))
    return w - before.w


@pytest.mark.parametrize("partial", ["count", "drop"])
def test_stragglers_send_what_they_have_or_nothing(built, partial):
    """Training on 4, 5, 9, 12, 3 and 7 examples, twice, in batches of 4."""
    keys = {"deadline": 0.5, "partial": partial}
    sections = {"train": {"epochs": 2, "cohort": 0}, "availability": keys}
    f = built(**(DITTO | sections)).federation
    work = 2 * f.engine.feed.per_epoch
    assert work.tolist() == [2, 4, 6, 6, 2, 4]  # the median is 4, and half of it 2
    start = f.population.read(np.arange(N))
    before, record = f.broadcast, f.step()
    assert record.cut.tolist() == [1, 2, 3, 5] and record.absent.tolist() == []
    counts = [0, 1, 2, 3, 4, 5] if partial == "count" else [0, 4]
    assert record.messages.client.tolist() == counts
    updates = torch.stack([one_by_one(f, before, k, 0, 2) for k in counts])
    assert torch.allclose(record.messages.update, updates, 0, 1e-14)
    assert torch.allclose(record.broadcast.w, before.w + updates.mean(0), 0, 1e-14)
    moved = (f.population.read(np.arange(N)) - start).abs().amax(1) > 0
    assert moved.nonzero().flatten().tolist() == counts


@pytest.mark.parametrize("partial", ["count", "drop"])
def test_when_nobody_makes_a_step_everything_stays(built, partial):
    keys = {"deadline": 1e-3, "partial": partial}
    f = built(**DITTO, availability=keys).federation
    w0 = f.broadcast.w.clone()
    for record in f.train():
        assert record.stayed and record.moved == 0
        assert record.absent.tolist() == record.cohort.tolist()
        assert len(record.messages.client) == 0 and record.dropped == {}
    assert f.round == 6 and torch.equal(f.broadcast.w, w0)
    assert len(f.population.visited) == 0


@pytest.mark.parametrize("sampling", ["uniform", "size"])
@pytest.mark.parametrize("cohort", [0, 2, 4])
def test_only_those_that_are_there_are_asked(built, tmp_path, sampling, cohort):
    rows = "0,0,1\n1,0,1\n2,0,0\n3,0,0\n4,0,1\n5,0,1\n"
    keys = {"schedule": schedule(tmp_path, "client,first,last\n" + rows + "3,3,\n")}
    train = {"cohort": cohort, "sampling": sampling}
    f = built(**DITTO, train=train, availability=keys).federation
    records = list(f.train())
    there = [[*range(6)], [0, 1, 4, 5], [], [3], [3], [3]]
    for record, here in zip(records, there, strict=True):
        assert set(record.cohort.tolist()) <= set(here)
        assert len(record.cohort) == min(cohort or N, len(here))
        assert record.messages.client.tolist() == record.cohort.tolist()
        assert record.stayed == (not here)
    assert f.round == 6
    assert torch.equal(records[2].broadcast.w, records[1].broadcast.w)


AWAY = """
import torch
def attack(messages, hostile, memory):
    assert len(messages.client)
    return messages, torch.ones(1) + (memory if memory.numel() else 0)
def filter(messages, memory):
    update = messages.update / messages.update.max()
    memory = torch.ones(1) + (memory if memory.numel() else 0)
    return messages._replace(update=update), memory
def rule(messages, loss):
    assert loss.isfinite().all() and len(loss) == len(messages.client)
    return messages.update.mean(0)
"""


def test_nobody_there_troubles_no_rule(built, tmp_path, monkeypatch):
    """Attack, filters, losses and memories see only rounds with messages."""
    (tmp_path / "away.py").write_text(AWAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "client,first,last\n" + "".join(f"{k},2,3\n" for k in range(N))
    rules = {"attack": "away:attack", "filter": ["away:filter"]}
    rules |= {"aggregator": "away:rule", "adversary": {"count": 2}}
    keys = {"schedule": schedule(tmp_path, text)}
    f = built(**DITTO, **rules, availability=keys).federation
    stayed = [record.stayed for record in f.train()]
    assert stayed == [True, True, False, False, True, True]
    memories = [f.serving.memories[k].tolist() for k in ("attack", "filter1")]
    assert memories == [[2.0], [2.0]]


def test_a_personal_budget_is_cut_with_the_rest(built):
    """2 shared and 6 personal steps: at the third, w is done and v is not."""
    found = []
    for steps, late in ((6, {"availability": {"deadline": 0.5}}), (3, {})):
        own, train = {"name": "local", "steps": steps}, {"steps": 2, "cohort": 0}
        f = built(personalizer=own, train=train, **late).federation
        record = f.step()
        assert record.cut.tolist() == (list(range(N)) if late else [])
        found.append((record.broadcast.w, f.population.read(np.arange(N))))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_zeros_are_as_nothing(built):
    """And so is a deadline that nobody misses, with clients that are always there."""

    def trained(f):
        whole = [(r.cohort, r.absent, r.cut, r.broadcast.w) for r in f.train()]
        return [[x.tolist() for x in fields] for fields in whole]

    plain = trained(built(**DITTO).federation)
    assert all(absent == cut == [] for _, absent, cut, _ in plain)
    zeros = {k: 0 for k in ("drop", "join", "leave", "period", "on", "deadline")}
    late = {"deadline": 1e6, "speed_spread": 0.5, "period": 3, "on": 3}
    for keys in (zeros, late, {"drop": 1e-12}):
        f = built(**DITTO, availability=keys).federation
        assert (f.turnout is everyone) == (keys is zeros)
        assert trained(f) == plain


def test_rounds_are_measured_by_whole_cohorts(tree):
    """Nobody is there in the first round, and the engine finds its plan yet."""
    sections = tree(availability={"join": 1.0}, engine={"how": "vmap"})
    f = build.build(reader.from_dict(sections)).federation
    assert f.sample(0).tolist() == []
    assert 1 <= f.engine.plan.chunk <= 4
    assert f.step().stayed


def test_the_work_is_estimated(built):
    def share(rounds=400, **keys):
        train = {"steps": 4, "rounds": rounds}
        found = built(**DITTO, train=train, availability=keys).client_steps
        return found / 4 / 4 / rounds

    assert share() == 1
    assert share(deadline=0.5) == 0.5
    assert share(deadline=0.5, partial="drop") == 0
    assert share(drop=0.25) == pytest.approx(0.75, abs=0.25)  # of 80: 5 deviations
    assert share(rounds=1, join=1.0) == 0
    assert share(rounds=30, join=1.0) < 1


THREADS = {"how": "threads", "workers": 1, "device": "cpu"}
CHUNKS = {"how": "vmap", "chunk": 3, "device": "cpu"}


@pytest.mark.slow("trains, stops and goes on")
@pytest.mark.parametrize(("stop", "engine"), [(1, THREADS), (4, CHUNKS), (7, THREADS)])
def test_a_resumed_run_sees_the_same_clients_fail(
    tree, tmp_path, killed, contents, stop, engine
):
    train = {"rounds": 8, "epochs": 2, "sampling": "size"}
    keys = {"availability": BUSY, "engine": engine, "checkpoint": {"every": 2}}
    wanted = tree(**DITTO, train=train, **keys)
    troth.run(wanted, out=tmp_path / "whole")
    killed(wanted, stop, tmp_path / "cut")
    troth.resume(tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_what_happened_is_written_down(tree, tmp_path):
    train = {"rounds": 12, "epochs": 2}
    wanted = tree(**DITTO, train=train, availability=BUSY, engine=THREADS)
    [run] = troth.run(wanted, out=tmp_path / "run")
    for column, key in {"asked": "cohort", "absent": "absent", "cut": "cut"}.items():
        times = np.bincount(sum((r[key] for r in run.rounds), []), minlength=N)
        assert run.clients[column].tolist() == times.tolist() and times.sum() > 0
    for line in run.rounds:
        absent, cut = set(line["absent"]), set(line["cut"])
        assert absent | cut <= set(line["cohort"]) and not absent & cut
        assert line["stayed"] == (absent == set(line["cohort"]))
    again = reader.from_dict(reader.read(run.path / files.EXPERIMENT))
    assert again.availability == Availability(**BUSY)


def test_a_schedule_for_other_clients_is_refused_before_anything_is_written(
    tree, tmp_path
):
    keys = {"schedule": schedule(tmp_path, f"client,first,last\n{N},0,1\n")}
    with pytest.raises(Refusal, match=f"names client {N} in line 2"):
        troth.run(tree(**DITTO, availability=keys), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_example_of_the_manual(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "availability.md"
    text = page.read_text("utf-8")
    example, shown = (
        text.partition(f"```{language}\n")[2].partition("```")[0]
        for language in ("toml", "csv")
    )
    wanted = tomllib.loads(example)
    keys = {*wanted["availability"], "schedule"}
    assert keys == {*vars(Availability())}  # all but the file are shown
    wanted["engine"] = THREADS
    wanted["train"]["rounds"] = 12
    [run] = troth.run(wanted, out=tmp_path / "run")
    assert all(run.clients[c].sum() > 0 for c in ("asked", "absent", "cut"))
    listed, ids = attendance(40, schedule=schedule(tmp_path, shown)), [0, 3, 39]
    assert listed.there(25, np.array(ids)).tolist() == [True, False, True]
    assert listed.there(50, np.array(ids)).tolist() == [False, True, True]
