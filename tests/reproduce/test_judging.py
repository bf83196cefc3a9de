"""The rule, and what tables make of it."""

import math

import misses
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.reproduce import judging, listing, tables
from troth.reproduce.tables import VERDICTS


def test_the_rule():
    for difference, error, verdict in (
        *[(0.02, 0.0, "reproduced"), (-0.02, 0.0, "reproduced")],
        *[(0.021, 0.0, "better"), (-0.021, 0.0, "worse")],
        *[(0.03, 0.015, "reproduced"), (0.0301, 0.015, "better")],
        *[(-0.5, math.nan, "worse"), (math.nan, 0.0, "")],
    ):
        assert judging.verdict(difference, error) == verdict


@given(st.floats(-1, 1), st.floats(0, 1))
def test_the_verdict_turns_with_the_sign(difference, error):
    other = {"better": "worse", "worse": "better"}
    found = judging.verdict(difference, error)
    assert judging.verdict(-difference, error) == other.get(found, found)


def test_one_seed_is_judged_by_its_clients(made):
    found = judge(made, [0.93], 0.4)
    assert found.error == pytest.approx(0.4 / 20) and math.isnan(found.spread)
    assert found.difference == pytest.approx(0.019) and found.verdict == "reproduced"
    assert judge(made, [0.8]).verdict == "worse"


def judge(made, means, std=0.1, curve=None):
    """The verdict on the global model, clean, by one result a seed; theirs is .911."""
    results = [made.result(mean, std) for mean in means]
    for result in results if curve is not None else []:
        result.record["curve"] = curve
    return judging.judge(made.table, made.cell(), results)


def test_several_seeds_are_judged_by_their_spread(made):
    found = judge(made, [0.85, 0.95, 0.99])
    assert (found.mean, found.seeds) == (pytest.approx(0.93), 3)
    assert found.spread == pytest.approx(math.sqrt(0.0104 / 2))
    assert found.error == pytest.approx(found.spread / math.sqrt(3))
    assert found.verdict == "reproduced"
    even = judge(made, [0.95, 0.95])
    assert even.error == 0 and even.verdict == "better"


def test_the_mean_over_devices_and_the_deviation_have_verdicts_of_their_own(made):
    """The paper's are .911 (.08); the made mean over devices is .01 lower."""
    low = judge(made, [0.895], 0.08)
    assert (low.verdict, low.devices_verdict) == ("reproduced", "worse")
    assert low.devices == pytest.approx(0.885) and low.std_verdict == "reproduced"
    wide, narrow = judge(made, [0.911], 0.12), judge(made, [0.911], 0.05)
    assert (wide.std_verdict, narrow.std_verdict) == ("better", "worse")
    several = judging.judge(
        made.table, made.cell(), [made.result(0.9, std) for std in (0.06, 0.14)]
    )  # .100 with a standard error of .04
    assert several.std_verdict == "reproduced"
    small = judging.judge(made.table, made.cell(small=True), [made.result(0.9)])
    assert small.devices_verdict == small.std_verdict == ""
    shares = [judging.share([low, wide, narrow], by) for by in VERDICTS.values()]
    assert shares == [(2, 3), (1, 3)]


def test_the_same_runs_beside_the_same_number_count_once(made):
    """Local models are .874 under A1 20%, A2 20% and A3 20%, and .876 under A1 50%."""
    columns = ("A1 20%", "A2 20%", "A3 20%", "A1 50%")
    found = [one for c in columns for one in made.judged({"local": 0.88}, c)]
    assert judging.share(found) == (4, 4)
    assert judging.share(judging.distinct(found)) == (2, 2)
    entry = listing.find("ditto/table8")
    cells = [c for c in entry.everywhere() if c.row in ("local", "global")]
    every = [judging.judge(entry, cell, []) for cell in cells]
    assert (len(every), len(judging.distinct(every))) == (20, 15)
    table2 = listing.find("ditto/table2")
    again = [judging.judge(table2, c, []) for c in table2.everywhere()]
    same = [one for one in again if one.cell.part == "Fashion"]
    both = judging.distinct([*every, *same])
    assert {one.cell.row for one in both[15:]} == {"fair (TERM, t=1)", "Ditto"}


def test_other_data_are_not_judged(made):
    small = judging.judge(made.table, made.cell(small=True), [made.result(0.911)])
    assert small.verdict == "not judged" and small.theirs is not None
    assert judge(made, []).verdict == ""
    assert judging.share([small]) == (0, 0)


