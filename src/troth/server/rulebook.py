"""Experiment → the rules of its rounds, each tried once before the first."""

from typing import Any

import torch
from torch import Tensor

from troth import lookup
from troth.config.schema import Experiment, Part
from troth.server import rules
from troth.server.server import Rules
from troth.types import Broadcast, Messages, Refusal


def expected(e: Experiment, clients: int, hostile: int) -> int:
    """What `f = "auto"` comes to in an experiment.

    Args:
        e: the experiment.
        clients: how many there are.
        hostile: how many of them an adversary controls.
    """
    return rules.share(e.train.cohort or clients, hostile, clients)


def of(e: Experiment, f: int) -> Rules:
    """The rules of an experiment; where they ask for f = "auto", it is this.

    Filters that can say whether all rows are finite stand first in every run.
    """
    known = {"f": f, **_known(e)}

    def rule(kind: str, part: Part) -> rules.Rule:
        options = {
            key: known[key] if value == "auto" and key in known else value
            for key, value in part.options.items()
        }
        return rules.lift(kind, part.name, options)

    first = [
        rules.lift("filter", name, {})
        for name in lookup.names("filter")
        if lookup.beside(lookup.find("filter", name), "all_finite")
    ]
    return Rules(
        None if e.attack.name == "none" else rule("attack", e.attack),
        (*first, *(rule("filter", part) for part in e.filter)),
        rule("aggregator", e.aggregator),
        rule("server", e.server),
        rules.lift("aggregator", _of_statistics(e), {}),
        e.attack.strength,
    )


def _known(e: Experiment) -> dict[str, Any]:
    """What an experiment says of options that are "auto", beside f.

    A member says what follows from its options by a function `known` beside it, which
    may ask for the `reach` of the regularizer's gradient. That the shared model tells
    what was sent in all (`infers`), both the aggregator and the server have to say.
    """

    def reach() -> float:
        regularizer = lookup.find("regularizer", e.regularizer.name)
        made = lookup.call(regularizer, e.regularizer.options, task=None)
        return float(made.reach)

    known: dict[str, Any] = {"over": "mean", "regularizer": e.regularizer.name}
    if "lr" in e.server.options:
        known["eta"] = e.server.options["lr"]
    infers = []
    for kind in ("aggregator", "server", "personalizer"):
        part: Part = getattr(e, kind)
        says = lookup.beside(lookup.find(kind, part.name), "known")
        if says is not None:
            known |= lookup.call(says, {}, options=part.options, reach=reach)
        infers.append(known.pop("infers", kind == "personalizer"))
    return known | {"infers": all(infers)}


def facts(e: Experiment, f: int) -> dict[str, Any]:
    """For the record: what "auto" came to, where some rule asked for it."""
    asked = [part.options.get("f") for part in (e.aggregator, *e.filter)]
    return {"f": f} if "auto" in asked else {}


def _of_statistics(e: Experiment) -> str:
    """How running statistics are put together: robustly where the rest is.

    A rule that is to withstand malicious rows has an option that says how many.
    """
    if e.train.statistics != "auto":
        return e.train.statistics
    robust = "f" in lookup.options(lookup.find("aggregator", e.aggregator.name))
    return "median" if robust else "mean"


def tried(every: Rules, w0: Tensor, cohort: int) -> None:
    """Put messages of zeros through the rules of a round, as many as a cohort sends.

    So they refuse before anything is written, and on as many rows as will reach them.
    """
    zero = w0.new_zeros
    broadcast = Broadcast(zero(2), zero(0), w0.new_ones(()))
    client = torch.arange(cohort, device=w0.device)
    update, extra = zero(cohort, 2), zero(cohort, 0)
    messages = Messages(update, extra, zero(cohort), client + 1, client)
    key = torch.zeros((), dtype=torch.long, device=w0.device)

    def call(rule: rules.Rule, **more: Any) -> Any:
        given: dict[str, Any] = {"broadcast": broadcast, "key": key, "round_": 0}
        return rule(rules.no_memory(w0.device), **given | more)[0]

    def heard(rule: rules.Rule) -> Any:
        note = rules.Verdicts().of(messages.client)
        return call(rule, messages=messages, loss=messages.loss, note=note)

    if every.attack is not None:
        given: dict[str, Any] = {"defence": lambda sent: sent.update[0] * 0}
        sent = messages
        if "target" in every.attack.options:  # it must fit the model
            given["broadcast"] = broadcast._replace(w=torch.zeros_like(w0))
            sent = messages._replace(update=zero(cohort, len(w0)))
        for hostile in (client < 0, client < 1):
            found = call(every.attack, messages=sent, hostile=hostile, **given)
            if len(_messages(every.attack, found).client) != cohort:
                raise Refusal(
                    f"'{every.attack.name}' gives {len(found.client)} rows for "
                    f"{cohort}; an attack must leave as many as there are: return "
                    "messages._replace(update=…)"
                )
    for rule in every.filters:
        found = heard(rule)
        if len(_messages(rule, found).client):
            messages = found  # where it takes zeros for nothing, the next tries them
    _vector(every.aggregator, heard(every.aggregator))
    _vector(every.server, call(every.server, step=zero(2)))


def _messages(rule: rules.Rule, found: Any) -> Messages:
    """What an attack or a filter gives, which may be anyone's."""
    if isinstance(found, Messages) and len({len(field) for field in found}) == 1:
        return found
    raise Refusal(
        f"'{rule.name}' gives a {type(found).__name__} that does not hold one value "
        "per row in every field; it must give messages: return "
        "messages._replace(update=…)"
    )


def _vector(rule: rules.Rule, found: Any) -> None:
    """What an aggregator or a server gives, which may be anyone's."""
    shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != [2]:
        raise Refusal(
            f"'{rule.name}' gives {shape} where the model has 2 numbers, of shape [2]; "
            "it must give one vector, as long as the model"
        )
