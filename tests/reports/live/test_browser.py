"""`troth ui` in a real Chromium while a run trains, is killed, and ends."""

import contextlib
import csv
import json
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


POINTS = (
    "Number(document.querySelector('#growing path[data-count]')?.dataset.count || 0)"
)


def test_a_curve_grows_and_a_killed_run_is_shown_as_killed(browser, root, server):
    with training(root) as process:
        browser.see(f"{server.url}report?run=long")
        browser.until(f"{POINTS} > 0")
        first = browser.js(f"return {POINTS}")
        assert browser.text("#states").startswith("long: running, ")
        browser.until(f"{POINTS} > {first}")
        plot = "document.querySelector('#growing .plot')"
        drawn = f"{plot}.querySelector('svg').getBoundingClientRect().height"
        high = browser.js(f"return [{plot}.getBoundingClientRect().height, {drawn}]")
        assert high[0] > 100 and abs(high[0] - high[1]) < 1
        process.kill()
        process.wait()
        browser.until("document.querySelector('[data-state=killed]')")
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


ROWS = "[...document.querySelectorAll('#list tr[data-run]')]"
NAMES = f"return {ROWS}.map((r) => r.dataset.run)"


def test_runs_are_found_by_keys_and_compared(browser, root, server):
    """Everything that is chosen is in the address, and is there after a reload."""
    browser.see(server.url)
    names = ["<img src=x onerror=alert(1)>", "clean"]
    assert sorted(browser.js(NAMES)) == names and browser.count("img") == 0
    browser.press("/")
    browser.press(*"local")
    assert browser.js(NAMES) == names[:1]
    browser.js("document.querySelector('#search').select()")
    browser.press("\ue017")  # delete
    browser.focus("#list .scroll")
    for _ in range(2):
        browser.press("\ue015")  # arrow down
        browser.press(" ")
    browser.until("document.querySelector('#scatter .plot')")
    assert "2 selected" in browser.text("#chosen")
    browser.press("/")
    browser.press(*"state=finished")
    browser.js("document.querySelector('th[data-field=mean] button').click()")
    browser.js("document.querySelector('#choose input[value=std]').click()")
    address = browser.js("return location.href")
    browser.open(address)
    assert browser.js("return location.href") == address
    assert browser.count("#list tr[data-run] input:checked") == 2
    assert browser.count("#list td[data-field=std]") == 2
    assert browser.js("return document.querySelector('#search').value")
    values = "document.querySelectorAll('#list td[data-field=mean]')"
    means = browser.js(f"return [...{values}].map((v) => Number(v.textContent))")
    assert means == sorted(means, reverse=True) and len({*means}) == 2
    browser.focus("#show")
    browser.press("\ue007")
    browser.until("document.querySelector('#card h3')")
    assert browser.text("h1") == "Report of 2 runs"
    browser.js("document.querySelector('header a').click()")
    browser.until("document.querySelector('#scatter .plot')")  # the list as it was
    assert browser.js("return location.href") == address
    assert browser.log("browser") == []


def test_the_list_as_a_csv_file(browser, root, serving, tmp_path):
    """It has the runs that are found, sorted; no name is a formula."""
    shutil.move(root / "<img src=x onerror=alert(1)>", root / '=1+1,"a"')
    browser.cdp(
        "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path)
    )
    with serving(root) as server:
        browser.see(f"{server.url}?sort=mean&down=1&q=state%3Dfinished")
        shown = "document.querySelectorAll('#list td[data-field=mean]')"
        means = browser.js(f"return [...{shown}].map((v) => Number(v.textContent))")
        browser.focus("#csv")
        browser.press("\ue007")
        file = tmp_path / "runs.csv"
        for _ in range(200):
            if file.exists():
                break
            time.sleep(0.05)
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["mean"]) for row in rows] == means and len(means) == 2
    assert {row["id"] for row in rows} == {"clean", '\'=1+1,"a"'}
    local = next(row for row in rows if row["id"] != "clean")
    assert local["personalizer"] == "local" and local["left"] == ""
    summary = json.loads((root / "clean" / "summary.json").read_text())
    clean = next(row for row in rows if row["id"] == "clean")
    wanted = summary["personal"]["accuracy_mean"]
    assert clean["mean"] == str(round(wanted, 3))
    assert browser.log("browser") == []


