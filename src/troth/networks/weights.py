"""Read a network's weights from a file, and select names of tensors by patterns."""

import hashlib
import pickle
import warnings
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from troth import lookup
from troth.types import Refusal

_SUFFIXES = (".safetensors", ".pt", ".pth")
_MOST = 12  # largest number of names in a message


def matched(option: str, patterns: list[str], names: Iterable[str]) -> set[str]:
    """Return the names that the patterns select.

    A pattern is a file pattern (`*`, `?`, `[abc]`; `*` matches dots too). It selects a
    tensor if it matches the name of the tensor or of a module that contains it.
    Examples are `features`, `fc.bias` and `layer?.*.bn1`. Raise Refusal for a pattern
    that selects nothing; `option` is the option with the patterns, for the message.
    """
    known = list(names)
    found: set[str] = set()
    for pattern in patterns:
        chosen = {
            name
            for name in known
            if any(fnmatchcase(one, pattern) for one in _around(name))
        }
        if not chosen:
            near = lookup.nearest(pattern, [o for n in known for o in _around(n)])
            raise Refusal(
                f"{option}: '{pattern}' matches nothing{near}; "
                f"there are: {_grouped(known)}; the name of a module matches all in "
                "it, and * matches any text"
            )
        found |= chosen
    return found


def _around(name: str) -> list[str]:
    """List the names of the modules that contain a tensor, and the tensor's name."""
    words = name.split(".")
    return [".".join(words[: k + 1]) for k in range(len(words))]


def _grouped(names: list[str]) -> str:
    """Join all names, grouped by module: `fc.{weight, bias}`."""
    own: dict[str, list[str]] = {}
    for name in names:
        module, dot, last = name.rpartition(".")
        own.setdefault(module + dot, []).append(last)
    return ", ".join(
        module + (last[0] if len(last) == 1 else f"{{{', '.join(last)}}}")
        for module, last in own.items()
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def digest(path: str) -> str:
    """Return the SHA-256 of a file of weights, in hexadecimal."""
    with _file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file(path: str) -> Path:
    file = Path(path).expanduser()
    if file.suffix.lower() not in _SUFFIXES and not file.is_dir():
        raise Refusal(
            f"model.weights = '{path}' is not a file of weights by its name; it must "
            f"end in {', '.join(_SUFFIXES)}"
        )
    if not file.is_file():
        inside = file / "shared.safetensors"
        hint = f"give {inside}" if inside.is_file() else f"seen from {Path.cwd()}"
        what = "is a folder" if file.is_dir() else "is not there"
        raise Refusal(
            f"model.weights = '{path}' {what} ({hint}); give a file that ends in "
            f"{', '.join(_SUFFIXES)}"
        )
    return file


def read(path: str) -> dict[str, Tensor]:
    """Read the tensors of a file by name.

    The file is .safetensors, or .pt or .pth with a `state_dict`. The
    `state_dict` of a checkpoint may have any key, if it is the only dictionary of
    tensors. Code in a file is never
    run. From `shared.safetensors` of a run, the input normalization is left out,
    because the experiment sets it. Raise Refusal if the file cannot be read.
    """
    file = _file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if file.suffix.lower() == ".safetensors":
                content: Any = load_file(file)
            else:
                content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # for a damaged file, torch may raise any exception
        if isinstance(error, pickle.UnpicklingError) and _pickled(file):
            raise Refusal(
                f"model.weights = '{path}' holds more than tensors, and Python objects "
                "are not read, because they could run code; save the tensors alone: "
                "torch.save(model.state_dict(), …)"
            ) from None
        raise Refusal(
            f"model.weights = '{path}' cannot be read (truncated, or not what its "
            "name says); get or save it again"
        ) from None
    return _bare(_table(path, content))


def _pickled(file: Path) -> bool:
    """Return whether a file begins like a pickle or like a zip file with one."""
    with file.open("rb") as opened:
        head = opened.read(2)
    return head == b"PK" or head[:1] == b"\x80"


def _table(path: str, content: Any) -> dict[str, Tensor]:
    """Return the table of tensors in a file, directly or one level down."""
    if _is_table(content):
        return dict(content)
    inside = content.values() if isinstance(content, Mapping) else []
    tables = [value for value in inside if _is_table(value)]
    if len(tables) == 1:
        return dict(tables[0])
    what = f"{len(tables)} tables" if tables else f"a {type(content).__name__}"
    raise Refusal(
        f"model.weights = '{path}' holds {what}, and not one table of tensors by name; "
        "write it by torch.save(model.state_dict(), …)"
    )


def _is_table(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(k, str) for k in value)
        and all(isinstance(v, Tensor) and not v.is_sparse for v in value.values())
    )


