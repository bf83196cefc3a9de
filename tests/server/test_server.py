"""The server's half of a round, by hand: what it takes, says, and never does."""

import math
from types import SimpleNamespace

import pytest
import torch
from clients_sent import broadcast, messages, mixed

from troth import lookup
from troth.server import rules
from troth.server import server as serving
from troth.server.filters.drop_invalid import drop_invalid
from troth.server.server import Rules, Serving
from troth.types import Refusal

NAN, INF = math.nan, math.inf
ROWS = [[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]]


def rule(function):
    return rules.Rule(function.__name__, function, {}, frozenset(lookup.asks(function)))


def mean(messages):
    return messages.update.mean(0)


def add(broadcast, step):
    return broadcast.w + step


def desk(tail=0, filters=(), **changed):
    given = {"attack": None, "aggregator": mean, "server": add, "statistics": mean}
    made = {k: rule(v) if v else None for k, v in (given | changed).items()}
    every = Rules(filters=tuple(map(rule, filters)), **made)
    return Serving(every, tail, 0, torch.device("cpu"))


def sent(rows, ids=None):
    return messages(torch.tensor(rows, dtype=torch.float64), ids)


def start(d):
    return broadcast(torch.zeros(d, dtype=torch.float64))


def serve(server, messages, hostile=None, round_=0):
    rows = None if hostile is None else torch.tensor(hostile)
    return server.serve(start(messages.update.shape[1]), messages, round_, rows)


def refusing(messages):
    raise Refusal("krum with f = 1 holds for n ≥ 2f + 3 = 5, and n is 4")


def counting(messages, memory):
    return messages, torch.ones(1) + (memory if memory.numel() else 0)


def summing(messages, memory):
    total = messages.update.sum(0) + (memory if memory.numel() else 0)
    return total, total


def flip(messages, hostile):
    u = messages.update
    return messages._replace(update=torch.where(hostile[:, None], -u, u))


def test_by_hand():
    found = serve(desk(), sent([[1.0, 0.0], [3.0, 4.0]]))
    assert found.broadcast.w.tolist() == [2.0, 2.0]
    assert found.moved == pytest.approx(math.sqrt(8))
    assert (found.why, found.dropped, found.verdicts) == ("", {}, {})
    assert math.isnan(found.cosine)  # nobody knows who is hostile


def test_a_broken_condition_leaves_w_and_is_told():
    """In an aggregator, so that nothing is remembered either, and in a filter."""
    server = desk(filters=[counting], aggregator=refusing)
    for each in (server, desk(filters=[refusing])):
        found = serve(each, sent([[1.0], [2.0]]))
        assert found.broadcast.w.tolist() == [0.0] and found.moved == 0.0
        assert found.why == "krum with f = 1 holds for n ≥ 2f + 3 = 5, and n is 4"
        assert found.messages.client.tolist() == [0, 1]
    assert server.memories["filter0"].numel() == 0


def test_what_rules_say_is_told_by_client():
    def half(messages, note):
        note(into=messages.client - messages.client % 2)
        return mixed(messages, messages.client % 2 == 0)

    def drop_first(messages):
        return mixed(messages, slice(1, None))

    def choosy(messages, note):
        chosen = messages.client == messages.client.max()
        note(chosen=chosen, weight=chosen.double())
        return messages.update[chosen][0]

    server = desk(filters=[half, drop_first], aggregator=choosy)
    found = serve(server, sent([[1.0], [2.0], [3.0], [4.0], [5.0]], [2, 3, 4, 5, 8]))
    assert found.dropped == {"drop_first": [2, 3]}  # 3 went with 2, into which it went
    assert found.verdicts == {"chosen": [8], "downweighted": [4, 5]}  # 5 is within 4
    assert found.broadcast.w.tolist() == [5.0]


def test_the_rule_over_statistics_says_nothing():
    """Clients are told of once, by the rule that reads their updates."""
    said = []

    def tells(messages, note=None):
        said.append(0 if note is None else messages.update.shape[1])
        return messages.update.mean(0)

    serve(desk(tail=2, aggregator=tells), sent([[1.0, 2.0, 3.0]]))
    assert said == [1]


# The adversary


@pytest.mark.parametrize(
    ("rows", "hostile", "attack", "cosine"),
    [
        # The mean of the benign (1, 0), (0, 2) is (.5, 1); the hostile row is (1, 2).
        (ROWS, [0, 0, 1], None, 1),
        (ROWS, [0, 0, 1], flip, -1),
        (ROWS, [1, 0, 0], None, 0.5 / math.sqrt(0.25 + 4)),
        (ROWS, [0, 0, 0], None, NAN),  # there is one side alone
        (ROWS, [1, 1, 1], None, NAN),
        ([*ROWS, [INF, 0.0], [NAN, 1.0]], [0, 0, 1, 1, 0], None, 1),  # left out
    ],
)
def test_cosine_by_hand(rows, hostile, attack, cosine):
    found = serve(desk(attack=attack), sent(rows), [h > 0 for h in hostile]).cosine
    assert found == pytest.approx(cosine, nan_ok=True)


