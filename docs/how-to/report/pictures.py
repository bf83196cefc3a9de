"""Take the pictures of the guide to reports, in a real Chromium.

    python docs/how-to/report/pictures.py

It trains the quickstart and a grid, certifies and audits a few clients, and opens their
reports, and one with 10,000 clients.
"""

import base64
import contextlib
import io
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import numpy as np
from PIL import Image

from troth.reports.live import Server

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))
from chromium import Browser  # noqa: E402
from told import written  # noqa: E402


def troth(folder: Path, *arguments: str) -> None:
    """Run a command as a user would."""
    code = "from troth.cli.app import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, check=True)


def few(picture: Image.Image) -> Image.Image:
    """Return the picture in few colors, so that its file is small."""
    return picture.quantize(96, Image.Quantize.MAXCOVERAGE)


def keep(browser: Browser, name: str) -> None:
    """Keep what the window shows, in few colors."""
    time.sleep(1)  # scrolling is smooth
    taken = base64.b64decode(browser.cdp("Page.captureScreenshot")["data"])
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    few(picture).save(HERE / name, optimize=True)


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


def many(folder: Path, n: int = 10_000) -> None:
    """Write runs with many clients, whose results are made up."""
    rng = np.random.default_rng(0)
    skill = rng.beta(8, 3, n)
    steps = {"none": -0.25, "local": -0.03, "ditto": 0.05}
    values = {
        name: np.round((skill + step + rng.normal(0, 0.05, n)).clip(0, 1) * 20) / 20
        for name, step in steps.items()
    }
    bad, size = np.arange(n) % 10 == 9, np.full(n, 20)
    more = {"shared": values["none"], "hostile": bad, "corruption": "auto"}
    for name, own in values.items():
        place = folder / "many" / name
        written(place, own, personalizer=name, test=size, **more)


def live(runs: Path, browser: Browser) -> None:
    """Serve runs as `troth ui` does, and select those of the quickstart."""
    names = ("personalizer=none", "personalizer=local", "personalizer=ditto+lam=0.1")
    chosen = urllib.parse.urlencode([("run", f"quickstart/{name}") for name in names])
    with contextlib.chdir(runs.parent), Server(Path("runs"), port=0) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        browser.see(f"{server.url}?{chosen}&shut=grid", 1280, 2080)
        browser.until("document.querySelector('#scatter .plot')")
        browser.until("document.querySelector('.spark')")
        keep(browser, "live.png")
        server.shutdown()


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as place:
        folder, run = Path(place), "runs/quickstart/personalizer=ditto+lam=0.1"
        troth(folder, "run", "--out", "runs/quickstart", "--quiet")
        smoothing = ["--transform", "pixel", "--sigma", "0.25", "--clients", "20"]
        samples = ["--samples", "adaptive", "--radii", "0,0.25,0.5,1", "--n", "10000"]
        troth(folder, "certify", run, *smoothing, *samples, "--quiet")
        troth(folder, "audit", run, "--quiet")
        quick = ["report", "runs/quickstart", "--pdf", "--out"]
        troth(folder, *quick, "whole.html")
        troth(folder, *quick, "card.html", "--card", "7")
        (folder / "grid.toml").write_text(GRID)
        troth(folder, "run", "grid.toml", "--out", "runs/grid", "--quiet")
        troth(folder, "report", "runs/grid", "--out", "grid.html")
        many(folder)
        runs = [f"many/{name}" for name in ("none", "local", "ditto")]
        troth(folder, "report", *runs, "--out", "many.html")
        browser = Browser(folder / "profile")
        try:
            for name, page, *screen in (
                ("quickstart", "whole.html", 1100, 860),
                ("card", "whole.html#client=7", 1100, 940),
                ("dark", "whole.html", 1100, 860, True),
                ("narrow", "whole.html", 360, 1000),
                ("grid", "grid.html", 1100, 860),
                ("many", "many.html", 1100, 860),
                ("../../reference/design", design(folder).name, 1000, 400),
            ):
                browser.see(f"file://{folder}/{page}", *screen)
                keep(browser, f"{name}.png")
            browser.see(f"file://{folder}/whole.html", 1100, 860)
            browser.js("document.querySelector('#proven').scrollIntoView()")
            keep(browser, "examined.png")
            live(folder / "runs", browser)
        finally:
            browser.close()
        for name in ("card", "whole"):
            pages = ["-r", "60", "-png", "-l", "2", f"{name}.pdf", f"paper-{name}"]
            subprocess.run(["pdftoppm", *pages], cwd=folder, check=True)
        sheets = [Image.open(file) for file in sorted(folder.glob("paper*.png"))]
        joined = Image.new("RGB", (sum(s.width for s in sheets), sheets[0].height))
        for k, sheet in enumerate(sheets):
            joined.paste(sheet, (sum(s.width for s in sheets[:k]), 0))
        joined.quantize(96, Image.Quantize.MAXCOVERAGE).save(
            HERE / "paper.png", optimize=True
        )


GRID = """
data = "digits"
filter = [{name = "clip"}]
partition = {name = "classes", clients = 20, per_client = 5}
model = {name = "mlp", widths = [16]}
train = {rounds = 40, cohort = 10, steps = 3, batch = 16, lr = 0.2}
evaluate = {every = 5}
adversary = {fraction = 0.2}

[grid]
personalizer = ["none", "local", "ditto", "finetune"]
attack = ["none", "sign_flip"]
seed = [0, 1, 2]
"""

if __name__ == "__main__":
    main()
