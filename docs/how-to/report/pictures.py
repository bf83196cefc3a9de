"""Take the pictures of the guide to reports, in a real Chromium.

    python docs/how-to/report/pictures.py

It trains the quickstart, certifies and audits a few clients, and opens its report.
"""

import base64
import io
import re
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


def design(folder: Path) -> Path:
    """Write a page that shows the variables of the style sheet in both themes."""
    style = (HERE.parents[2] / "src/troth/reports/style.css").read_text("utf-8")
    names = re.findall(r"--([a-z]+\d?): light-dark", style)
    sizes = ("small", "body", "lead", "title", "number")
    swatches = "".join(
        f'<span style="background: var(--{name})"></span><code>{name}</code>'
        for name in names
    )
    texts = "".join(
        f'<p style="font-size: var(--{size}); margin: 0">{size}: mean 0.925</p>'
        for size in sizes
    )
    theme = f"<div>{swatches}</div><div>{texts}</div>"
    themes = "".join(
        f'<section style="color-scheme: {name}"><h2>{name}</h2>{theme}</section>'
        for name in ("light", "dark")
    )
    more = """
    body { display: grid; grid-template-columns: 1fr 1fr; padding: 0 }
    section { background: var(--paper); color: var(--ink); padding: 1rem }
    h2 { margin: 0; border: 0 }
    div { display: grid; grid-template-columns: repeat(3, 2.5rem 1fr); gap: 0.4rem }
    div + div { display: block; margin-top: 1rem }
    span { height: 1.6rem; border: 1px solid var(--line); border-radius: 4px }
    """
    ready = "<html data-ready=yes><meta charset=utf-8>"
    page = folder / "design.html"
    page.write_text(f"{ready}<style>{style}{more}</style>{themes}", "utf-8")
    return page


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
            browser.see(design(folder).as_uri(), 1000, 420)
            keep(browser, "../../reference/design.png")
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
