"""What the tests of several data sets share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REAL = os.environ.get("TROTH_DATA")


@pytest.fixture
def offline(monkeypatch, tmp_path) -> None:
    """No data but what a test makes: no variable, an empty cache, no download."""
    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TROTH_OFFLINE", "1")


@pytest.fixture
def real(request) -> str:
    """$TROTH_DATA, where the set of files that the test's module names is there."""
    folder = request.module.SOURCE.folder
    if not REAL or not (Path(REAL) / folder).is_dir():
        pytest.skip(f"no {folder} under $TROTH_DATA")
    return REAL