def test_the_comparison_shows_what_the_files_say(browser, root, server):
    shutil.copytree(root / "clean", root / "grid" / "a")
    other = shutil.copytree(root / "clean", root / "grid" / "b")
    text = (other / "experiment.toml").read_text()
    (other / "experiment.toml").write_text(text.replace("seed = 0", "seed = 7"))
    table = (other / "clients.csv").read_text().splitlines()
    column = table[0].split(",").index("accuracy")
    cells = [line.split(",") for line in table]
    for row in cells[1:]:
        row[column] = "1.0" if row[0] in ("0", "1") else row[column]
    (other / "clients.csv").write_text("\n".join(map(",".join, cells)) + "\n")
    browser.see(f"{server.url}?run=grid/a&run=grid/b")
    browser.until("document.querySelector('#scatter .plot')")
    before = [row[column] for row in [r.split(",") for r in table][1:3]]
    assert all(float(value) < 1 for value in before)
    heads = "[...document.querySelectorAll('#settings th')].map((h) => h.textContent)"
    wanted = ["run", "seed", "mean", "worst 10 %", "shared mean"]
    assert browser.js(f"return {heads}") == wanted
    malicious = [row[1] for row in cells[1:]].count("True")
    better = 2 - [row[1] for row in cells[1:3]].count("True")
    words = f"“b” is better than “a” for {better} benign clients, worse for 0 and "
    words += f"equal for {12 - malicious - better}."
    assert words in browser.text("#scatter")
    assert "The two runs differ in seed" in browser.text("#scatter")
    assert browser.count("#curves path[data-run]") == 4
    assert browser.count("#parallel path.line") == 2
    browser.focus("#scatter .plot")
    browser.press("\ue014")  # arrow right
    assert browser.text("#scatter .readout").startswith("Client 0")
    browser.press("\ue007")
    browser.until("document.querySelector('#card h3')?.textContent === 'Client 0'")
    urls = {url.split("/")[2] for url in browser.requests()}
    assert urls == {server.url.split("/")[2]}


def test_groups_fold_and_running_runs_are_on_top(browser, root, server):
    for name in ("a", "b"):
        shutil.copytree(root / "clean", root / "grid" / name)
    (root / "grid" / "a" / "summary.json").unlink()
    ended = '{"state": "failed", "why": "ValueError: <img src=x>"}'
    (root / "grid" / "a" / "ended.json").write_text(ended)
    with training(root):
        browser.see(server.url)
        browser.until(f"({ROWS})[0].dataset.run === 'long'")
        left = "document.querySelector('tr[data-run=long] [data-field=left]')"
        browser.until(f"/\\d+ (s|min|h|d)/.test({left}?.textContent)", 30)
    assert browser.text(".group span").startswith(" 2 runs, 1 failed; ")
    row = "document.querySelector('tr[data-run=\"grid/a\"]')"
    assert browser.js(f"return {row}.textContent").count("ValueError: <img src=x>") == 1
    browser.focus(".group button")
    browser.press("\ue007")
    assert browser.js(f"return {row}") is None
    assert "shut=grid" in browser.js("return location.search")
    assert browser.js("return document.activeElement.textContent") == "grid"
    browser.js("document.querySelector('.group input').click()")
    browser.until("document.querySelector('#chosen').textContent.includes('2 sel')")
    browser.until("document.querySelector('#states [data-state=failed]')")
    assert browser.log("browser") == []


def test_three_thousand_runs_answer_at_once(browser, told, tmp_path, serving):
    first = told(tmp_path / "g00" / "r0000", [0.5, 1.0])
    for name in ("clients.csv", "rounds.jsonl", "personal.safetensors"):
        (first / name).unlink()
    for i in range(1, 3000):
        shutil.copytree(first, tmp_path / f"g{i % 100:02}" / f"r{i:04}")
    with serving(tmp_path) as server:
        server.pages.runs()  # measured in test_server.py
        browser.see(server.url)
        assert browser.count("#list tr.group") == 100
        search = (
            "const s = document.querySelector('#search'); s.value = 'r0017';"
            "const began = performance.now(); s.dispatchEvent(new Event('input'));"
            "document.body.offsetHeight; return performance.now() - began"
        )
        assert min(browser.js(search) for _ in range(5)) < 200
        assert browser.js(NAMES) == ["g17/r0017"]


COMPARED = "?run=clean&run=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", [COMPARED, "report?run=clean"])
def test_axe_finds_nothing(browser, root, server, axe, path, dark):
    if path != COMPARED:
        (root / "clean" / "summary.json").unlink()  # so that there is a part that grows
    browser.look(1200, 900, dark)
    browser.open(server.url + path)
    picture = "#scatter svg" if path == COMPARED else "#growing svg"
    browser.until(f"document.querySelector('{picture}')")
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
    browser.until(f"{cell} === 'killed'")
    browser.focus("tr[data-run=clean] input")
    shutil.copytree(root / "clean", root / "new")
    browser.until("document.querySelector('tr[data-run=new]')")
    focus = "return document.activeElement.closest('tr')?.dataset.run"
    assert browser.js(focus) == "clean"  # a new row does not move the focus
    shutil.rmtree(root / "new")
    browser.until("!document.querySelector('tr[data-run=new]')")
    assert browser.js("return document.documentElement.scrollWidth") <= 360
