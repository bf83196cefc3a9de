"""What holds of all rules that choose rows."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.types import Messages, Refusal

LAWS = {
    "krum": ("n ≥ 2f + 3", lambda f: 2 * f + 3),
    "multi_krum": ("n ≥ 2f + 3", lambda f: 2 * f + 3),
    "bulyan": ("n ≥ 4f + 3", lambda f: 4 * f + 3),
    "mda": ("n ≥ 2f + 1", lambda f: 2 * f + 1),
    "k_norm": ("n ≥ f + 1", lambda f: f + 1),
    "k_loss": ("n ≥ f + 1", lambda f: f + 1),
}
EVERY = pytest.mark.parametrize("name", LAWS)


def messages(update: Tensor, client: Tensor | None = None) -> Messages:
    n = len(update)
    client = torch.arange(n) if client is None else client
    loss = (client * 7 % 11).to(update)
    return Messages(update, update[:, :0], loss, torch.ones(n), client)


def call(name: str, sent: Messages, **options: Any) -> tuple[Tensor, set[int]]:
    """The result, and the ids of the clients that were chosen."""
    said: dict[str, Tensor] = {}
    full = lookup.check("aggregator", name, options)
    rule = lookup.find("aggregator", name)
    context = {"messages": sent, "loss": sent.loss, "note": said.update}
    found = lookup.call(rule, full, **context)
    assert said["chosen"].dtype == torch.bool
    assert said["chosen"].shape == sent.client.shape
    return found, {*sent.client[said["chosen"]].tolist()}


@EVERY
@pytest.mark.parametrize("kind", ["random", "equal", "large", "small", "mixed"])
def test_finite_for_any_count_without_its_condition(name: str, kind: str) -> None:
    draw = torch.Generator().manual_seed(0)
    counts = range(16) if kind == "random" else (0, 1, 2, 8, 15)
    for n in range(1, 13) if kind == "random" else (1, 2, 3, 7, 12):
        random = torch.randn(n, 3, generator=draw)
        update = {
            "random": random,
            "equal": torch.full((n, 3), -2.5),
            "large": 3.4e38 * random.sign(),
            "small": 1.4e-45 * (4 * random).round(),
            "mixed": torch.where(torch.arange(n)[:, None] % 2 == 0, 1e30, random),
        }[kind]
        for f in counts:
            found, who = call(name, messages(update), f=f, strict=False)
            assert found.shape == (3,)
            assert found.dtype == update.dtype
            assert found.isfinite().all()
            assert who
            assert (update.amin(0) <= found + 1e-6 * found.abs()).all()
            assert (found - 1e-6 * found.abs() <= update.amax(0)).all()


@EVERY
@pytest.mark.parametrize("f", [1, 2, 3])
def test_refuses_too_few_rows_with_both_numbers(name: str, f: int) -> None:
    law, least = LAWS[name][0], LAWS[name][1](f)
    update = torch.randn(least, 2)
    call(name, messages(update), f=f)
    with pytest.raises(Refusal) as refused:
        call(name, messages(update[1:]), f=f)
    assert str(refused.value).startswith(
        f"{name} with f = {f} holds for {law} = {least}, and n is {least - 1}; "
    )


@EVERY
def test_refuses_other_counts(name: str) -> None:
    sent = messages(torch.randn(9, 2))
    with pytest.raises(Refusal, match=rf"{name}'s f = -1 must be at least 0"):
        call(name, sent, f=-1)
    with pytest.raises(Refusal, match=rf"{name}'s f = 'auto' is known within"):
        call(name, sent)
    with pytest.raises(Refusal, match="aggregator.f = 1.5 is a number"):
        call(name, sent, f=1.5)
    with pytest.raises(Refusal, match="has no option 'n'"):
        call(name, sent, f=1, n=3)


@EVERY
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 14), d=st.integers(1, 4), f=st.integers(0, 6), seed=st.integers(0)
)
def test_the_order_of_rows_does_not_matter(
    name: str, n: int, d: int, f: int, seed: int
) -> None:
    """Small whole numbers: full of ties and duplicates."""
    draw = torch.Generator().manual_seed(seed % 2**60)
    update = torch.randint(-2, 3, (n, d), generator=draw).float()
    client = torch.randperm(40, generator=draw)[:n]
    sent = messages(update, client)
    order = torch.randperm(n, generator=draw)
    mixed = Messages(*(field[order] for field in sent))
    found, who = call(name, sent, f=f, strict=False)
    again, same = call(name, mixed, f=f, strict=False)
    assert torch.equal(found, again)
    assert who == same


@EVERY
def test_equal_rows_go_by_client_id(name: str) -> None:
    client = torch.tensor([9, 4, 7, 1, 8, 2, 6])
    sent = messages(torch.ones(7, 3), client)._replace(loss=torch.zeros(7))
    found, who = call(name, sent, f=1)
    assert found.tolist() == [1.0, 1.0, 1.0]
    first = {"krum": 1, "k_loss": 1, "bulyan": 5}.get(name, 6)
    lowest = client.sort().values.tolist()
    assert who == ({2} if name == "k_loss" else {*lowest[:first]})


@EVERY
@pytest.mark.parametrize("n", [1, 5, 30])
def test_without_hostile_rows(name: str, n: int) -> None:
    sent = messages(torch.randn(n, 4, generator=torch.Generator().manual_seed(n)))
    found, who = call(name, sent, f=0)
    if name in ("krum", "k_loss"):
        assert len(who) == 1
        assert torch.equal(found, sent.update[who.pop()])
    else:
        assert len(who) == n
        assert torch.equal(found, sent.update.mean(dim=0))


@pytest.mark.parametrize("name", ["krum", "multi_krum", "bulyan", "mda"])
def test_near_equal_rows_are_told_apart(name: str) -> None:
    """Forty float32 rows around 1000, of which three lie ten times as far off.

    A distance by ‖a‖² + ‖b‖² − 2a·b in float32 is noise here.
    """
    draw = torch.Generator().manual_seed(3)
    update = 1000 + 1e-3 * torch.randn(40, 200, generator=draw)
    update[[0, 17, 39]] += 1e-2
    _, who = call(name, messages(update), f=3)
    assert not who & {0, 17, 39} or name == "bulyan"
    if name in ("multi_krum", "mda"):
        assert len(who) == 37


@pytest.mark.parametrize("name", ["krum", "multi_krum", "bulyan", "mda"])
@pytest.mark.parametrize("far", [10.0, 1e30, 3e38])
@pytest.mark.parametrize("alike", [True, False])
def test_far_rows_count_for_nothing(name: str, far: float, alike: bool) -> None:
    draw = torch.Generator().manual_seed(1)
    for f in (1, 2, 5):
        n = 4 * f + 3
        update = torch.rand(n, 6, generator=draw)
        directions = torch.randn(f, 6, generator=draw).sign()
        update[-f:] = far * (torch.ones(f, 6) if alike else directions)
        found, who = call(name, messages(update), f=f)
        benign = update[:-f]
        assert (benign.amin(0) <= found).all()
        assert (found <= benign.amax(0)).all()
        assert name == "bulyan" or not who & {*range(n - f, n)}


@pytest.mark.parametrize("name", ["krum", "multi_krum", "bulyan", "mda", "k_norm"])
def test_what_clients_report_moves_nothing(name: str) -> None:
    sent = messages(torch.randn(11, 3))
    false = sent._replace(loss=sent.loss * torch.nan, size=sent.size * -1e9)
    assert torch.equal(call(name, sent, f=2)[0], call(name, false, f=2)[0])


@EVERY
def test_input_stays_and_result_is_its_own(name: str) -> None:
    sent = messages(torch.randn(11, 3, dtype=torch.float64))
    kept = [field.clone() for field in sent]
    found, _ = call(name, sent, f=2)
    assert found.dtype == torch.float64
    found += 1
    assert all(torch.equal(a, b) for a, b in zip(sent, kept, strict=True))


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_denormal_rows_are_kept(name: str, dtype: torch.dtype) -> None:
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    update = least.expand(9, 2).clone()
    update[4] = 1
    sent = messages(update)._replace(loss=torch.arange(9.0))
    found, who = call(name, sent, f=1)
    assert torch.equal(found, least.expand(2))
    assert 4 not in who or name == "bulyan"


def test_no_warning_on_large_numbers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        update = torch.full((7, 2), torch.finfo(torch.float64).max, dtype=torch.float64)
        for name in LAWS:
            assert torch.equal(call(name, messages(update), f=1)[0], update[0])
