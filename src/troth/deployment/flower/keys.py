"""Read the keys by which sites identify themselves to the server.

They are made by `ssh-keygen -t ecdsa -b 384`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from troth.types import Refusal


def private(file: Path | None) -> ec.EllipticCurvePrivateKey:
    """Read a site's private key; if `file` is None, make a temporary key."""
    if file is None:
        return ec.generate_private_key(ec.SECP384R1())
    kind = ec.EllipticCurvePrivateKey
    key: ec.EllipticCurvePrivateKey = _read(
        file, "private", kind, lambda data: load_ssh_private_key(data, None)
    )
    return key


def public(file: Path) -> bytes:
    """Read a site's public key, and return it as Flower sends it (see `sent`)."""
    return sent(_read(file, "public", ec.EllipticCurvePublicKey, load_ssh_public_key))


def sent(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return a public key in Flower's message format, which is PEM."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _read(file: Path, kind: str, type_: type, load: Callable[[bytes], Any]) -> Any:
    try:
        key = load(file.read_bytes())
        if not isinstance(key, type_):
            raise ValueError("it is a key of another kind")
    except (ValueError, TypeError, OSError, UnsupportedAlgorithm) as error:
        raise Refusal(
            f"{file} is no {kind} key of a site ({error}); make one by ssh-keygen -t "
            "ecdsa -b 384 -f KEY -N ''"
        ) from None
    return key
