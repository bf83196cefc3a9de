"""Which parameters a card speaks of: the same hash that certificates carry."""

from __future__ import annotations

import torch
from safetensors import safe_open

from troth import files
from troth.certificates.record import fingerprint
from troth.networks import flat
from troth.reports.cards._reading import saved
from troth.runs.inspect import Dossier

MOST = 2**33
"""Bytes of personal models that are read for their hashes."""


def hashes(run: Dossier) -> dict[int, str]:
    """Client → SHA-256 of what it predicts with; the shared model's is −1's.

    Empty where the models cannot be read, or are more than `MOST` bytes.
    """
    try:
        return _hashes(run)
    except Exception:  # a card without a hash says how to get one
        return {}


def _hashes(run: Dossier) -> dict[int, str]:
    assert run.run is not None and run.clients is not None
    net = run.run.network().float()
    w = flat.flatten(net)
    ids = [int(k) for k in run.clients["client"]]
    file = run.path / files.PERSONAL
    if not saved(run):
        return {}
    if not file.exists():
        return dict.fromkeys((-1, *ids), fingerprint(run.run.raw(net, 0)))
    if file.stat().st_size > MOST:
        return {}
    found = {-1: fingerprint(run.run.raw(net, 0))}
    with safe_open(file, "pt") as tensors:
        known = tensors.get_tensor("client").tolist()
        row = {k: i for i, k in enumerate(known)}
        rows, never = tensors.get_slice("parameters"), ""
        for k in ids:
            if k not in row and never:  # these have the first model, the same for all
                found[k] = never
                continue
            i = row.get(k, row[-1])
            v: torch.Tensor = rows[i : i + 1][0].float()
            flat.assign(net, v.to(w))
            found[k] = fingerprint(run.run.raw(net, k))
            if k not in row and run.part("features") == "none":
                never = found[k]
    return found
