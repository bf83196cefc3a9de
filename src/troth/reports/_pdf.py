"""Write a page as PDF, by a Chromium of this machine."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from troth.types import Refusal

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("chrome", "microsoft-edge", "msedge"),
)
"""Commands of browsers that can print without a window."""
_QUIET = (
    *("--headless", "--disable-gpu", "--disable-extensions", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--no-first-run", "--no-pdf-header-footer", "--virtual-time-budget=20000"),
)
_SECONDS = 120


def pdf(page: Path) -> Path:
    """Print a page to a file that ends in `.pdf` instead of `.html`.

    Args:
        page: The page.

    Returns:
        The PDF.

    Raises:
        Refusal: There is no Chromium, or it wrote no PDF.
    """
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    by_hand = f"open {page} in any browser and print it to a PDF"
    if found is None:
        raise Refusal(
            f"a PDF needs Chromium, Chrome or Edge; install one, or {by_hand}"
        )
    out = page.resolve().with_suffix(".pdf")
    out.unlink(missing_ok=True)
    root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        more = [f"--user-data-dir={profile}", f"--print-to-pdf={out}"]
        asked = [found, *_QUIET, *root, *more, page.resolve().as_uri()]
        try:
            done = subprocess.run(asked, capture_output=True, timeout=_SECONDS)
            why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        except (OSError, subprocess.TimeoutExpired) as error:
            why = [str(error)]
    if not out.exists():
        raise Refusal(f"{found} wrote no PDF ({' '.join(why)[:200]}); {by_hand}")
    return out