def test_an_attack_may_rehearse_the_defence():
    """With its memories, which the rehearsal leaves as they were."""
    tried = []

    def clever(messages, hostile, defence):
        for factor in (1.0, 10.0, INF):
            u = torch.where(hostile[:, None], factor, 1.0) * messages.update
            tried.append(float(defence(messages._replace(update=u))[0]))
        return messages

    server = desk(attack=clever, filters=[counting], aggregator=summing)
    serve(server, sent([[1.0], [2.0]]), [False, True])
    assert tried == [3.0, 21.0, 0.0]  # a step that is no number would not be taken
    assert server.memories["filter0"].tolist() == [1.0]
    assert server.memories["aggregator"].tolist() == [3.0]
    serve(server, sent([[1.0], [2.0]]), [False, True], 1)
    assert tried[3:] == [6.0, 24.0, 0.0]


def test_a_defence_that_refuses_is_rehearsed_as_no_step():
    steps = []

    def asks(messages, hostile, defence):
        steps.append(defence(messages).tolist())
        return messages

    serve(desk(attack=asks, aggregator=refusing), sent(ROWS), [True, False, False])
    assert steps == [[0.0, 0.0]]


def test_an_attack_that_refuses_in_a_round_does_not_stop_it():
    def moody(messages, hostile, round_):
        if round_ == 1:
            raise Refusal("not today")
        return flip(messages, hostile)

    server, rows = desk(attack=moody), sent([[1.0], [3.0]])
    each = [serve(server, rows, [False, True], r) for r in (0, 1)]
    assert [float(found.broadcast.w) for found in each] == [-1.0, 2.0]
    assert [found.why for found in each] == ["", ""]


def several():
    """As a run has them, with rows that are no numbers, none, or a broken condition."""

    def three(messages):
        if len(messages.client) < 3:
            raise Refusal("three are wanted")
        return messages.update.mean(0)

    buffer = torch.zeros(3, dtype=torch.bool)

    def least(messages, note):
        first = messages.update[:, 0]
        note(chosen=torch.eq(first, first.min(), out=buffer))
        return messages.update[buffer][0]

    good, bad = [[1.0, 2.0], [3.0, 5.0]], [[1.0, 2.0], [3.0, NAN]]
    kept = {"filters": (drop_invalid,)}
    rows, chooses = [*good, [0.0, 1.0]], kept | {"aggregator": least}
    adds = kept | {"aggregator": summing}
    cases = [
        (desk(**kept), sent(good), None),
        (desk(**kept), sent(bad), [False, True]),
        (desk(**kept, aggregator=three), sent(good), [False, True]),
        (desk(**chooses), sent(rows), [True, False, True]),
        (desk(**chooses), sent(rows[::-1]), None),
        (desk(**kept), mixed(sent(good), slice(0)), None),
        (desk(), sent(bad), None),
        (desk(**adds, attack=flip), sent(good), [True, False]),
        (desk(**adds), sent([[INF, 0.0]]), None),
        (desk(tail=2, **kept), sent([[1.0, 5.0, 2.0], [3.0, 7.0, 4.0]]), None),
        (desk(), mixed(sent(good), slice(0)), None),
    ]
    servers = [server for server, _, _ in cases]
    received = [
        (s, s.receive(start(m.update.shape[1]), m, 0, h and torch.tensor(h)))
        for s, m, h in cases
    ]
    return SimpleNamespace(servers=servers, received=received)


def test_rounds_that_end_at_once_end_as_each_alone():
    """Rows, verdicts, reasons, and what each server remembers."""
    apart, together = several(), several()
    alone = [serving.served([one])[0] for one in apart.received]
    both = serving.served(together.received)
    for one, other in zip(both, alone, strict=True):
        torch.testing.assert_close(one.broadcast.w, other.broadcast.w, rtol=0, atol=0)
        assert one.messages.client.tolist() == other.messages.client.tolist()
        assert one[2:5] == other[2:5] and one.why == other.why
        assert str(one.cosine) == str(other.cosine)
    for one, other in zip(together.servers, apart.servers, strict=True):
        torch.testing.assert_close(one.memories, other.memories)
    none, inf = serving.NOBODY, serving.INFINITE
    reasons = ["", "", "three are wanted", "", "", none, inf, "", none, "", none]
    assert [one.why for one in alone] == reasons
    assert alone[1].dropped == {"drop_invalid": [1]}
    assert [alone[k].verdicts for k in (3, 4)] == [{"chosen": [2]}, {"chosen": [0]}]
    assert alone[3].moved == 1.0 and alone[9].broadcast.w.tolist() == [2.0, 6.0, 3.0]
    memories = [together.servers[k].memories["aggregator"].tolist() for k in (7, 8)]
    assert memories == [[2.0, 3.0], []]
    assert serving.served([]) == []
