from __future__ import annotations

import errno
import gzip
from pathlib import Path

import pytest

from troth import files
from troth.files import alone, digest_of, on_disk
from troth.types import Refusal


def test_digests_as_others_print_them(tmp_path):
    """Of « abc »: RFC 1321, appendix A.5, and FIPS 180-2, appendix B.1."""
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    assert digest_of(file, "md5:") == "md5:900150983cd24fb0d6963f7d28e17f72"
    sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_of(file, "sha256:anything") == f"sha256:{sha}"
    file.write_bytes(gzip.compress(b"abc", mtime=0))
    found = digest_of(file, "gunzip.md5:")
    assert found == "gunzip.md5:900150983cd24fb0d6963f7d28e17f72"


@pytest.mark.parametrize(
    "content", [b"abc", gzip.compress(bytes(999), mtime=0)[:-5], None]
)
def test_what_cannot_be_read_has_no_digest(tmp_path, content):
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    assert digest_of(tmp_path / "a", "gunzip.md5:") == "unreadable"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free some space"), (errno.EDQUOT, "free some space")]
    + [(errno.EACCES, "make it writable"), (errno.EROFS, "make it writable")],
)
def test_a_disk_that_fails_is_refused_with_a_remedy(number, remedy):
    with (
        pytest.raises(Refusal, match=f"^/x cannot be written to .*: {remedy}, or set"),
        on_disk(Path("/x")),
    ):
        raise OSError(number, "no")


def test_alone_makes_the_folder_and_lets_go(tmp_path):
    for _ in range(2):
        with alone(tmp_path / "a" / "b"):
            assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(ZeroDivisionError), alone(tmp_path / "a"):
        raise ZeroDivisionError
    with alone(tmp_path / "a"):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="cannot be written to"), alone(tmp_path / "file"):
        pass


def test_a_lock_is_a_sign_of_life(tmp_path: Path) -> None:
    file = tmp_path / "x"
    assert not files.busy(file)
    with file.open("ab") as one:
        assert not files.busy(file)
        assert files.hold(one)
        assert files.busy(file) and files.busy(file)
        with file.open("ab") as other:
            assert not files.hold(other)
    assert not files.busy(file)
