"""Keys of sites."""

import subprocess

import pytest
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from troth.deployment.flower import keys
from troth.types import Refusal


def test_a_pair_belongs_together(tmp_path, certified):
    """And its public half has the form in which Flower compares it."""
    certified(tmp_path, ["a", "b"])
    own = public_key_to_bytes(keys.private(tmp_path / "a").public_key())
    assert own == keys.public(tmp_path / "a.pub")
    assert own != keys.public(tmp_path / "b.pub")


def test_without_a_file_a_key_is_made_up():
    one, two = (keys.private(None).private_numbers() for _ in range(2))
    assert one != two


def test_what_is_no_key(tmp_path, certified):
    other = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "e")]
    subprocess.run(other, check=True, timeout=60)
    (tmp_path / "x").write_text("nothing of the kind")
    for read, name, words in (
        (keys.public, "e.pub", "e.pub is no public key .* of another kind"),
        (keys.private, "e", "e is no private key .* of another kind"),
        (keys.public, "x", "make one by ssh-keygen -t ecdsa -b 384"),
        (keys.private, "x", "make one by ssh-keygen -t ecdsa -b 384"),
    ):
        with pytest.raises(Refusal, match=words):
            read(tmp_path / name)
