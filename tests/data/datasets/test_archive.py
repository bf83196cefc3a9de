from __future__ import annotations

import io
import resource
import tarfile
import zipfile
from pathlib import Path

import pytest

from troth.data.datasets._archive import unpack
from troth.types import Refusal

FILES = {"set/a.bin": b"a" * 3000, "set/train/b.txt": b"b", "set/READ.me": b"no"}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """An archive of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("set")
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    mode = {".gz": "w:gz", ".bz2": "w:bz2", ".tar": "w"}[path.suffix]
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


KINDS = ["s.zip", "s.tar.gz", "s.tar.bz2", "s.tar"]


@pytest.mark.parametrize("kind", KINDS)
def test_takes_out_what_is_named_and_nothing_else(tmp_path, kind):
    archive = packed(tmp_path / kind, FILES)
    out = tmp_path / "out"
    unpack(archive, ("a.bin", "train/b.txt"), out)
    assert (out / "a.bin").read_bytes() == FILES["set/a.bin"]
    assert (out / "train" / "b.txt").read_bytes() == b"b"
    assert len([p for p in out.rglob("*") if p.is_file()]) == 2
    assert not archive.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_may_be_named_by_its_whole_path(tmp_path, kind):
    unpack(packed(tmp_path / kind, {"a": b"1", "x/a": b"2"}), ("x/a",), tmp_path / "o")
    assert (tmp_path / "o" / "x" / "a").read_bytes() == b"2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["../../a.bin", "/etc/a.bin", "s/../../a.bin"])
def test_paths_in_an_archive_lead_nowhere(tmp_path, kind, path):
    """It is written under the name that we give it."""
    out = tmp_path / "deep" / "out"
    unpack(packed(tmp_path / kind, {path: b"evil"}), ("a.bin",), out)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [out / "a.bin"]


@pytest.mark.parametrize("name", ["../a", "/a", "x/../../a", ""])
def test_we_name_no_file_outside(tmp_path, name):
    archive = packed(tmp_path / "s.tar", FILES)
    with pytest.raises(Refusal, match="leads out of"):
        unpack(archive, (name,), tmp_path / "out")


def test_links_and_devices_are_not_files(tmp_path):
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("set/a.bin")
            info.type, info.linkname = kind, str(tmp_path / "secret")
            tar.addfile(info)
    with pytest.raises(Refusal, match="does not hold a.bin"):
        unpack(tmp_path / "s.tar", ("a.bin",), tmp_path)
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_or_there_twice(tmp_path, kind):
    archive = packed(tmp_path / kind, FILES)
    with pytest.raises(Refusal, match="does not hold c.bin, d.bin$"):
        unpack(archive, ("a.bin", "d.bin", "c.bin"), tmp_path)
    archive = packed(tmp_path / kind, {"x/a.bin": b"", "y/a.bin": b""})
    with pytest.raises(Refusal, match="holds two files that end in a.bin"):
        unpack(archive, ("a.bin",), tmp_path)


def noise(size: int) -> bytes:
    import numpy as np

    return np.random.default_rng(0).bytes(size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut", "flipped", "html", "empty"])
def test_a_damaged_archive_is_deleted_and_said(tmp_path, kind, damage):
    archive = packed(tmp_path / kind, {"a.bin": noise(50_000), "b.bin": b""})
    content = bytearray(archive.read_bytes())
    if damage == "flipped":
        if kind == "s.tar":
            pytest.skip("a plain tar has no checksum of its content")
        content[20_000] ^= 255
    made = {"cut": content[:20_000], "html": b"<html>moved", "empty": b""}
    archive.write_bytes(made.get(damage, content))
    with pytest.raises(Refusal, match=r"is damaged \(.*\) and was deleted$"):
        unpack(archive, ("a.bin", "b.bin"), tmp_path / "out")
    assert not archive.exists() and not (tmp_path / "out" / "a.bin").exists()


def test_a_full_disk_is_not_the_fault_of_the_archive(tmp_path):
    archive = packed(tmp_path / "s.zip", {"a.bin": bytes(500_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(Refusal, match="cannot be written to"):
            unpack(archive, ("a.bin",), tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert archive.exists() and not (tmp_path / "out" / "a.bin").exists()
