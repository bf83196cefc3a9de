"""Keys of sites, as `ssh-keygen -t ecdsa -b 384` makes them."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    load_ssh_private_key,
    load_ssh_public_key,
)
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes

from troth.types import Refusal

_BROKEN = (ValueError, TypeError, OSError, UnsupportedAlgorithm)


def private(file: Path | None) -> EllipticCurvePrivateKey:
    """A site's private key; without a file one for this time only."""
    if file is None:
        return generate_key_pairs()[0]
    try:
        key = load_ssh_private_key(file.read_bytes(), None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ValueError("it is of another kind")
    except _BROKEN as error:
        raise _none(file, "private", error) from None
    return key


def public(file: Path) -> bytes:
    """A site's public key, in the form in which Flower tells it."""
    try:
        key = load_ssh_public_key(file.read_bytes())
        if not isinstance(key, EllipticCurvePublicKey):
            raise ValueError("it is of another kind")
    except _BROKEN as error:
        raise _none(file, "public", error) from None
    return public_key_to_bytes(key)


def _none(file: Path, kind: str, error: Exception) -> Refusal:
    return Refusal(
        f"{file} is no {kind} key of a site ({error}); make one by ssh-keygen -t ecdsa "
        "-b 384 -f KEY -N ''"
    )
