"""Networks that a caller passes as Python objects: a module, a class or a function.

They become models of the experiment, whose names contain a digest of their code and,
for a module, of its tensors.
"""

import ast
import copy
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from troth import lookup
from troth.types import Refusal


def give(model: Any) -> lookup.Given:
    """Register a network that is a Python object as a model, and return it.

    Args:
        model: A class or function that returns a `torch.nn.Module`, or a module. A
            class or function is called in each run. It gets `shape` (of one example)
            and `classes` if it has parameters of these names. Its keyword-only
            parameters are options of `[model]`. A module is copied, and its weights are
            the initial weights of the training.

    Raises:
        Refusal: If `model` is neither a module nor callable, or is a compiled module,
            or has weights that are not finite.
    """
    if isinstance(model, nn.Module):
        _check_plain(model)
        word, mark = type(model).__name__, digest(model, weights=True)

        def copied() -> nn.Module:
            """Return a copy of the module; raise Refusal if it was changed."""
            if digest(model, weights=True) != mark:
                raise Refusal(
                    f"the module {word} has changed since it was given; give a copy "
                    "of it as it was, or train anew with troth.run(…, model=…)"
                )
            return copy.deepcopy(model).cpu()

        return lookup.give(word, mark, copied)
    if not callable(model):
        raise Refusal(
            f"model= is of type {type(model).__name__}; it must be a torch.nn.Module, "
            "or a class or function that returns one"
        )
    return _factory(model)


def _check_plain(model: nn.Module) -> None:
    """Raise Refusal if a module is compiled or has weights that are not finite."""
    word = type(model).__name__
    if type(model).__module__.startswith(("torch.jit.", "torch._dynamo.")):
        raise Refusal(
            f"model= is a compiled module ({word}); give the module before "
            "torch.compile or torch.jit, and Troth compiles it where that is faster"
        )
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if not is_lazy(value) and not torch.isfinite(value).all():
            raise Refusal(
                f"the module {word} has NaN or infinite values in '{name}'; "
                "initialize them, or give its class"
            )


def _factory(model: Callable[..., Any]) -> lookup.Given:
    def made(**given: Any) -> Any:
        return model(**given)

    word = getattr(model, "__name__", type(model).__name__).strip("<>")
    made.__name__ = f"model= ({word})"  # in error messages
    return lookup.give(word, _sha256([code(model)]), lookup.like(made, model))


def digest(net: nn.Module, weights: bool = False) -> str:
    """Return the SHA-256 of a network's structure and code: 64 hexadecimal digits.

    Args:
        net: Network.
        weights: Whether the digest also depends on parameters and buffers.
    """
    return _sha256(_parts(net, weights))


def _sha256(parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()


def _parts(net: nn.Module, weights: bool) -> Iterator[Any]:
    yield repr(net)
    for kind in sorted({type(m) for m in net.modules()}, key=lambda k: k.__qualname__):
        if not _library(kind):
            yield code(kind)
    for name, value in net.state_dict().items():
        if is_lazy(value):
            yield f"{name} {value.dtype} lazy "
        elif isinstance(value, Tensor):
            yield f"{name} {value.dtype} {list(value.shape)} "
            if weights:
                flat = value.detach().cpu().contiguous().reshape(-1)
                yield flat.view(torch.uint8).numpy().tobytes()


def _library(kind: type) -> bool:
    return kind is object or kind.__module__.startswith("torch.")


def code(thing: Any) -> str:
    """Return the code of a class or function as text without comments.

    It consists of the source of all functions, or of their bytecode if there is no
    source.
    """
    if isinstance(thing, functools.partial):
        return f"{code(thing.func)} {thing.args} {thing.keywords}"
    if isinstance(thing, FunctionType):
        return _source(thing)
    if not inspect.isclass(thing):
        return code(getattr(thing, "__func__", type(thing)))
    own = [base for base in thing.__mro__ if not _library(base)]
    every = [(k, vars(base)[k]) for base in own for k in sorted(vars(base))]
    lines = [thing.__qualname__]
    for name, member in every:
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(function, FunctionType):
            lines.append(_source(function))
        elif isinstance(member, bool | int | float | str) and name[:2] != "__":
            lines.append(f"{name} = {member!r}")
    return "\n".join(lines)


def _source(function: FunctionType) -> str:
    if function.__name__ != "<lambda>":  # its source line contains other code
        try:
            text = textwrap.dedent(inspect.getsource(function))
            return ast.unparse(ast.parse(text))
        except (OSError, TypeError, SyntaxError):
            pass
    return _bytecode(function.__code__)


def _bytecode(code_: CodeType) -> str:
    constants = (
        _bytecode(c) if isinstance(c, CodeType) else repr(c) for c in code_.co_consts
    )
    return " ".join([code_.co_code.hex(), *code_.co_names, *constants])
