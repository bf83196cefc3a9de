"""Keys of sites."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from troth.types import Refusal


@pytest.fixture
def keys() -> Any:
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    from troth.deployment.flower import keys

    return keys


def test_a_pair_belongs_together(tmp_path: Path, keys: Any, certified: Any) -> None:
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    certified(tmp_path, ["a", "b"])
    own = public_key_to_bytes(keys.private(tmp_path / "a").public_key())
    assert own == keys.public(tmp_path / "a.pub")
    assert own != keys.public(tmp_path / "b.pub")


def test_without_a_file_a_key_is_made_up(keys: Any) -> None:
    assert keys.private(None).private_numbers() != keys.private(None).private_numbers()


def test_what_is_no_key(tmp_path: Path, keys: Any, certified: Any) -> None:
    other = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "e")]
    subprocess.run(other, check=True, timeout=60)
    with pytest.raises(Refusal, match="e.pub is no public key .* of another kind"):
        keys.public(tmp_path / "e.pub")
    with pytest.raises(Refusal, match="e is no private key .* of another kind"):
        keys.private(tmp_path / "e")
    (tmp_path / "x").write_text("nothing of the kind")
    for read in (keys.public, keys.private):
        with pytest.raises(Refusal, match="make one by ssh-keygen -t ecdsa -b 384"):
            read(tmp_path / "x")
