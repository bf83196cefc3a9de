"""The page in a real Chromium, as a person would use it."""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import troth
from troth import files, reports
from troth.runs import compare

pytestmark = pytest.mark.slow("drives a real Chromium")

SIZES = [(1200, 900, False), (1200, 900, True), (360, 740, False)]
MANY = 10_000


@pytest.fixture(scope="module")
def page(examined, tmp_path_factory):
    """Runs with certificates and an audit."""
    out = tmp_path_factory.mktemp("page") / "x.html"
    reports.report([examined / "attacked", examined / "clean"], out)
    return out.as_uri()


def quiet(browser):
    """Nothing in the console, and nothing asked of anyone but the page itself."""
    assert browser.log("browser") == []
    assert len(browser.requests()) == 1


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
def test_it_opens_quietly_and_fits(browser, page, width, height, dark):
    browser.see(page, width, height, dark)
    quiet(browser)
    assert browser.js("return document.documentElement.dataset.ready") == "yes"
    assert browser.js("return document.documentElement.scrollWidth") <= width
    paper = browser.js("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
def test_axe_finds_nothing(browser, page, axe, width, height, dark):
    browser.see(page, width, height, dark)
    browser.js(axe)
    passes, violations = browser.later(
        "const done = arguments[0]; axe.run().then((r) => done(["
        "r.passes.length, r.violations.map((v) => [v.id, v.impact, v.nodes[0].html])]))"
    )
    assert passes > 10 and violations == []


def hidden(browser, *every):
    shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
    return all(browser.js(shown, css) == "none" for css in every)


def test_paper_has_all_rows(browser, told, tmp_path):
    """On a screen 50 of 120; on paper all, and nothing folded; then as before."""
    place = told(tmp_path / "run", np.linspace(0, 1, 120), test=np.full(120, 119))
    browser.see(reports.report([place]).page.as_uri())
    rows = "document.querySelectorAll('.clients tbody tr').length"
    folded = "document.querySelectorAll('details:not([open])').length"
    note = "document.querySelector('.clients .printed')"
    assert browser.js(f"return [{rows}, {folded} > 0]") == [50, True]
    browser.look(794, 1123, media="print")
    browser.until(f"{rows} === 120")
    assert browser.js(f"return [{folded}, {note}.textContent]") == [0, ""]
    assert hidden(browser, "form", "nav", ".copy", ".up", ".controls")
    wide = "[...document.querySelectorAll('table')].map((t) => t.scrollWidth)"
    assert max(browser.js(f"return {wide}")) <= 794
    browser.look(1200, 900)
    browser.until(f"{rows} === 50")
    assert browser.js(f"return {folded} > 0")
    column = "document.querySelector('.clients select')"
    browser.js(f"{column}.value = '3'; {column}.dispatchEvent(new Event('change'))")
    browser.type(".clients input", ">0.9")
    browser.look(794, 1123, media="print")
    browser.until(f"{rows} === 12")
    said = "Printed: 12 of 120 rows; 12 rows match the filter “>0.9”."
    browser.until(f"{note}.textContent === '{said}'")
    assert not hidden(browser, ".clients .printed")
    browser.look(1200, 900)
    browser.until(f"{note}.textContent === ''")


def test_the_printer_gets_all_rows(browser, told, tmp_path):
    if not shutil.which("pdftotext"):
        pytest.skip("needs pdftotext")
    values = np.linspace(0, 1, 120).round(3)
    place = told(tmp_path / "run", values, test=np.full(120, 1000))
    browser.see(reports.report([place]).page.as_uri())
    browser.pdf(tmp_path / "x.pdf")
    done = subprocess.run(
        ["pdftotext", "-layout", tmp_path / "x.pdf", "-"], capture_output=True
    )
    text = done.stdout.decode()
    firsts = {line.split()[0] for line in text.splitlines() if "benign" in line}
    assert {str(k) for k in range(120)} <= firsts
    sheets = [sheet for sheet in text.split("\f") if sheet.count("benign") > 5]
    assert len(sheets) > 1 and all("role" in sheet for sheet in sheets)  # headings
    sort = "document.querySelector('.clients th button').textContent"
    assert browser.js(f"return {sort}") == "client"  # and they sort again


def test_every_part_leads_back_up(browser, page):
    browser.see(page)
    browser.js("document.documentElement.style.scrollBehavior = 'auto'")
    browser.js("document.querySelector('nav a[href=\"#origins\"]').click()")
    browser.until("window.scrollY > 500")
    browser.focus('#origins a[href="#top"]')
    browser.press("\ue007")
    browser.until("window.scrollY < 50")


def column(browser, place, at):
    cells = f'document.querySelectorAll("{place} tbody tr td:nth-child({at})")'
    return browser.js(f"return [...{cells}].map((c) => c.textContent)")


def test_tables_sort_and_filter_from_the_keyboard(browser, page):
    browser.see(page)
    place = "#runs-table"
    browser.js(f"document.querySelector('{place} th:nth-child(4) button').focus()")
    before = column(browser, place, 4)
    browser.press("\ue007")
    assert column(browser, place, 4) == sorted(before)
    browser.press(" ")
    assert column(browser, place, 4) == sorted(before, reverse=True)
    sort = f"document.querySelector('{place} th:nth-child(4)').ariaSort"
    assert browser.js(f"return {sort}") == "descending"
    place = ".clients[data-deck='0']"
    browser.type(f"{place} input", "malicious")
    assert column(browser, place, 2) == ["malicious"] * 3
    assert browser.js("return document.activeElement.type") == "search"
    assert browser.text(f"{place} [role=status]") == "rows 1 to 3 of 3"
    assert browser.count("#runs-table input") == 0  # four rows need no filter


def test_the_card_of_a_client(browser, page, examined):
    """Type in the field, then Enter: the card has the sentences of the JSON."""
    browser.see(page)
    ask(browser, "7")
    assert browser.text("#card h3") == "Client 7"
    texts = browser.js(
        "return [...document.querySelectorAll('#card [data-rule]')]"
        ".map((p) => p.textContent.replace(/ Copy$/, ''))"
    )
    out = Path(page.removeprefix("file://")).with_suffix(".cards.json")
    cards = json.loads(out.read_text())["cards"]
    mine = [c for c in cards if c["client"] == 7 and c["run"] != "clean"]
    (card,) = [c for c in mine if c["run"] == (c["use"]["run"] or mine[0]["run"])]
    assert [s["text"] for s in card["sentences"] if s["text"] not in texts] == []
    assert texts[0] == card["sentences"][0]["text"]
    cells = "[...document.querySelectorAll('.qualities tr')]"
    rows = dict(
        browser.js(
            f"return {cells}.map((r) => [r.cells[0].textContent, "
            "r.cells[1].firstChild.textContent])"
        )
    )
    assert rows["accuracy"] == compare.number(card["value"])
    assert rows["gain"] == compare.signed(card["value"] - card["shared"], "accuracy")
    rank = f"{card['rank']} of {card['of']}"
    assert rows["fairness rank"] == rank
    browser.js(
        "const s = document.querySelector('#card select'); s.value = '1';"
        "s.dispatchEvent(new Event('change'))"
    )
    local = next(c for c in mine if c["run"].endswith("=local"))
    number = "document.querySelector('[data-quality=accuracy] .number').firstChild"
    assert browser.js(f"return {number}.textContent") == compare.number(local["value"])
    assert browser.js("return location.hash") == "#client=7&deck=0"
    browser.js("document.querySelector('nav a[href=\"#client\"]').click()")
    browser.js("window.dispatchEvent(new HashChangeEvent('hashchange'))")
    assert browser.text("#asked") == ""  # the link to the part asks for none
    ask(browser, "99")
    asked = browser.text("#asked")
    assert asked == "There is no client 99. Clients are 0 to 11."
    assert browser.text("#card") == ""
    assert browser.js("return location.hash") == "#client"


def ask(browser, text):
    """Ask for a client's card with this text in the field."""
    field = "document.querySelector('#which')"
    browser.js(f"{field}.value = arguments[0]; {field}.focus()", text)
    browser.press("\ue007")


def test_numbers_of_clients_and_what_is_none(browser, page):
    for text in ("07", " 7 ", "Client 07"):
        browser.see(page)
        ask(browser, text)
        assert browser.text("#card h3") == "Client 7", text
        assert browser.js("return document.querySelector('#which').value") == "7"
    for text in ("", "-1", "1.5", "7x", "1e1", "<b>", "9" * 40):
        browser.see(f"{page}#client=3&deck=0")
        ask(browser, text)
        asked = browser.text("#asked")
        assert asked.startswith(f"There is no client {text}. Clients are 0"), text
        assert browser.count("#card *") == 0
        browser.js("document.querySelector('#after').click()")
        assert browser.text("#card h3") == "Client 4"  # the next one


def test_commands_are_copied_from_the_keyboard(browser, told, tmp_path):
    place = told(tmp_path / "a run-of 3", [0.5, 0.8, 1.0])
    browser.see(reports.report([place]).page.as_uri())
    for part in ("#relied", "#card .use", "#proven"):
        code = f"document.querySelector('{part} code.command')"
        button, wanted = (
            f"{code}.nextElementSibling",
            browser.js(f"return {code}.textContent"),
        )
        browser.js(f"{button}.focus()")
        assert browser.js("return document.activeElement.textContent") == "Copy"
        browser.press("\ue007")
        browser.until(f"{button}.textContent === 'Copied'")
        assert browser.js(f"return document.activeElement === {button}")
        status = "document.querySelector('main > [role=status].apart').textContent"
        assert browser.js(f"return {status}") == "Command copied."
        assert pasted(browser) == wanted and f"'{place}'" in wanted
    quiet(browser)


def pasted(browser):
    """What the clipboard holds, as one would find out."""
    field = "document.querySelector('#which')"
    browser.js(f"{field}.value = ''; {field}.focus()")
    browser.chord("\ue009", "v")
    return browser.until(f"{field}.value")


def test_a_browser_without_a_clipboard_copies_too(browser, page):
    browser.see(page)
    browser.js("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    code = "document.querySelector('#card .use code.command')"
    browser.js(f"{code}.nextElementSibling.focus()")
    browser.press(" ")
    browser.until(f"{code}.nextElementSibling.textContent === 'Copied'")
    assert pasted(browser) == browser.js(f"return {code}.textContent")
    assert browser.count("textarea") == 0


def test_a_command_is_not_broken_at_hyphens(browser, page):
    """Each of its words stands on one line, unless it is wider than the page."""
    for width in (360, 1200):
        browser.see(page, width)
        tall = browser.js(
            "return [...document.querySelectorAll('#card .use code.command span')]"
            ".filter((s) => s.textContent.length < 30)"
            ".map((s) => [s.textContent, s.getBoundingClientRect().height])"
        )
        one = dict(tall)["troth"]
        assert len(tall) > 3 and [w for w, high in tall if high > 1.5 * one] == []


def test_a_filter_in_any_column(browser, page):
    """Whatever column is chosen, the rows that are left are those of its value."""
    browser.see(page)
    place = '.clients[data-deck="0"]'
    read = (
        f"return [...document.querySelectorAll('{place} tbody tr')]"
        ".map((r) => [...r.cells].map((c) => c.textContent))"
    )
    every = browser.js(read)
    assert browser.count(f"{place} select option") == 1 + len(every[0])
    for at in range(len(every[0])):
        value = every[len(every) // 2][at]
        browser.js(
            f"const p = document.querySelector('{place}');"
            "const [i, s] = [p.querySelector('input'), p.querySelector('select')];"
            "s.value = arguments[0]; s.dispatchEvent(new Event('change'));"
            "i.value = arguments[1]; i.dispatchEvent(new Event('input'));",
            str(at),
            value,
        )
        left = browser.js(read)
        assert left and left == [row for row in every if row[at] == value], (at, value)


def test_a_card_has_an_address(browser, page):
    browser.see(f"{page}#client=3&deck=1")
    assert browser.text("#card h3") == "Client 3"
    assert browser.text("#card option") == "clean"
    browser.open(f"{page}#client=<img src=x onerror=alert(1)>&deck=9999")
    assert browser.count("#client img") == 0
    quiet(browser)


def test_a_card_is_one_screen_and_one_sheet(browser, examined, tmp_path, axe):
    """The page of one client, and the PDF that the command writes of it."""
    places = [examined / "attacked"]
    made = reports.report(places, tmp_path / "c.html", card=1, pdf=True)
    browser.see(made.page.as_uri(), 1200, 1000)
    quiet(browser)
    assert browser.text(".card h2") == "Client 1"
    assert browser.js("return document.documentElement.scrollHeight") <= 1000
    browser.js(axe)
    found = browser.later(
        "const done = arguments[0]; axe.run().then((r) => done("
        "r.violations.map((v) => [v.id, v.nodes[0].html])))"
    )
    assert found == [] and browser.count(".qualities tr") == 9
    whole = reports.report(places, tmp_path / "w.html").page
    cells = "[...document.querySelectorAll('.card .qualities td')]"
    read = f"return {cells}.map((c) => c.innerHTML)"
    one = browser.js(read)
    browser.open(f"{whole.as_uri()}#client=1&deck=0")
    assert browser.js(read) == one  # the same as on the page of all clients
    if shutil.which("pdftotext"):
        done = subprocess.run(["pdftotext", made.pdf, "-"], capture_output=True)
        text = done.stdout.decode()
        assert text.count("\f") == 1 and "fairness rank" in text


@pytest.fixture(scope="module")
def pages(told, tmp_path_factory):
    """Pages of the quickstart, of a grid of 24 runs, and of 1,000 clients."""
    root = tmp_path_factory.mktemp("pages")
    troth.run(out=root / "quickstart")
    found = {"quickstart": [root / "quickstart"], "grid": [], "thousand": []}
    rng, kinds = np.random.default_rng(0), ("none", "local", "ditto", "finetune")
    for n, part, more in ((20, "grid", (0, 1, 2)), (1000, "thousand", (0,))):
        for seed, attack in itertools.product(more, ("none", "sign_flip")):
            shared, bad = rng.integers(0, 11, n) / 10, np.arange(n) % 5 == 4
            for kind in kinds if part == "grid" else kinds[:3]:
                own = shared if kind == "none" else rng.integers(3, 11, n) / 10
                place = root / part / f"personalizer={kind},attack={attack},seed={seed}"
                about = {"personalizer": kind, "attack": attack, "seed": seed}
                found[part].append(
                    told(place, own, shared=shared, hostile=bad, **about)
                )
    assert len(found["grid"]) == 24
    return {
        name: reports.report(runs, root / f"{name}.html").page.as_uri()
        for name, runs in found.items()
    }


@pytest.mark.parametrize("name", ["quickstart", "grid", "thousand"])
def test_pages_of_every_size(browser, pages, axe, name):
    """Light, dark, narrow and on paper: quiet, not too wide, nothing for axe."""
    for width, height, dark in SIZES:
        browser.see(pages[name], width, height, dark)
        quiet(browser)
        assert browser.js("return document.documentElement.scrollWidth") <= width
        browser.js(axe)
        found = browser.later(
            "const done = arguments[0]; axe.run().then((r) => done("
            "r.violations.map((v) => [v.id, v.nodes[0].html])))"
        )
        assert found == [], (width, dark)
    assert min(painted(browser, pages[name]) for _ in range(3)) < 1000
    browser.look(794, 1123, media="print")
    browser.until("!document.querySelector('details:not([open])')")
    assert browser.js("return document.documentElement.scrollWidth") <= 794
    browser.look(1200, 900)


def test_names_do_nothing(browser, told, tmp_path):
    names = ("<img src=x onerror=alert(1)>", "<script>alert(2)")
    more = {"hostile": [1, 0, 0]}
    places = [told(tmp_path / name, [0.5, 0.8, 1.0], **more) for name in names]
    places.append(told(tmp_path / "other", [0.6] * 3, personalizer="local", **more))
    browser.see(reports.report(places, tmp_path / "x.html").page.as_uri())
    quiet(browser)
    assert browser.count("img") == 0
    assert all(name in browser.text("#card") for name in names)


def painted(browser, uri):
    """Milliseconds until the first paint."""
    browser.open(uri)
    return browser.until("performance.getEntriesByName('first-paint')[0]?.startTime")


def least(browser, work):
    """The least of five times in ms: others may be at work here."""
    return browser.js(
        "const took = []; for (let i = 0; i < 5; i++) { const t = performance.now();"
        f"(() => {{ {work} }})(); document.body.offsetHeight;"
        "took.push(performance.now() - t); } return Math.min(...took)"
    )


def test_dots_show_their_client_and_open_its_card(browser, page, examined):
    """By a pointer and by keys; what is shown is what clients.csv has."""
    browser.see(page)
    plot = "document.querySelector('.world:not([hidden]) .story .plot')"
    browser.js("document.documentElement.style.scrollBehavior = 'auto'")
    browser.js(f"{plot}.focus()")
    for _ in range(3):
        browser.press("\ue014")  # right
    shown = browser.text(".world:not([hidden]) .readout")
    place = examined / "attacked"
    tables = {
        "ditto, lam=auto": place / "personalizer=ditto+lam=auto",
        "local": place / "personalizer=local",
        "no personalizer": place / "personalizer=none",
    }
    said = re.findall(r"(?:: |; )([^;:]+) ([\d.]+)", shown)
    assert shown.startswith("Client 2 (malicious): ") and len(said) == 3
    for name, value in said:
        table = files.read_csv(tables[name] / "clients.csv")
        assert value == compare.number(table["accuracy"][2])
    assert browser.js(f"return {plot}.ariaValueText") == shown
    browser.press("\ue007")
    assert browser.text("#card h3") == "Client 2"
    browser.js("window.scrollTo(0, 0)")
    browser.until("window.scrollY === 0")
    spot = browser.js(
        f"const b = {plot}.getBoundingClientRect(); const p = {plot}.querySelector("
        "'[data-role=benign]').getAttribute('d').match(/M(\\S+) ([^h]+)h/);"
        "return [b.left + p[1] / 1000 * b.width, b.top + p[2] / 1000 * b.height]"
    )
    browser.click(*spot)
    browser.until("document.querySelector('#card h3').textContent !== 'Client 2'")
    quiet(browser)


def test_a_pointer_reads_the_pictures(browser, page):
    browser.see(page)
    for kind, says in (
        ("lines", r"round 8: no personalizer 0\.\d{3}; local "),
        ("heat", r"Client \d+, round \d: [01] times"),
        ("audit", r"Client \d+: [+−]0\.\d{3}, 95 % interval [+−]"),
    ):
        at = "document.querySelector(arguments[0]).getBoundingClientRect()"
        browser.js(f"document.querySelector('.{kind} .plot').scrollIntoView()")
        browser.js(
            f"const b = {at}; const at = {{clientX: b.right - 2, clientY: b.top + 2}};"
            "document.querySelector(arguments[0])"
            ".dispatchEvent(new PointerEvent('pointermove', at))",
            f".{kind} .plot",
        )
        css = f"figure:has(.{kind}) .readout"
        assert re.match(says, browser.text(css)), browser.text(css)


def test_a_federation_is_selected(browser, page):
    """The answer, the card and the table of clients are of the same federation."""
    browser.see(page)
    assert browser.count(".world:not([hidden])") == 1
    browser.js(
        "const d = document.querySelector('#deck'); d.value = '1';"
        "d.dispatchEvent(new Event('change'))"
    )
    assert browser.text(".world:not([hidden]) h3") == "“clean”"
    assert browser.count("#clients > [data-deck]:not([hidden])") == 1
    assert "“clean”" in browser.text(".clients:not([hidden]) caption")


def test_ten_thousand_clients(browser, told, tmp_path):
    """A tenth of them malicious; at most 2000 of them are printed."""
    own, shared = np.random.default_rng(0).integers(0, 21, (2, MANY)) / 20
    bad = np.arange(MANY) % 10 == 9
    more = {"hostile": bad, "corruption": "auto", "dropped": bad * 2}
    told(tmp_path / "run", own, shared=shared, test=np.full(MANY, 20), **more)
    crowd = reports.report([tmp_path / "run"]).page
    assert crowd.stat().st_size < 10_000_000
    browser.look(1200, 900)
    uri = crowd.as_uri()
    assert min(painted(browser, uri) for _ in range(3)) < 1000
    quiet(browser)
    place = ".clients"
    assert len(column(browser, place, 1)) == 50
    table = files.read_csv(crowd.parent / "clients.csv")
    first = [compare.number(float(v)) for v in table["accuracy"][:50]]
    assert column(browser, place, 4) == first
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    rows = "document.querySelectorAll('.clients tbody tr').length"
    assert browser.js(f"return {rows}") == 2000
    note = browser.text(".clients .printed")
    assert note.startswith("Printed: 2000 of 10000 rows; at most 2000 are")
    browser.js("window.dispatchEvent(new Event('afterprint'))")
    assert browser.js(f"return {rows}") == 50
    sort = f"document.querySelector('{place} th:nth-child(4) button').click()"
    assert least(browser, sort) < 100
    assert column(browser, place, 4) == ["0.000"] * 50
    spot = "document.querySelector('.story .plot').getBoundingClientRect()"
    move = (
        f"const b = {spot}; const at = {{clientX: b.left + b.width / 2,"
        "clientY: b.top + b.height * 0.31}; document.querySelector('.story .plot')"
        ".dispatchEvent(new PointerEvent('pointermove', at))"
    )
    assert least(browser, move) < 100
    assert re.match(r"Client \d+ \(benign\): run [01]\.", browser.text(".readout"))
    assert least(browser, "document.querySelector('#after').click()") < 100
    browser.type(f"{place} input", "9998")
    assert column(browser, place, 1) == ["9998"]
    assert browser.count("*") < 5000
    browser.open(f"{crowd.as_uri()}#client=9998")
    shown = compare.number(float(table["accuracy"][9998]))
    assert shown in browser.text("#card")


def test_the_theme_can_be_switched(browser, page):
    """It follows the system until the button is pressed; paper is always white."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    browser.see(page, dark=True)
    dark, white = browser.js(paper), "rgb(255, 255, 255)"
    themes = []
    for _ in range(3):
        browser.js("document.querySelector('#theme').click()")
        themes.append((browser.text("#theme"), browser.js(paper)))
    names = ("Theme: dark", "Theme: light", "Theme: system")
    assert themes == [*zip(names, (dark, white, dark), strict=True)] and dark != white
    browser.js("document.querySelector('#theme').click()")
    browser.look(794, 1123, dark=True, media="print")
    browser.until(f"({paper.removeprefix('return ')}) === '{white}'")
    browser.see(page)
    assert browser.text("#theme") == "Theme: dark"  # it is kept
    assert browser.js(paper) == dark
    browser.js("localStorage.clear()")
