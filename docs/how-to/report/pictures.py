"""Take the pictures of the guide to reports, in a real Chromium.

    python docs/how-to/report/pictures.py

It trains the quickstart, certifies and audits a few clients, and opens its report.
"""

import base64
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))
from chromium import Browser  # noqa: E402


def troth(folder: Path, *arguments: str) -> None:
    """Run a command as a user would."""
    code = "from troth.cli.app import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, check=True)


def keep(browser: Browser, name: str) -> None:
    """Keep what the window shows, in few colors."""
    time.sleep(1)  # scrolling is smooth
    taken = base64.b64decode(browser.cdp("Page.captureScreenshot")["data"])
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    picture.quantize(64).save(HERE / name, optimize=True)


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as place:
        folder, run = Path(place), "runs/quickstart/personalizer=ditto+lam=0.1"
        troth(folder, "run", "--out", "runs/quickstart", "--quiet")
        troth(folder, "report", "runs/quickstart", "--out", "plain.html")
        smoothing = ["--transform", "pixel", "--sigma", "0.25", "--clients", "20"]
        samples = ["--samples", "adaptive", "--radii", "0,0.25,0.5,1", "--n", "10000"]
        troth(folder, "certify", run, *smoothing, *samples, "--quiet")
        troth(folder, "audit", run, "--quiet")
        troth(folder, "report", "runs/quickstart", "--out", "whole.html")
        browser = Browser(folder / "profile")
        try:
            browser.see(f"file://{folder}/plain.html#client=7", 1000, 1250)
            keep(browser, "quickstart.png")
            browser.see(f"file://{folder}/plain.html", 1000, 1000, dark=True)
            keep(browser, "dark.png")
            browser.see(f"file://{folder}/plain.html#client=7", 360, 740)
            keep(browser, "narrow.png")
            browser.see(f"file://{folder}/whole.html", 1000, 1000)
            browser.js("document.querySelector('#proven').scrollIntoView()")
            keep(browser, "examined.png")
            browser.pdf(folder / "paper.pdf")
            pages = ["-r", "72", "-png", "-l", "2", "paper.pdf", "paper"]
            subprocess.run(["pdftoppm", *pages], cwd=folder, check=True)
        finally:
            browser.close()
        sheets = [Image.open(file) for file in sorted(folder.glob("paper*.png"))]
        joined = Image.new("RGB", (sum(s.width for s in sheets), sheets[0].height))
        for k, sheet in enumerate(sheets):
            joined.paste(sheet, (k * sheet.width, 0))
        joined.quantize(64).save(HERE / "paper.png", optimize=True)


if __name__ == "__main__":
    main()