def test_the_order_of_methods(made):
    ours, rows = "Fashion-MNIST", ("global", "local", "Ditto, λ=1")
    same, other, flat = (
        made.judged(dict(zip(rows, values, strict=True)))
        for values in ((0.5, 0.4, 0.6), (0.5, 0.9, 0.4), (0.5, 0.5, 0.5))
    )
    assert judging.order(same) == {ours: {"clean": pytest.approx(1.0)}}
    assert judging.order(other)[ours]["clean"] == pytest.approx(-1.0)
    assert judging.order(same[:2]) == judging.order(flat) == {}
    again = [  # compared with a row of the paper that is compared already
        one._replace(cell=one.cell._replace(row=f"{row}, x", stands=one.cell[:2]))
        for row, one in zip(rows, other, strict=True)
    ]
    assert judging.order([*same, *again]) == judging.order(same)
    by_own_name = other[0].cell.federation._replace(name="what stands in")
    parts = [
        one._replace(cell=one.cell._replace(federation=by_own_name)) for one in other
    ]
    both = judging.order([*same, *parts])
    assert both[ours]["clean"] > 0.9 and both["what stands in"]["clean"] < -0.9


def test_a_script_s_numbers_stand_beside_the_paper_s(tmp_path):
    """In the paper's order; what is in neither is left out."""
    part = "noisy Fashion-MNIST"
    ours = {
        (part, "global model", "Σ linear"): [0.81, 0.79],
        (part, "idle user's model", "E linear"): [0.42],
    }
    entry = listing.find("equivalence/table1")._replace(numbers=lambda root: ours)
    found = judging.of_script(entry, tmp_path)
    assert len(found) == 12 and {one.cell.federation.name for one in found} == {
        "Fashion-MNIST with noisy labels"
    }
    at = {(one.cell.row, one.cell.column): one for one in found}
    idle, both = at["idle user's model", "E linear"], at["global model", "Σ linear"]
    assert (idle.seeds, idle.mean, idle.verdict) == (1, 0.42, "worse")
    assert idle.theirs and idle.theirs.mean == 0.52
    assert (both.seeds, both.verdict) == (2, "reproduced")
    assert both.mean == pytest.approx(0.8) and both.error == pytest.approx(0.01)
    assert judging.share(found) == (1, 2)
    assert tables.words(idle) == ".420 [.520, −.100] ↓"
    assert tables.words(at["idle user's model", "Σ linear"]) == "[.800]"
    assert judging.of_script(entry._replace(numbers=lambda root: {}), tmp_path) == []
    assert judging.of_script(listing.find("ditto/figure1"), tmp_path) == []


def test_what_a_run_goes_through_in_its_last_rounds(made):
    rounds, values = [10 * k for k in range(1, 11)], [0.1] * 7 + [0.80, 0.90, 0.85]
    found = judge(made, [0.85], curve={"round": rounds, "shared_weighted": values})
    assert found.verdict == "worse" and found.late == (0.80, 0.90)
    assert found.plain()["late_least"] == 0.80 and found.plain()["late_most"] == 0.90
    assert found.draw and found.plain()["draw"] and found.inside == [90]
    across = {**found.way, 90: 0.95}  # past it between two evaluations
    early = {**across, 70: 0.91}
    others = [found._replace(way=way) for way in (across, early, {})]
    assert not any(one.draw for one in others)
    good = found._replace(verdict="reproduced")
    steady = good._replace(way=dict.fromkeys(found.way, 0.91) | {70: 0.1})
    assert good.draw and not steady.draw and not good._replace(way={}).draw
    assert not good._replace(verdict="not judged").draw


def test_runs_that_were_not_looked_at_on_the_way(made):
    few = {"round": [90, 100], "shared_weighted": [0.5, 0.6]}
    other = {"round": [80, 90, 100], "personal_weighted": [0.5, 0.6, 0.7]}
    for curve in ({}, few, other):
        found = judge(made, [0.85], curve=curve)
        assert found.late is None and found.plain()["late_least"] is None
    assert made.result(0.85).late(made.cell()) is None
    whole = {"round": [80, 90, 100], "shared_weighted": [0.4, 0.4, 0.41]}
    for last, seen in ((0.41, 3), (0.41004, 3), (0.7, 0)):  # trained after the last
        found = judge(made, [last], curve=whole)
        assert len(found.way) == seen and (found.late is not None) == bool(seen)


def test_how_many_are_reproduced_after_fewer_rounds(made):
    """Theirs are .911 (global) and .876 (local)."""
    ways = {"global": [0.80, 0.90, 0.85, 0.92], "local": [0.87, 0.88, 0.70, 0.70]}
    found = []
    for row, values in ways.items():
        result, rounds = made.result(values[-1]), [10, 20, 30, 40]
        rounds[2] -= 5 * (row == "local")
        result.record["curve"] = {"round": rounds, "shared_weighted": values}
        found.append(judging.judge(made.table, made.cell(row), [result]))
    assert [one.verdict for one in found] == ["reproduced", "worse"]
    assert misses.by_round(found) == {10: 1, 20: 2, 40: 1}  # no round 30 of local
    assert misses.by_round(found[:1]) == {10: 0, 20: 1, 30: 0, 40: 1}
    assert found[0].inside == [20, 40] and found[1].inside == [10, 20]
    unjudged = found[1]._replace(verdict="not judged")
    assert misses.by_round([found[0], unjudged]) == misses.by_round(found[:1])
    assert misses.by_round([]) == {}
