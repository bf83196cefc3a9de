"""What the tests of several data sets share."""

import gzip
import os
import struct

import pytest

from troth.data.datasets._files import held

REAL = os.environ.get("TROTH_DATA")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No data but what a test makes: no variable, an empty cache, no download."""
    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TROTH_OFFLINE", "1")


@pytest.fixture
def real_files():
    """Gives the folder of a set's files under $TROTH_DATA, or skips."""

    def found(source):
        place = held(source, REAL) if REAL else None
        return place or pytest.skip(f"no {source.folder} under $TROTH_DATA")

    return found


@pytest.fixture
def real(request, real_files):
    """$TROTH_DATA, where the files of the `SOURCE` in the test's module are there."""
    real_files(request.module.SOURCE)
    return str(REAL)


@pytest.fixture(scope="session")
def write_idx():
    """Writes an array as a gzipped IDX file."""

    def write(path, values, kind=8):
        shape = struct.pack(f">{values.ndim}I", *values.shape)
        content = bytes([0, 0, kind, values.ndim]) + shape + values.tobytes()
        path.write_bytes(gzip.compress(content, 1))

    return write
