"""PDFs, without a browser: what happens if there is none, or one that fails."""

import pytest

from troth.reports import _pdf
from troth.types import Refusal


def test_without_a_browser_it_says_how(tmp_path, monkeypatch):
    monkeypatch.setattr(_pdf.shutil, "which", lambda name: None)
    words = "a PDF needs Chromium, Chrome or Edge; install one, or open .*x.html in any"
    with pytest.raises(Refusal, match=words):
        _pdf.pdf(tmp_path / "x.html")


def test_a_browser_that_writes_nothing(tmp_path, monkeypatch):
    """An older PDF does not pass for the new one."""
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho first >&2\necho it crashed >&2\nexit 1\n")
    browser.chmod(0o755)
    monkeypatch.setattr(_pdf.shutil, "which", lambda name: str(browser))
    (tmp_path / "x.pdf").write_bytes(b"old")
    with pytest.raises(Refusal, match=r"wrote no PDF \(it crashed\); open"):
        _pdf.pdf(tmp_path / "x.html")
    assert not (tmp_path / "x.pdf").exists()


def test_what_the_browser_is_asked(tmp_path, monkeypatch):
    browser = tmp_path / "chromium"
    browser.write_text(
        '#!/bin/sh\nfor a in "$@"; do case $a in --print-to-pdf=*) '
        'echo "$@" > "${a#*=}";; esac; done\n'
    )
    browser.chmod(0o755)
    monkeypatch.setattr(_pdf.shutil, "which", lambda name: str(browser))
    out = _pdf.pdf(tmp_path / "a b.html")
    assert out == tmp_path / "a b.pdf"
    asked = out.read_text()
    assert "--headless" in asked and asked.rstrip().endswith("/a%20b.html")