def _bare(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove the input normalization, and prefixes that wrappers of torch add."""
    ours = ("0.mean", "0.inverse")
    if all(name in tensors for name in ours):
        rest = {k: v for k, v in tensors.items() if k not in ours}
        if all(name.startswith("1.") for name in rest):
            return {name.removeprefix("1."): value for name, value in rest.items()}
    for prefix in ("module.", "_orig_mod."):  # DataParallel, torch.compile
        if all(name.startswith(prefix) for name in tensors):
            tensors = {k.removeprefix(prefix): v for k, v in tensors.items()}
    return tensors


def put(model: nn.Module, path: str, skip: list[str]) -> None:
    """Set a model's parameters and buffers from a file, in the model's precision.

    Tensors that the patterns of `skip` select keep their initial values. Raise Refusal
    if names or shapes differ.
    """
    tensors = read(path)
    state = {n: t for n, t in model.state_dict().items() if isinstance(t, Tensor)}
    names = list(dict.fromkeys([*state, *tensors]))
    left = matched("model.weights_skip", skip, names)
    given = {name: value for name, value in tensors.items() if name not in left}
    wanted = {name: value for name, value in state.items() if name not in left}
    if not given:
        raise Refusal(
            f"model.weights_skip = {skip} leaves nothing of model.weights = '{path}'; "
            "leave both out, or skip less"
        )
    counters = {name for name in wanted if name.endswith(".num_batches_tracked")}
    _same_names(path, [*given], [*wanted], counters)
    fitted = {
        name: _fitted(path, name, given[name], place)
        for name, place in wanted.items()
        if name in given
    }
    model.load_state_dict(fitted, strict=False)


def _same_names(
    path: str, given: list[str], wanted: list[str], optional: set[str]
) -> None:
    missing = [n for n in wanted if n not in given and n not in optional]
    strange = [n for n in given if n not in wanted]
    if not missing and not strange:
        return
    said = []
    if missing:
        said.append(f"does not hold {_listed(missing)}")
    if strange:
        hint = lookup.nearest(strange[0], missing)
        said.append(f"holds {_listed(strange)}{hint}, which the model does not have")
    raise Refusal(
        f"model.weights = '{path}' {' and '.join(said)}; it must be of the same model, "
        "or model.weights_skip must name the tensors to leave out"
    )


def _fitted(path: str, name: str, value: Tensor, place: Tensor) -> Tensor:
    """Convert a tensor of the file to the model's dtype.

    Raise Refusal if its shape or type differs, or if it is not finite.
    """
    here = f"model.weights = '{path}': {name}"
    if value.shape != place.shape:
        raise Refusal(
            f"{here} has shape {list(value.shape)}, and the model's has "
            f"{list(place.shape)}; change the model's options or the data, or set "
            f'model.weights_skip = ["{name}"] to leave it as it is initialized'
        )
    if value.is_quantized or value.is_floating_point() != place.is_floating_point():
        raise Refusal(
            f"{here} is of type {value.dtype}, and the model's of {place.dtype}; "
            "save the weights as floating-point numbers"
        )
    held = value.to(place.dtype)
    bad = int((~held.isfinite()).sum()) if held.is_floating_point() else 0
    if bad:
        raise Refusal(
            f"{here} holds {bad} of {held.numel()} numbers that are NaN or infinite "
            f"in {str(held.dtype).removeprefix('torch.')}; take a file from before "
            "training diverged"
        )
    if name.endswith("running_var") and held.numel() and bool((held < 0).any()):
        raise Refusal(
            f"{here} holds a negative variance, {float(held.min()):g}; take another "
            "file of weights"
        )
    return held
