import pytest
import torch
from clients_sent import messages
from torch import Tensor

from troth import lookup
from troth.server import rules
from troth.server.rules import Verdicts, silent
from troth.types import Broadcast, Refusal

OWN = '''
"""Rules of someone else."""

import torch


def counting(messages, memory, *, start: int = 0):
    """Remembers how often it was asked."""
    memory = torch.cat([memory, torch.tensor([float(start + len(memory))])])
    return messages.update.sum(dim=0), memory


def forgetful(messages):
    """Has no memory, though one is there."""
    return messages.update.sum(dim=0)


def greedy(messages, loss, key, round_, broadcast):
    """Takes all that a round has."""
    return loss, key, round_, broadcast


def lost(messages, nowhere):
    """Asks for what no round has."""
    return nowhere
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "rules_of_someone.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "rules_of_someone"


def context(n=3):
    sent = messages(torch.arange(2.0 * n).reshape(n, 2))
    return {
        "broadcast": Broadcast(torch.zeros(2), torch.zeros(0), torch.ones(())),
        "messages": sent,
        "loss": sent.loss,
        "key": torch.tensor(5),
        "round_": 7,
    }


def lift(own, name, **options):
    full = f"{own}:{name}"
    return rules.lift("aggregator", full, lookup.check("aggregator", full, options))


def test_a_member_by_its_name():
    rule = rules.lift("aggregator", "mean", {})
    assert rule.name == "mean" and rule.asks == {"messages"}
    step, memory = rule(rules.no_memory(), **context())
    assert step.tolist() == [2.0, 3.0]
    assert memory.shape == (0,)


def test_only_what_it_asks_for_is_given(own):
    given = context()
    result, _ = lift(own, "greedy")(rules.no_memory(), **given, hostile=None, step=None)
    assert all(
        a is given[k]
        for a, k in zip(result, ("loss", "key", "round_", "broadcast"), strict=True)
    )


def test_memory_goes_to_those_who_ask(own):
    rule = lift(own, "counting")
    assert "memory" in rule.asks
    memory = rules.no_memory()
    for count in range(1, 4):
        step, memory = rule(memory, **context())
        assert step.tolist() == [6.0, 9.0]
        assert memory.tolist() == list(range(count))


def test_memory_of_the_others_stays_as_it_is(own):
    before = torch.tensor([1.0, 2.0])
    step, memory = lift(own, "forgetful")(before, **context())
    assert isinstance(step, Tensor)
    assert memory is before


def test_options_reach_the_member(own):
    _, memory = lift(own, "counting", start=5)(rules.no_memory(), **context())
    assert memory.tolist() == [5.0]
    server = rules.lift("server", "sgd", {"lr": 0.5})
    w, _ = server(rules.no_memory(), **context(), step=torch.tensor([2.0, 4.0]))
    assert w.tolist() == [1.0, 2.0]


def test_an_unknown_option_is_never_dropped(own):
    with pytest.raises(Refusal, match="has no option 'f'"):
        lift(own, "counting", f=2)
    unchecked = rules.lift("aggregator", "mean", {"f": 2})
    with pytest.raises(TypeError, match="'f'"):
        unchecked(rules.no_memory(), **context())


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("aggregator", "meen", "no aggregator 'meen'.*did you mean 'mean'"),
        ("attack", "nothing", "no attack 'nothing'.*there are: .*model_replacement"),
        ("filter", "", "no filter ''"),
        ("server", "nowhere:sgd", "server 'nowhere:sgd' cannot be imported"),
    ],
)
def test_unknown_names(kind, name, words):
    with pytest.raises(Refusal, match=words):
        rules.lift(kind, name, {})


def test_what_no_round_has_is_refused(own):
    with pytest.raises(Refusal, match="'nowhere'"):
        lift(own, "lost")(rules.no_memory(), **context())


def test_no_memory_is_a_tensor_without_width():
    assert rules.no_memory().shape == (0,)
    assert rules.no_memory(torch.device("cpu")).device == torch.device("cpu")


# How many rows may be malicious


def test_f_is_a_number_and_auto_where_it_makes_no_difference():
    for f in (0, 3):
        assert rules.count("krum", f, 9, (2, 3), True) == f
    assert rules.count("median", "auto", 1, (2, 1), True, otherwise=0) == 0
    assert rules.count("krum", 3, 8, (2, 3), strict=False) == 3
    assert rules.count("krum", 0, 1, (2, 3), strict=True) == 0  # nothing is asked


@pytest.mark.parametrize(
    ("f", "law", "words"),
    [
        ("auto", (2, 3), "krum's f = 'auto' is known within .* such as f = 2"),
        (-1, (2, 3), "krum's f = -1 must be at least 0, or 'auto'"),
        (3, (2, 3), r"krum with f = 3 holds for n ≥ 2f \+ 3 = 9, and n is 8; lower f"),
        (9, (1, 1), r"f = 9 holds for n ≥ f \+ 1 = 10, and n is 8; .*strict = false"),
    ],
)
def test_a_condition_gives_both_numbers(f, law, words):
    with pytest.raises(Refusal, match=words):
        rules.count("krum", f, 8, law, strict=True)


@pytest.mark.parametrize(
    ("cohort", "hostile", "clients", "f"),
    [
        (10, 100, 500, 2),  # Ditto's Fashion-MNIST at 20 %
        (10, 250, 500, 5),
        (10, 3, 23, 1),  # 10 % of Vehicle's 23, rounded up, so that it is not 0
        (10, 2, 23, 0),
        (10, 11, 23, 4),
        (10, 19, 23, 8),
        (7, 0, 9, 0),
        (9, 3, 9, 3),
    ],
)
def test_the_share_of_a_cohort_is_rounded_down(cohort, hostile, clients, f):
    """As `int(clients_per_round * num_corrupted / N)` in the authors' code."""
    assert rules.share(cohort, hostile, clients) == f
    assert int(cohort * hostile / clients) == f


# What rules say of clients


def test_rows_are_told_by_client():
    verdicts = Verdicts()
    note = verdicts.of(torch.tensor([7, 3, 9]))
    note(chosen=torch.tensor([True, False, True]))
    note(clipped=torch.tensor([False, False, False]))
    assert verdicts.clients() == {"chosen": {7, 9}, "clipped": set()}


def test_down_weighted_is_below_an_equal_share():
    verdicts = Verdicts()
    third = torch.full((3,), 1 / 3)
    verdicts.of(torch.arange(3))(weight=third)
    assert verdicts.clients() == {"downweighted": set()}  # rounding is no verdict
    verdicts.of(torch.arange(3))(weight=torch.tensor([0.3, 0.3, 0.4]))
    assert verdicts.clients() == {"downweighted": {0, 1}}


def test_several_rules_say_the_same_of_a_client_once():
    verdicts = Verdicts()
    verdicts.of(torch.tensor([1, 2]))(clipped=torch.tensor([True, True]))
    verdicts.of(torch.tensor([2, 5]))(clipped=torch.tensor([True, True]))
    assert verdicts.clients() == {"clipped": {1, 2, 5}}


def test_what_is_said_of_a_merged_row_falls_on_all_that_it_holds():
    verdicts = Verdicts()
    note = verdicts.of(torch.tensor([7, 3, 9, 4, 5]))
    note(into=torch.tensor([3, 3, 4, 4, 5]))
    verdicts.of(torch.tensor([3, 4, 5]))(chosen=torch.tensor([True, False, True]))
    assert verdicts.clients() == {"chosen": {3, 5, 7}}
    again = verdicts.of(torch.tensor([3, 4, 5]))  # groups of groups
    again(into=torch.tensor([3, 3, 5]))
    verdicts.of(torch.tensor([3, 5]))(weight=torch.tensor([0.1, 0.9]))
    assert verdicts.clients()["downweighted"] == {3, 4, 7, 9}


def test_a_rule_may_go_on_with_its_mask():
    """What is noted is read after all rules; columns may share a rule's buffer."""
    verdicts, buffer = Verdicts(), torch.tensor([True, False])
    verdicts.of(torch.tensor([4, 6]))(chosen=buffer)
    buffer.logical_not_()
    verdicts.of(torch.tensor([4, 6]))(clipped=buffer)
    buffer.fill_(True)
    assert verdicts.clients() == {"chosen": {4}, "clipped": {6}}


def test_nobody_has_to_listen():
    silent(chosen=torch.ones(2, dtype=torch.bool))


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("banana", torch.ones(3), "notes 'banana' of shape .3. for 3 rows"),
        ("cohort", torch.ones(3), "it may note clipped, chosen, weight, into"),
        ("chosen", torch.ones(2, dtype=torch.bool), "of shape .2. for 3 rows"),
        ("chosen", [True] * 3, "of shape list"),
        ("chosen", torch.tensor([2, 0, 1]), "'chosen' as torch.int64; it is a mask"),
        ("clipped", torch.ones(3), "'clipped' as torch.float32; it is a mask"),
    ],
)
def test_what_is_no_verdict_is_refused(name, rows, words):
    """Lest a stranger's rule write over what a round records."""
    with pytest.raises(Refusal, match=words):
        Verdicts().of(torch.arange(3))(**{name: rows})
