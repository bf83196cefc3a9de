"""Combine a solver and a personalizer into a client; both train on the same batches."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from troth import lookup, numerics, seeding
from troth.client.adversarial._worst import Adversarial
from troth.config.schema import Experiment, Part
from troth.networks import flat
from troth.networks.flat import Masks
from troth.types import (
    Anchor,
    Augment,
    Batch,
    Broadcast,
    Budget,
    Carry,
    Client,
    Descent,
    Groups,
    Optimizer,
    Personal,
    Phase,
    Refusal,
    Regularizer,
    Reply,
    Solver,
    Task,
)


def as_it_is(batch: Batch) -> Batch:
    """Return the batch unchanged."""
    return batch


def combined(
    solver: Solver,
    personal: Personal,
    budgets: tuple[Budget, Budget],
    augments: tuple[Augment, Augment] = (as_it_is, as_it_is),
) -> Client:
    """Train two models on the same batches: the shared one by a solver, and the own.

    This is the joint training of Ditto (Appendix E.1). In every step, the solver first
    moves its copy w_k of the shared model. The personalizer's step then receives the
    shared model that the round began with, and w_k before and after the solver's step
    (Algorithm 1, line 5, of FMTL: Li et al. 2020).

    Args:
        solver: Solver of the shared model.
        personal: Functions of the personalizer.
        budgets: Number of steps in a round: of the solver, then of the personalizer.
        augments: Augmentation of the batches: of the solver, then of the personalizer.

    Returns:
        The client. Its state is the pair of the solver's and the personalizer's state.
    """

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return solver.begin(broadcast, state[0]), state[1]

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        shared, own = carry
        apart = not personal.idle and budgets[0] != budgets[1]
        seen = augments[0](batch)
        mine = seen if augments[1] is augments[0] else augments[1](batch)
        shared_next = solver.step(broadcast, shared, seen)
        if apart:
            shared_next = flat.where(budgets[0].lasts(batch), shared_next, shared)
        anchor = Anchor(broadcast.w, shared_next[0], shared[0])
        own_next = personal.step(own, anchor, mine, valid, broadcast.scale)
        if apart:
            own_next = flat.where(budgets[1].lasts(batch), own_next, own)
        return shared_next, own_next

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        reply, kept = solver.end(broadcast, carry[0], state[0])
        return reply, (kept, carry[1])

    used = budgets[:1] if personal.idle else budgets
    finish, settle = personal.finish, personal.settle
    return Client(
        lambda w0: (solver.init(w0), personal.init(w0)),
        Phase(begin, step, end, used, personal.valid),
        _of_own(finish, augments[1]) if finish else None,
        lambda w, state: personal.model(w, state[1]),
        solver.extra,
        settle=settle and (lambda state, valid: (state[0], settle(state[1], valid))),
        columns=personal.columns,
        tell=lambda state: personal.tell(state[1]),
        idle=personal.idle,
    )


def seen_through(client: Client, augments: tuple[Augment, Augment]) -> Client:
    """Return a client without a solver whose batches are augmented.

    Args:
        client: Client to change.
        augments: Augmentation of the batches in the rounds, then of the batches in the
            training after the last round.
    """
    finish = _through(client.finish, augments[1]) if client.finish else None
    return client._replace(local=_through(client.local, augments[0]), finish=finish)


def _through(phase: Phase, augment: Augment) -> Phase:
    """Return the phase with augmented batches."""

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        return phase.step(broadcast, carry, augment(batch), valid)

    return phase if augment is as_it_is else phase._replace(step=step)


def _of_own(phase: Phase, augment: Augment) -> Phase:
    """Turn a phase on the personalizer's state into a phase on the client's state.

    The client's state is the pair of the solver's and the personalizer's state.
    """

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return phase.begin(broadcast, state[1])

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        reply, own = phase.end(broadcast, carry, state[1], valid)
        return reply, (state[0], own)

    return _through(phase, augment)._replace(begin=begin, end=end)


def compose(parts: Sequence[Part], scale: float) -> Augment:
    """Chain augmentations into one function that augments a batch.

    The random numbers of an augmentation depend only on seed, round, client, step,
    example and the position in the list. So they do not depend on how many clients are
    computed together. The function raises Refusal if an augmentation changes the shape
    of the batch.

    Args:
        parts: Augmentations with their options, in the order in which they are applied.
            With an empty list, batches stay unchanged.
        scale: Number that x is divided by to lie between 0 and 1, such as 255 for
            bytes.
    """
    if not parts:
        return as_it_is
    members = [(lookup.find("augment", p.name), p.options) for p in parts]

    def augment(batch: Batch) -> Batch:
        x, step = batch.x, seeding.fold(batch.key, batch.t)
        each = torch.arange(x.shape[0], device=x.device)
        for i, (member, options) in enumerate(members):
            key = seeding.fold(seeding.fold(step, 2 * i), each)
            new = lookup.call(member, options, x=x, key=key, scale=scale)
            shape = list(new.shape) if isinstance(new, torch.Tensor) else None
            if shape != list(x.shape):
                what = f"tensor of shape {shape}" if shape else type(new).__name__
                raise Refusal(
                    f"augment '{parts[i].name}' makes a {what} of a batch of shape "
                    f"{list(x.shape)}; it must give a tensor of the same shape"
                )
            x = new
        return batch._replace(x=x)

    return augment


def tried(augment: Augment, batch: Batch) -> Batch:
    """Return the augmented batch.

    Raise Refusal if a second call with the same batch gives another result.
    """
    augmented, again = augment(batch), augment(batch)
    if not torch.allclose(augmented.x, again.x, rtol=0, atol=0, equal_nan=True):
        raise Refusal(
            "an augment gives other results for the same key; it must draw all its "
            "random numbers from `key` by troth.seeding, or runs cannot be repeated"
        )
    return augmented


def descent(part: Part, lr: float, weight_decay: float, tail: int = 0) -> Descent:
    """Return the steps of an optimizer with a learning rate and weight decay.

    weight_decay·v is added to the gradient. The last `tail` numbers of v are running
    statistics of batch normalization, which the optimizer does not change. The
    corresponding entries of the gradient are subtracted from them, without the learning
    rate.
    """
    optimizer: Optimizer = _made("optimizer", part)

    def step(v: Tensor, g: Tensor, moments: Any, scale: Tensor) -> Any:
        if weight_decay:
            g = g + weight_decay * v
        return optimizer.step(v, g, moments, lr * scale)

    def whole(v: Tensor, g: Tensor, moments: Any, scale: Tensor) -> Any:
        head, moments = step(v[:-tail], g[:-tail], moments, scale)
        return torch.cat([head, v[-tail:] - g[-tail:]]), moments

    if tail:
        return Descent(lr, optimizer.limit, lambda v: optimizer.init(v[:-tail]), whole)
    return Descent(lr, optimizer.limit, optimizer.init, step)


def _off_tail(regularizer: Regularizer, task: Task) -> Regularizer:
    """Return the regularizer with its gradient set to 0 on running statistics."""

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return numerics.off_tail(regularizer.grad(v, w, batch), task.tail)

    return regularizer._replace(grad=grad) if task.tail else regularizer


def adversarial(part: Part, task: Task, scale: float) -> Adversarial:
    """Return the method of section `[adversarial]`, which makes adversarial inputs.

    x/`scale` lies between 0 and 1.
    """
    made: Adversarial = _made("adversarial", part, task=task, scale=scale)
    return made


def _made(kind: str, part: Part, **available: Any) -> Any:
    """Call the method that an experiment names with its options; return the result.

    The method also receives those values of `available` that its parameters name.
    """
    return lookup.call(lookup.find(kind, part.name), part.options, **available)


def maker(
    e: Experiment,
    scale: float = 1.0,  # value of x that is scaled to 1
    share: float = 1.0,  # size of a cohort, divided by the number of clients
    masks: Masks | None = None,  # turns names of layers into masks of parameters
    groups: Groups | None = None,  # of the training examples; None: no data are loaded
) -> Callable[[Task], Client]:
    """Return the function that makes this experiment's client for a task.

    A personalizer gets the following arguments, if it has a parameter of that name:
    `task`, `descent` (optimizer and learning rate of the personal model),
    `regularizer`, `adversarial` (the method that makes adversarial inputs), `budget`
    (the number of steps or epochs that `[personalizer]` sets, or None) and `groups`. A
    personalizer that makes the client's update itself can also have the parameters
    `solving` (optimizer and learning rate of `[train]`), `work` (the number of steps or
    epochs of a round, by `[train]`), `share`, `masks` and `batch` (the number of
    examples in a batch; 0 means all examples of a client).
    """
    t, p = e.train, e.personalizer
    lr = t.lr if p.lr is None else p.lr
    budget = Budget(t.steps, t.epochs)
    examples = p.count == "examples"
    mine = Budget(p.steps, p.epochs, examples) if p.steps or p.epochs else None

    seen = compose(t.augment, scale)
    own_view = seen if p.augment is None else compose(p.augment, scale)

    def make(task: Task) -> Client:
        shared = descent(t.optimizer, t.lr, t.weight_decay, task.tail)
        own = descent(p.optimizer or t.optimizer, lr, t.weight_decay, task.tail)
        personal = lookup.call(
            lookup.find("personalizer", p.name),
            p.options,
            task=task,
            descent=own,
            regularizer=_off_tail(_made("regularizer", e.regularizer, task=task), task),
            adversarial=adversarial(e.adversarial, task, scale),
            budget=mine,
            solving=shared,
            work=budget,
            share=share,
            masks=masks,
            batch=t.batch,
            groups=groups,
        )
        if examples and personal.finish is None:
            raise Refusal(
                f"personalizer.count = '{p.count}' is about training after the last "
                f"round, and '{p.name}' trains in the rounds; leave count out"
            )
        if not isinstance(personal, Personal):  # it makes the update itself
            _alone(e, personal)
            return seen_through(personal, (seen, own_view))
        solver = _made("solver", e.solver, task=task, descent=shared)
        return combined(solver, personal, (budget, mine or budget), (seen, own_view))

    return make


def _alone(e: Experiment, client: Client) -> None:
    """Raise Refusal for settings that would have no effect without a solver."""
    if e.personalizer.augment is not None and client.finish is None:
        raise Refusal(
            f"personalizer '{e.personalizer.name}' trains one model on the batches of "
            "[train], and personalizer.augment would change nothing; set train.augment"
        )
    default = Experiment().solver
    if e.solver.name != default.name:
        raise Refusal(
            f"personalizer '{e.personalizer.name}' makes the client's update itself, "
            f"and solver '{e.solver.name}' would never run; leave solver out, or take "
            "a personalizer that works with any solver, such as ditto or apfl"
        )
