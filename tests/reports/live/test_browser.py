"""`troth ui` in a real Chromium while a run trains, is killed, and ends."""

import contextlib
import shutil
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow("drives a real Chromium")

MAIN = "from troth.cli.app import main; main()"
LONG = """
[data]
name = "digits"
[partition]
name = "iid"
clients = 8
[model]
name = "linear"
[train]
rounds = 100000
steps = 1
batch = 8
lr = 0.1
[evaluate]
every = 20
[checkpoint]
every = 100
[engine]
how = "vmap"
chunk = 8
device = "cpu"
"""


@pytest.fixture
def root(tmp_path, examined):
    place = tmp_path / "runs"
    shutil.copytree(examined / "clean", place / "clean")
    local = examined / "attacked" / "personalizer=local"
    shutil.copytree(local, place / "<img src=x onerror=alert(1)>")
    return place


@pytest.fixture
def server(root, serving):
    with serving(root) as made:
        yield made


@contextlib.contextmanager
def training(root, *more):
    file = root.parent / "long.toml"
    file.write_text(LONG)
    command = [sys.executable, "-c", MAIN, "run", str(file), "-q", *more]
    null = subprocess.DEVNULL
    out = ["--out", str(root / "long")]
    process = subprocess.Popen([*command, *out], stderr=null, stdout=null)
    try:
        while not (root / "long" / "rounds.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


POINTS = "Number(document.querySelector('#growing polyline')?.dataset.count || 0)"


def test_a_curve_grows_and_a_killed_run_is_said_to_be_stopped(browser, root, server):
    with training(root) as process:
        browser.see(f"{server.url}report?run=long")
        browser.until(f"{POINTS} > 0")
        first = browser.js(f"return {POINTS}")
        assert browser.text("#states").startswith("long: in progress, ")
        browser.until(f"{POINTS} > {first}")
        process.kill()
        process.wait()
        browser.until("document.querySelector('[data-state=stopped]')")
        assert "To continue: troth resume " in browser.text("#states")
        browser.focus("#states button.copy")
        browser.press("\ue007")
        copy = "document.querySelector('#states button.copy').textContent"
        browser.until(f"{copy} === 'Copied'")
    assert browser.log("browser") == []


def test_a_finished_run_shows_its_cards(browser, root, server):
    with training(root, "--set", "train.rounds=1200") as process:
        browser.see(f"{server.url}report?run=long&run=clean")
        assert browser.count("#live") == 1
        process.wait(120)
        browser.until("!document.querySelector('#live')", 30)  # it reloads itself
        browser.until("document.querySelector('#card h3')")


def test_the_list_is_searched_and_runs_are_compared(browser, root, server):
    browser.see(server.url)
    rows = "[...document.querySelectorAll('#list tbody tr')]"
    names = f"return {rows}.map((r) => r.dataset.run)"
    assert browser.js(names) == ["<img src=x onerror=alert(1)>", "clean"]
    assert browser.count("img") == 0
    for box in (1, 2):
        at = f"#list tbody tr:nth-child({box}) input"
        browser.js(f"document.querySelector('{at}').focus()")
        browser.press(" ")
    browser.focus("#show")
    browser.press("\ue007")
    browser.until("document.querySelector('#card h3')")
    assert browser.text("h1") == "Report of 2 runs"
    browser.open(f"{server.url}report?run=clean#client=3")
    browser.until("document.querySelector('#card h3').textContent === 'Client 3'")
    assert browser.log("browser") == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", ["", "report?run=clean"])
def test_axe_finds_nothing(browser, root, server, axe, path, dark):
    (root / "clean" / "summary.json").unlink()  # so that there is a part that grows
    browser.look(1200, 900, dark)
    browser.open(server.url + path)
    if path:
        browser.until("document.querySelector('#growing svg')")
    browser.js(axe)
    found = browser.later(
        "const done = arguments[0]; axe.run().then((r) => "
        "done([r.passes.length, r.violations.map((v) => v.id)]))"
    )
    assert found[0] > 10 and found[1] == []


def test_the_list_keeps_up(browser, root, server):
    browser.look(360, 740)
    browser.open(server.url)
    (root / "clean" / "summary.json").unlink()
    cell = "document.querySelector('tr[data-run=clean] [data-field=state]').textContent"
    browser.until(f"{cell} === 'stopped'")
    shutil.copytree(root / "clean", root / "new")
    news = "document.querySelector('#news').textContent"
    browser.until(f"{news}.startsWith('New runs: 1. Removed runs: 0.')")
    assert browser.js("return document.documentElement.scrollWidth") <= 360
    for i in range(60):  # more than one page shows
        shutil.copytree(root / "clean", root / f"r{i:03}")
    browser.open(server.url)
    rows = "document.querySelectorAll('#list tbody tr').length"
    assert browser.js(f"return {rows}") == 50
    browser.type("#list input[type=search]", "r059")
    assert browser.js(f"return {rows}") == 1
