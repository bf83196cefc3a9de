"""The server's half of a round, by hand: what it takes, says, and never does."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from clients_sent import messages
from torch import Tensor

from troth import lookup
from troth.server import rules
from troth.server import server as serving
from troth.server.server import Rules, Serving
from troth.types import Broadcast, Messages, Refusal


def rule(function, **options):
    asks = frozenset(lookup.asks(function))
    return rules.Rule(function.__name__, function, options, asks)


def mean(messages):
    return messages.update.mean(0)


def add(broadcast, step):
    return broadcast.w + step


def everything(**changed):
    given = {"attack": None, "filters": (), "aggregator": mean, "server": add}
    given |= {"statistics": mean} | changed
    made = {k: rule(v) if callable(v) else v for k, v in given.items()}
    made["filters"] = tuple(rule(each) for each in made["filters"])
    return Rules(**made)


def desk(tail=0, **changed):
    return Serving(everything(**changed), tail, 0, torch.device("cpu"))


def sent(rows, ids=None):
    return messages(torch.tensor(rows, dtype=torch.float64), ids)


def start(d, tail=0):
    w = torch.zeros(d + tail, dtype=torch.float64)
    return Broadcast(w, w[:0], w.new_ones(()))


def serve(server, messages, hostile=None):
    rows = None if hostile is None else torch.tensor(hostile)
    return server.serve(start(messages.update.shape[1]), messages, 0, rows)


def test_by_hand():
    found = serve(desk(), sent([[1.0, 0.0], [3.0, 4.0]]))
    assert found.broadcast.w.tolist() == [2.0, 2.0]
    assert found.moved == pytest.approx(math.sqrt(8))
    assert (found.why, found.dropped, found.verdicts) == ("", {}, {})
    assert math.isnan(found.cosine)  # nobody knows who is hostile


def refusing(messages):
    raise Refusal("krum with f = 1 holds for n ≥ 2f + 3 = 5, and n is 4")


def counting(messages, memory):
    return messages, torch.ones(1) + (memory if memory.numel() else 0)


def test_a_broken_condition_leaves_w_and_is_told():
    server = desk(filters=[counting], aggregator=refusing)
    found = serve(server, sent([[1.0], [2.0]]))
    assert found.broadcast.w.tolist() == [0.0]
    assert found.why == "krum with f = 1 holds for n ≥ 2f + 3 = 5, and n is 4"
    assert found.moved == 0.0
    assert server.memories["filter0"].numel() == 0  # nothing was taken


def test_a_filter_that_refuses_leaves_w_too():
    found = serve(desk(filters=[refusing]), sent([[1.0]]))
    assert found.why.startswith("krum")
    assert found.messages.client.tolist() == [0]


def test_no_message_and_no_number_have_their_words():
    empty = Messages(*(field[:0] for field in sent([[1.0]])))
    assert serve(desk(), empty).why == serving.NOBODY
    assert serve(desk(), sent([[math.inf]])).why == serving.INFINITE


def half(messages, note):
    mask = messages.client % 2 == 0
    note(into=messages.client - messages.client % 2)
    return Messages(*(field[mask] for field in messages))


def drop_first(messages):
    return Messages(*(field[1:] for field in messages))


def choosy(messages, note):
    chosen = messages.client == messages.client.max()
    note(chosen=chosen, weight=chosen.double())
    return messages.update[chosen][0]


def test_what_rules_say_is_told_by_client():
    server = desk(filters=[half, drop_first], aggregator=choosy)
    found = serve(server, sent([[1.0], [2.0], [3.0], [4.0], [5.0]], [2, 3, 4, 5, 8]))
    assert found.dropped == {"drop_first": [2, 3]}  # 3 went with 2, into which it went
    assert found.verdicts == {"chosen": [8], "downweighted": [4, 5]}  # 5 is within 4
    assert found.broadcast.w.tolist() == [5.0]


def test_the_rule_over_statistics_says_nothing():
    """Clients are told of once, by the rule that reads their updates."""
    said: list[int] = []

    def tells(messages, note=None):
        said.append(0 if note is None else messages.update.shape[1])
        return messages.update.mean(0)

    server = Serving(everything(aggregator=tells), 2, 0, torch.device("cpu"))
    messages = sent([[1.0, 2.0, 3.0]])
    server.serve(start(1, 2), messages, 0)
    assert said == [1]


# The adversary


def flip(messages, hostile):
    u = messages.update
    return messages._replace(update=torch.where(hostile[:, None], -u, u))


ROWS = [[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]]


def test_cosine_by_hand():
    """Mean of the benign (1, 0), (0, 2): (.5, 1); the hostile row: (1, 2)."""
    messages = sent(ROWS)
    assert serve(desk(), messages, [False, False, True]).cosine == pytest.approx(1)
    flipped = serve(desk(attack=flip), messages, [False, False, True])
    assert flipped.cosine == pytest.approx(-1)
    one = serve(desk(), messages, [True, False, False]).cosine
    assert one == pytest.approx(0.5 / math.sqrt(0.25 + 4))


@pytest.mark.parametrize("hostile", [[False] * 3, [True] * 3])
def test_cosine_without_one_side_is_none(hostile):
    assert math.isnan(serve(desk(), sent(ROWS), hostile).cosine)


def test_cosine_leaves_out_what_is_no_number():
    rows = [*ROWS, [math.inf, 0.0], [math.nan, 1.0]]
    found = serve(desk(), sent(rows), [False, False, True, True, False])
    assert found.cosine == pytest.approx(1)


@pytest.mark.parametrize(("strength", "row"), [(0, 3.0), (0.5, 0.0), (1, -3), (2, -9)])
def test_strength_goes_from_the_own_row_to_the_attack(strength, row):
    server = desk(attack=flip, strength=strength)
    found = serve(server, sent([[1.0], [3.0]]), [False, True])
    assert found.messages.update.tolist() == [[1.0], [row]]


def to_infinity(messages, hostile):
    gone = torch.full_like(messages.update, math.inf)
    return messages._replace(
        update=torch.where(hostile[:, None], gone, messages.update)
    )


def test_no_strength_is_no_attack_even_of_infinite_rows():
    server = desk(attack=to_infinity, strength=0.0)
    assert serve(server, sent([[1.0], [3.0]]), [False, True]).moved == 2


def test_an_attack_may_rehearse_the_defence():
    """With its memories, which the rehearsal leaves as they were."""
    tried: list[float] = []

    def clever(messages, hostile, defence):
        for factor in (1.0, 10.0, math.inf):
            u = torch.where(hostile[:, None], factor, 1.0) * messages.update
            tried.append(float(defence(messages._replace(update=u))[0]))
        return messages

    def summing(messages, memory):
        total = messages.update.sum(0) + (memory if memory.numel() else 0)
        return total, total

    server = desk(attack=clever, filters=[counting], aggregator=summing)
    broadcast, messages = start(1), sent([[1.0], [2.0]])
    hostile = torch.tensor([False, True])
    server.serve(broadcast, messages, 0, hostile)
    assert tried == [3.0, 21.0, 0.0]  # a step that is no number would not be taken
    assert server.memories["filter0"].tolist() == [1.0]
    assert server.memories["aggregator"].tolist() == [3.0]
    server.serve(broadcast, messages, 1, hostile)
    assert tried[3:] == [6.0, 24.0, 0.0]


def test_a_defence_that_refuses_is_rehearsed_as_no_step():
    steps: list[Tensor] = []

    def asks(messages, hostile, defence):
        steps.append(defence(messages))
        return messages

    serve(desk(attack=asks, aggregator=refusing), sent(ROWS), [True, False, False])
    assert steps[0].tolist() == [0.0, 0.0]


def test_an_attack_that_refuses_in_a_round_does_not_stop_it():
    def moody(messages, hostile, round_):
        if round_ == 1:
            raise Refusal("not today")
        return flip(messages, hostile)

    server = desk(attack=moody)
    broadcast, messages = start(1), sent([[1.0], [3.0]])
    hostile = torch.tensor([False, True])
    each = [server.serve(broadcast, messages, r, hostile) for r in (0, 1)]
    assert [float(found.broadcast.w) for found in each] == [-1.0, 2.0]
    assert [found.why for found in each] == ["", ""]


class Told(NamedTuple):
    """A server with what it is sent."""

    server: Serving
    messages: Messages
    hostile: Any = None


def several():
    """As a run has them, with rows that are no numbers, none, or a broken condition."""
    from troth.server.filters.drop_invalid import drop_invalid

    def three(messages):
        if len(messages.client) < 3:
            raise Refusal("three are wanted")
        return messages.update.mean(0)

    buffer = torch.zeros(3, dtype=torch.bool)

    def least(messages, note):
        first = messages.update[:, 0]
        note(chosen=torch.eq(first, first.min(), out=buffer))
        return messages.update[buffer][0]

    def adding(messages, memory):
        total = messages.update.sum(0) + (memory if memory.numel() else 0)
        return total, total

    good, bad = [[1.0, 2.0], [3.0, 5.0]], [[1.0, 2.0], [3.0, math.nan]]
    kept = {"filters": (drop_invalid,)}
    three_rows = [*good, [0.0, 1.0]]
    return [
        Told(desk(**kept), sent(good)),
        Told(desk(**kept), sent(bad), [False, True]),
        Told(desk(**kept, aggregator=three), sent(good), [False, True]),
        Told(desk(**kept, aggregator=least), sent(three_rows), [True, False, 1]),
        Told(desk(**kept, aggregator=least), sent(three_rows[::-1])),
        Told(desk(**kept), sent(good)._replace(update=torch.zeros(0, 2))),
        Told(desk(), sent(bad)),
        Told(desk(**kept, aggregator=adding, attack=flip), sent(good), [True, False]),
        Told(desk(**kept, aggregator=adding), sent([[math.inf, 0.0]])),
        Told(desk(tail=2, **kept), sent([[1.0, 5.0, 2.0], [3.0, 7.0, 4.0]])),
    ]


def test_rounds_that_end_at_once_end_as_each_alone():
    """Rows, verdicts, reasons, and what each server remembers."""

    def received(told):
        server, messages, hostile = told
        rows = None if hostile is None else torch.tensor(hostile).bool()
        if not len(messages.update):
            messages = Messages(*(field[:0] for field in messages))
        return server.receive(start(messages.update.shape[1]), messages, 0, rows)

    one_by_one, at_once = several(), several()
    alone = [serving.served([(t.server, received(t))])[0] for t in one_by_one]
    both = serving.served([(t.server, received(t)) for t in at_once])
    for one, other in zip(both, alone, strict=True):
        torch.testing.assert_close(one.broadcast.w, other.broadcast.w, rtol=0, atol=0)
        assert one.messages.client.tolist() == other.messages.client.tolist()
        assert one[2:5] == other[2:5] and one.why == other.why
        assert str(one.cosine) == str(other.cosine)
    for told, other_ in zip(at_once, one_by_one, strict=True):
        torch.testing.assert_close(told.server.memories, other_.server.memories)
    nobody, infinite = serving.NOBODY, serving.INFINITE
    reasons = ["", "", "three are wanted", "", "", nobody, infinite, "", nobody, ""]
    assert [one.why for one in alone] == reasons
    assert alone[1].dropped == {"drop_invalid": [1]}
    assert [alone[k].verdicts for k in (3, 4)] == [{"chosen": [2]}, {"chosen": [0]}]
    assert alone[3].moved == 1.0 and alone[9].broadcast.w.tolist() == [2.0, 6.0, 3.0]
    assert at_once[7].server.memories["aggregator"].tolist() == [2.0, 3.0]
    assert at_once[8].server.memories["aggregator"].tolist() == []
    assert serving.served([]) == []
