"""The page without a browser: its numbers are the files', its texts are texts."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import troth
from troth import files, reports
from troth.evaluation.paired import interval, paired
from troth.reports import _charts, _front, _marks, _tables, _words, cards
from troth.reports.cards import _worlds
from troth.runs import compare, inspect
from troth.types import Refusal

EVIL = "<img src=x onerror=alert(1)>"
WORSE = '"><svg onload=alert(2)>&amp;{{ 7*7 }}{0}$x_'


class Page(HTMLParser):
    """Tags with attributes, and the text of every cell."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.cells = []
        self.texts = []
        self._cell = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "dd"):
            self._cell = dict(attrs)
            self.cells.append((self._cell, ""))

    def handle_endtag(self, tag):
        self._cell = None if tag in ("td", "dd") else self._cell

    def handle_data(self, data):
        self.texts.append(data)
        if self._cell is not None:
            attrs, text = self.cells[-1]
            self.cells[-1] = (attrs, text + data)

    @property
    def words(self):
        return " ".join(" ".join(self.texts).split())


def made(out, *paths):
    """The page, what its script reads, and its source."""
    text = reports.report(paths, out).page.read_text("utf-8")
    (packed,) = re.findall(r'id="data">([^<]*)</script>', text)
    return Page(text), json.loads(gzip.decompress(base64.b64decode(packed))), text


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Where the page of all four runs lies, with `page.cards.json` beside it."""
    return tmp_path_factory.mktemp("whole") / "page.html"


@pytest.fixture(scope="module")
def whole(examined, page):
    return made(page, examined / "attacked", examined / "clean")


def test_every_number_is_the_one_in_its_file(whole):
    keyed = [(attrs, text) for attrs, text in whole[0].cells if "data-key" in attrs]
    assert len(keyed) == 4 * 12 + 2 * 3  # of runs, and of the first screen
    for attrs, text in keyed:
        value = json.loads(Path(attrs["data-file"]).read_text())
        for part in attrs["data-key"].split("."):
            value = value[part]
        if attrs["data-key"] == "seconds":
            assert text == f"{value:.1f}"
        else:
            assert text == (str(value) if type(value) is int else compare.number(value))


def test_the_table_of_clients_is_clients_csv(examined, whole):
    table = whole[1]["decks"][0]["table"]
    assert [len(column) for column in table["columns"]] == [12] * len(table["heads"])
    sources = [source for source in table["from"] if "/" in source]
    assert len(sources) >= 3 + 5
    for source, column in zip(table["from"], table["columns"], strict=True):
        if "/" in source:
            file, _, name = source.partition(":")
            values = files.read_csv(examined / "attacked" / file)[name].tolist()
            shown = compare.number if "accuracy" in name else "{:.0f}".format
            assert column == [shown(value) for value in values]


def test_the_table_of_clients_has_the_scores_that_the_experiment_names(tmp_path):
    tree = {
        "data": "digits",
        "partition": {"name": "iid", "clients": 4},
        "train": {"rounds": 1, "steps": 1},
        "evaluate": {"scores": ["f1", {"name": "calibration_error", "bins": 5}]},
        "personalizer": "local",
    }
    (run,) = troth.run(tree, out=tmp_path / "run")
    table = made(tmp_path / "page.html", run.path)[1]["decks"][0]["table"]
    found = dict(zip(table["from"], table["columns"], strict=True))
    values = files.read_csv(run.path / "clients.csv")
    for score in ("f1", "shared_f1", "calibration_error", "shared_calibration_error"):
        shown = [f"{value:.4g}" for value in values[score]]
        assert found[f"run/clients.csv:{score}"] == shown
    heads = [head["name"] for head in table["heads"]]
    assert len({*heads}) == len(heads) and "f1, run" in heads


def test_sentences_of_the_script_are_those_of_the_json(whole, page):
    said = json.loads(page.with_name("page.cards.json").read_text())["cards"]
    rules = whole[1]["rules"]
    found = [
        [cards.words((rules[rule][0], *more)) for rule, *more in (*choice, *every[i])]
        for deck in whole[1]["decks"]
        for i, choice in enumerate(deck["choices"])
        for every in deck["cards"]
    ]
    assert found == [[s["text"] for s in card["sentences"]] for card in said]


def column(run, name):
    return files.read_csv(run / "clients.csv")[name]


def test_the_answer_is_that_of_the_files(examined, whole):
    """The first sentence and the first screen, computed again from clients.csv."""
    one, two = (examined / "attacked" / f"personalizer={n}" for n in ("local", DITTO))
    benign = column(one, "malicious") == 0
    local, ditto = column(one, "accuracy")[benign], column(two, "accuracy")[benign]
    found, shared = paired(local, ditto), column(two, "shared_accuracy")[benign]
    texts = [compare.signed(v, "accuracy") for v in found[:3]]
    assert found.low < 0 < found.high
    names = "“ditto,lam=auto”", "“local”"
    assert (
        "{} is first, but {} may be as good: higher accuracy for ".format(*names)
        + f"{found.better} of 9 clients, lower for {found.worse}. Mean difference "
        f"{texts[0]}; the 95 % interval, {texts[1]} to {texts[2]}, contains 0 "
        f"(p = {compare.number(found.p_value)})."
    ) in whole[0].words
    tiles = [text for attrs, text in whole[0].cells]
    mean, half = interval(ditto)
    ends = [compare.number(v) for v in (mean - half, mean + half)]
    assert tiles[0] == compare.number(mean)
    assert tiles[1] == f"95 % interval {ends[0]} to {ends[1]}, 9 benign clients"
    gain = paired(shared, ditto)
    assert tiles[6] == compare.signed(gain.mean_difference, "accuracy")
    ends = [compare.signed(v, "accuracy") for v in (gain.low, gain.high)]
    assert tiles[7].startswith(
        f"95 % interval {ends[0]} to {ends[1]}; gain over training alone "
    )
    clean = json.loads((examined / "clean" / "summary.json").read_text())
    without = clean["personal"]["accuracy_mean"]
    assert tiles[8] == compare.signed(mean - without, "accuracy")
    assert compare.number(without) in tiles[9] and "3 of 12 clients" in tiles[9]


DITTO = "ditto+lam=auto"


def test_sentences_above_the_parts(examined, whole):
    words, ditto = whole[0].words, f"attacked/personalizer={DITTO}"
    under, without = (
        compare.number(json.loads(text)["personal"]["accuracy_mean"])
        for text in (
            (examined / name / "summary.json").read_text() for name in (ditto, "clean")
        )
    )
    run = examined / "clean"
    bad = column(run, "malicious") == 1
    gain = column(run, "accuracy") - column(run, "shared_accuracy")
    first = ", ".join(map(str, np.flatnonzero((gain < 0) & ~bad)[:5]))
    gain = gain[~bad]
    lost, won = ((gain < 0).sum(), (gain > 0).sum())
    marked = ", ".join(f"{k}" for k in np.flatnonzero(bad))
    for said in (
        f"Under attack “ditto,lam=auto” has mean accuracy {under}. Without the attack "
        f"(“clean”) it is {without}, a change of ",
        f"Malicious: 3 of 12 clients (clients {marked}). They",
        f"“clean”: {lost} of 9 clients lose by their own model (it has less accuracy "
        f"than the shared model): clients {first} and {lost - 5} more. {won} gain, "
        f"{9 - lost - won} equal.",
        "of 9 audited clients",
    ):
        assert said in words
    assert "No run here" not in words


def test_what_the_server_did_is_counted(examined, whole):
    texts = [text for _, text in whole[0].cells]
    t = files.read_csv(examined / "clean" / "clients.csv")
    for verdict in ("clipped", "chosen"):
        at = max(i for i, text in enumerate(texts) if text == verdict)
        assert texts[at - 1] == "clean"
        for who, text in zip((1, 0), texts[at + 1 :], strict=False):
            mine = t["malicious"] == who
            some = ", ".join(f"{k}" for k in np.flatnonzero(mine & (t[verdict] > 0)))
            counts = t[verdict][mine].sum(), t["asked"][mine].sum()
            assert text == "{:.0f} of {:.0f}: ".format(*counts) + f"clients {some}"


class Marks(HTMLParser):
    """Attributes of the paths and plots of a picture."""

    def __init__(self, html):
        super().__init__()
        self.paths, self.plots = [], []
        self.feed(str(html))

    def handle_starttag(self, tag, attrs):
        if tag == "path":
            self.paths.append(dict(attrs))
        elif "data-counts" in dict(attrs) or "data-changes" in dict(attrs):
            self.plots.append(dict(attrs))


def test_every_client_is_a_dot_at_its_value(told, tmp_path):
    own, bad = [0.1, 0.5, 0.9, 0.3], [0, 0, 1, 0]
    places = [told(tmp_path / "a", own, shared=[0.2] * 4, hostile=bad)]
    (deck,) = cards.decks(_settled(places))
    marks = Marks(_charts.strips(deck)).paths
    found = {
        (int(m["data-column"]), m["data-role"]): [
            int(x) for x in re.findall(r"M(\S+) ", m["d"])
        ]
        for m in marks
        if "data-role" in m
    }
    assert found[3, "benign"] == [100, 500, 300] and found[3, "malicious"] == [900]
    assert len(found[4, "benign"]) == 3  # equal values: above each other
    (same,) = [m["d"] for m in marks if m.get("data-column") == "4"][:1]
    assert len({*re.findall(r" (\S+)h0", same)}) == 3


def _settled(places):
    runs = inspect.opened(places)
    reports.page._color(runs)
    return runs


def test_a_swarm_stays_within_the_axis():
    """Without hiding a dot, also next to another group."""
    x = np.array([0.0] * 20 + [500.0] * 3 + [940.0] * 9 + [1000.0] * 25)
    at, row = _charts.swarm(x, np.zeros(len(x), int), 8, 5)
    assert at.min() >= 0 and at.max() <= 1000
    assert len({*zip(at.round(3), row.round(3), strict=True)}) == len(x)


def test_a_swarm_hides_no_dot():
    rng = np.random.default_rng(0)
    x = np.sort(rng.choice([100.0, 300.0, 307.0, 500.0], 60))
    at, row = _charts.swarm(x, x < 0, 8.0, 6)
    assert len({*zip(at.round(3), row, strict=True)}) == 60
    assert np.abs(at - x).max() < 40 and np.abs(row).max() <= 3
    bad = np.arange(9) == 4  # a malicious client is at the outer end
    _, row = _charts.swarm(np.zeros(9), bad, 8.0, 9)
    assert np.abs(row[4]) == 4
    assert len(_charts.swarm(np.zeros(0), np.zeros(0), 8.0, 6)[0]) == 0


@pytest.mark.parametrize(
    ("values", "most", "ticks"),
    [
        ([0.13, 0.98], 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ([-0.03, 0.05], 1, ["−0.04", "−0.02", "0", "0.02", "0.04", "0.06"]),
        ([1.0, 1.0], 1, None),
        ([np.nan], np.inf, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_scales_are_round_and_hold_all_values(values, most, ticks):
    found = _marks.scale(values, most=most)
    assert ticks is None or [text for _, text in found.ticks()] == ticks
    at = found.to(values)
    assert np.isnan(values).all() or (found.low <= min(values) <= found.high <= 1)
    assert found.low < found.high and not (at < 0).any() and not (at > 1000).any()


def test_pictures_have_the_numbers_of_the_files(examined):
    runs = _settled([examined / "attacked", examined / "clean"])
    ditto, clean = runs[2], runs[3]
    lines = [
        p for p in Marks(_charts.rounds(runs, "accuracy")).paths if "data-values" in p
    ]
    said = {(p["data-name"]): json.loads(p["data-values"]) for p in lines[:4]}
    for run in (ditto, clean):
        every = [
            json.loads(x) for x in (run.path / "rounds.jsonl").read_text().splitlines()
        ]
        own = [
            (x["round"] + 1, x["evaluation"]["personal"])
            for x in every
            if "evaluation" in x
        ]
        wanted = [[k, compare.number(v["accuracy_mean"])] for k, v in own]
        assert said[compare.short(run.label)] == wanted
    proven = [p for p in Marks(_charts.certified(ditto)).paths if "data-values" in p]
    curve = ditto.certified[0].curves["personal"]
    texts = [text for _, text in json.loads(proven[0]["data-values"])]
    assert texts == [compare.number(v) for v in curve.accuracy.mean(axis=0)]
    (plot,) = Marks(_charts.audit(ditto)).plots
    t = files.read_csv(ditto.path / "audit.csv")
    for client, *three in json.loads(plot["data-changes"]):
        (i,) = np.flatnonzero(t["client"] == client)
        names = ("change", "change_low", "change_high")
        assert three == [compare.signed(t[name][i], "accuracy") for name in names]
    for verdict, plot in zip(
        ("clipped", "chosen"), Marks(_charts.verdicts(clean)).plots, strict=True
    ):
        rows = json.loads(plot["data-rows"])
        counts = np.array(json.loads(plot["data-counts"])).sum(axis=1)
        assert (column(clean.path, verdict)[rows] == counts).all()
        assert counts.sum() == column(clean.path, verdict).sum()


def test_the_design_is_documented():
    """Every variable of the style sheet, and every one that is used is defined."""
    root = Path(reports.__file__).parents[3]
    style = (root / "src/troth/reports/style.css").read_text("utf-8")
    page = (root / "docs/reference/design.md").read_text("utf-8")
    known = {*re.findall(r"--([a-z]+(?:-?\d)?):", style)}
    ends = {"s0", "s7", "gap-1", "gap-6"}  # of the two ranges
    named = {n for n in known if not re.fullmatch(r"(s|gap-)\d", n)} | ends
    assert [name for name in named if f"`{name}`" not in page] == []
    for file in ("style.css", "_charts.py", "_marks.py", "card.js", "live.js"):
        text = (root / "src/troth/reports" / file).read_text("utf-8")
        assert {*re.findall(r"var\(--([a-z]+(?:-?\d)?)\)", text)} <= known, file


def _contrast(a, b):
    """Contrast by WCAG 2 of two colors such as #1f2a33."""
    light = []
    for color in (a, b):
        v = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        v = np.where(v <= 0.03928, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
        light.append(float(v @ [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(light) / min(light)


def test_colors_can_be_told_apart():
    """Text and marks from the background, in both themes."""
    style = (Path(reports.__file__).parent / "style.css").read_text("utf-8")
    found = re.findall(r"--([a-z]+\d?): light-dark\((#\w{6}), (#\w{6})\)", style)
    both = {name: ends for name, *ends in found}
    for name, least in [("ink", 4.5), ("soft", 4.5), ("link", 4.5)]:
        for back in ("paper", "panel", "mark"):
            for one, other in zip(both[name], both[back], strict=True):
                assert _contrast(one, other) >= least, (name, back)
    for i in range(8):
        for one, other in zip(both[f"s{i}"], both["paper"], strict=True):
            assert _contrast(one, other) >= 3, i


def test_settings_that_differ(examined):
    found = _tables.settings(inspect.opened([examined / "attacked"]))
    assert found.heads == ["run", "personalizer.name"]
    texts = [[cell.text for cell in row] for row in found.rows]
    kinds = [
        ("no personalizer", "none"),
        ("local", "local"),
        ("ditto,lam=auto", "ditto"),
    ]
    assert texts == [[*kind] for kind in kinds]
    both = _tables.settings(inspect.opened([examined / "attacked", examined / "clean"]))
    assert both.heads == ["run", "personalizer.name", "corruption.name", "attack.name"]
    assert _tables.settings(inspect.opened([examined / "clean"])).rows == []


def test_pairs_are_those_of_the_clients(examined, whole):
    """All pairs to decide between; one that is twice in them stands once."""
    one, two = (
        files.read_csv(examined / "attacked" / f"personalizer={name}" / "clients.csv")
        for name in ("none", "local")
    )
    benign = one["malicious"] == 0
    found = paired(one["accuracy"][benign], two["accuracy"][benign])
    texts = [text for _, text in whole[0].cells]
    own, none = "ditto,lam=auto", "no personalizer"
    pairs = (f"local − {none}", f"{own} − {none}", f"{own} − local")
    for pair in (*pairs, "clean − the shared model"):  # no run is that model
        assert texts.count(pair) == 1
    at = texts.index(pairs[0])
    numbers = (found.mean_difference, found.low, found.high)
    wanted = [compare.signed(value, "accuracy") for value in numbers]
    wanted += [str(v) for v in (found.better, found.worse, found.equal)]
    assert (
        texts[at + 9] == "1"
        and "With one seed, a comparison is about" in whole[0].words
    )
    assert texts[at + 3 : at + 9] == wanted
    heads = ["a − b", "mean difference", "low", "high", "better", "worse", "equal"]
    heads += ["seeds", "p"]
    assert {*heads} <= {*whole[0].texts}


def test_seeds_enter_one_comparison(told, tmp_path):
    """Own models and shared models of three seeds: one row each, corrected by Holm."""
    own, shared = np.array([0.8, 0.9, 0.7]), np.array([0.5, 0.6, 0.45])
    places = []
    for seed in range(3):
        more = {"shared": shared, "seed": seed}
        places.append(told(tmp_path / f"ditto,seed={seed}", own + seed / 100, **more))
    runs = inspect.opened(places)
    compared = _tables.compared(runs, cards.decks(runs))
    (pair,) = (each for each in compared if each["kind"] == "paired")
    assert pair["label"] == "ditto − the shared model"
    assert (pair["seeds"], pair["n"], pair["comparisons"]) == (3, 3, 1)
    assert pair["mean_difference"] == pytest.approx(np.mean(own - shared) + 0.01)


def test_many_models_stand_beside_what_they_must_be_worth(told, tmp_path):
    shared = [0.5, 0.6]
    places = [told(tmp_path / "alone", [0.7, 0.7], shared=shared, personalizer="local")]
    for i in range(6):
        lam = {"name": "ditto", "lam": i / 10}
        values = [0.8, 0.8 + i / 100]
        places += [told(tmp_path / f"r{i}", values, shared=shared, personalizer=lam)]
    made = [(a.label, b.label) for a, b in _worlds.decisions(inspect.opened(places))]
    others = ("alone", "the shared model")
    ours = [(f"r{i}", other) for i in range(6) for other in others]
    assert sorted(made) == sorted([others, *ours])


def summary(*places):
    """The sentences of the page, as tuples of a rule and its values."""
    runs = inspect.opened(places)
    decks = cards.decks(runs)
    notes = [*_words.notes(runs, decks).values(), *map(_words.clients, decks)]
    return [*_words.alerts(runs), *(each for part in notes for each in part)]


def test_clients_that_lose_are_named(told, tmp_path):
    own = np.array([0.9, *[0.4] * 7])
    one = told(tmp_path / "one", own[::-1], shared=[0.5] * 8, hostile=[1, *[0] * 7])
    few = told(tmp_path / "few", own[:3][::-1], shared=[0.5] * 3)
    for run, names in (
        (one, "clients 1, 2, 3, 4, 5 and 1 more"),
        (few, "clients 0, 1"),
    ):
        (deck,) = cards.decks(inspect.opened([run]))
        (said,) = (v for rule, *v in _words.clients(deck) if rule == "page.losers")
        assert said[-1] == names


def test_nobody_was_detected(told, tmp_path):
    given = {"hostile": [0, 1, 0, 1], "corruption": "auto"}
    accuracy = [0.5, 0.1, 0.9, 0.2]
    one = told(tmp_path / "one", accuracy, **given)
    given |= {"personalizer": "local", "dropped": [0, 2, 0, 0]}
    two = told(tmp_path / "two", accuracy, **given)
    found = summary(one, two)
    assert "clients 1, 3" in next(each for each in found if each[0] == "page.marked")
    assert ("page.undetected", "“one”") in found
    (row,) = _tables.defenses(inspect.opened([one, two])).rows
    fell = ["two", "dropped", "2 of 6: client 1", "0 of 6: no client"]
    assert [cell.text for cell in row] == fell
    given |= {"corruption": "none"}  # an attack does not change who trains alone
    found = summary(tmp_path / "two", told(tmp_path / "clean", accuracy, **given))
    assert ("page.apart", "“two”", "accuracy", "0.700", "“clean”", "0.700") in found


ANSWERS = [
    ([0.8, 0.9, 0.7, 0.9], [0.1, 0.2, 0.1, 0.2], "sure"),
    ([0.8, 0.2, 0.7, 0.9], [0.7, 0.3, 0.6, 0.9], "unsure"),
    ([0.8, 0.9], [0.7, 0.8], "few"),  # equal differences have no interval
]


@pytest.mark.parametrize(("own", "shared", "rule"), ANSWERS)
def test_answers(own, shared, rule, told, tmp_path):
    (deck,) = cards.decks(inspect.opened([told(tmp_path / "a", own, shared=shared)]))
    ((name, *_),) = _front.answer(deck)
    assert name == f"answer.{rule}"
    assert [name for name, *_ in _front.why(deck)] == ["answer.why", "answer.seed"]


def test_errors_have_differences_and_no_gains():
    assert _front.gain("accuracy", "B") == "gain over B"
    assert _front.gain("error", "B") == "difference in error from B"
    assert _front.gain("error") == "difference in error"


def test_one_model_is_the_only_one(told, tmp_path):
    place = told(tmp_path / "a", [0.5, 0.7], personalizer="none")
    (deck,) = cards.decks(inspect.opened([place]))
    only = ("answer.only", "“a”", "accuracy", "0.600", "2")
    assert _front.answer(deck) == [only] and _front.why(deck) == []
    heads = [tile.head for tile in _front.tiles(deck, deck.runs)]
    assert heads == ["mean accuracy", "worst tenth", "spread"]


def test_the_contents_name_the_headings(whole, told, tmp_path):
    """Each part is listed by its own heading, and each leads back up."""
    place = told(tmp_path / "a", [0.5, 0.9])
    (place / "summary.json").unlink()
    half = made(tmp_path / "x.html", place)[2]
    for source in (whole[2], half):
        nav = source[source.index("<nav") : source.index("</nav>")]
        listed = re.findall(r'<a href="#(\w+)">([^<]*)</a>', nav)
        heads = re.findall(r'<h2 id="(\w+)-head">([^<]*)</h2>', source)
        assert listed == heads and len(heads) >= 6
        assert source.count('<a href="#top">') == len(heads)
        assert source.count('id="top"') == 1


def test_missing_parts_say_how_to_get_them(told, tmp_path):
    """By commands that break between their words alone."""
    place = told(tmp_path / "a b", [0.5, 1.0])
    page, _, _ = made(tmp_path / "x.html", place)
    how = "--transform pixel --sigma 0.25"
    for asks in (f"troth certify '{place}' {how}", f"troth audit '{place}'"):
        assert page.words.count(asks) == 1
    place = told(tmp_path / "run-of-a-name", [0.5, 1.0])
    found = re.findall(
        r'<code class="command">(.*?)</code>', made(tmp_path / "y.html", place)[2]
    )
    assert f"<span>troth</span> <span>audit</span> <span>{place}</span>" in found
    assert all(re.fullmatch(r"(<span>\S+</span> ?)+", one) for one in found)


def test_names_are_texts(told, tmp_path):
    """A run's folder may be called anything; so may parts that somebody else wrote."""
    names = [EVIL, WORSE, "a'b", "{{ 1/0 }}", "<!--", "</title>"]
    names = [name.replace("/", "∕") for name in names]
    places = [told(tmp_path / name, [0.5, 1.0]) for name in names]
    other = told(tmp_path / "other", [0.5, 0.7])
    text = (other / "experiment.toml").read_text()
    evil = "</script><script>alert(3)</script>"
    (other / "experiment.toml").write_text(text.replace('"digits"', f"'{evil}'"))
    page, data, source = made(tmp_path / "x.html", *places, other)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 4 and "img" not in tags
    assert not [a for _, a in page.tags if any(k.startswith("on") for k in a)]
    assert "alert(3)</script>" not in source
    assert [name for name in names if name not in page.words] == []
    assert data["decks"]


def test_nothing_is_asked_of_the_network_and_ids_are_unique(whole):
    page, _, source = whole
    asks = ("src", "href", "xlink:href", "action", "srcset")
    links = {attrs.get(key) or "#" for _, attrs in page.tags for key in asks}
    assert [link for link in links if not link.startswith(("#", "data:"))] == []
    policy = next(a for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy["content"].startswith("default-src 'none'")
    assert "@import" not in source and "fetch(" not in source
    charts = [a["class"].split() for _, a in page.tags if "chart" in a.get("class", "")]
    kinds = [
        kind for chart in charts for kind in chart if kind not in ("chart", "tall")
    ]
    # of two federations; means of two kinds and certificates; two verdicts of 4 runs
    numbers = {"story": 2, "lines": 2 + 1, "heat": 2 * 4, "audit": 1}
    assert {kind: kinds.count(kind) for kind in kinds} == numbers
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len({*ids})
    assert {*re.findall(r'(?:url\(|href=")#([\w-]+)[")]', source)} <= {*ids}


def test_the_same_files_give_the_same_page(examined, tmp_path):
    a, b = (made(tmp_path / f"{n}.html", examined / "clean")[2] for n in "xy")
    assert a.replace("x.cards.json", "y.cards.json") == b


def test_runs_on_their_way_are_reported_as_such(told, tmp_path):
    place = told(tmp_path / "half", [0.5, 0.9])
    (place / "summary.json").unlink()
    journal = place / "rounds.jsonl"
    with journal.open("ab") as held:
        assert files.hold(held)
        found = summary(place)
    assert ("page.going", "“half”", "4", "4") in found
    assert "page.unfinished" not in {each[0] for each in found}
    lines = journal.read_text().splitlines(keepends=True)
    asks = f"troth resume {place}"
    for text, rounds in (("".join(lines[:3]) + "{", "3"), ("", "0")):
        journal.write_text(text)
        assert ("page.unfinished", "“half”", rounds, "4", asks) in summary(place)
    for name in ("rounds.jsonl", "clients.csv"):
        (place / name).unlink()
    assert ("page.unfinished", "“half”", "0", "4", asks) in summary(place)


def test_broken_files_never_stop_it(told, tmp_path):
    whole, broken = told(tmp_path / "a", [0.5, 0.9]), told(tmp_path / "b", [0.5, 1.0])
    (broken / "experiment.toml").write_bytes(b"\xff\xfe\x00")
    page, data, _ = made(tmp_path / "x.html", whole, broken)
    assert len(data["decks"]) >= 1 and "experiment.toml" in page.words


def test_the_page_of_one_client(told, tmp_path):
    """Only its card and its JSON; its names are inert too."""
    places = [told(tmp_path / n, [0.5, 0.9, 0.7], seed=i) for i, n in enumerate("ab")]
    places.append(told(tmp_path / EVIL.replace("/", "∕"), [0.5, 0.9, 0.7]))
    found = reports.report(places, card=2)
    assert found.page == places[0] / "card-2.html"
    assert {c["client"] for c in json.loads(found.cards.read_text())["cards"]} == {2}
    text = found.page.read_text("utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("article") == 2  # one per federation
    assert "<img" not in text and [t for t, _ in page.tags].count("script") == 3
    with pytest.raises(Refusal, match="no card of client 3; clients are 0 to 2"):
        reports.report(places, card=3)


def test_where_it_is_written(told, tmp_path):
    place = told(tmp_path / "a", [0.5, 0.9])
    found = reports.report([place])
    assert found.page == place / "report.html"
    assert found.cards == place / "report.cards.json" and found.cards.exists()
    assert reports.report([place], tmp_path).page == tmp_path / "report.html"
    with pytest.raises(Refusal, match="cannot be written"):
        reports.report([place], place / "clients.csv" / "x.html")
    with pytest.raises(Refusal, match="no run to report"):
        reports.report([])


def test_many_runs(told, tmp_path):
    """Other seeds are other clients: each federation has an answer."""
    places = [told(tmp_path / f"r{i}", [0.5, 0.9], seed=i) for i in range(14)]
    page, _, source = made(tmp_path / "x.html", *places)
    assert source.count('class="world"') == 14
    assert page.words.count("Malicious: 0 of 2 clients.") == 14
    places = [run.kept["place"] for run in _settled(places)]
    assert len({*places}) == 1  # one personalizer, one color
    assert _words._few([("page.trouble", "x")] * 14)[-1] == ("page.more", "2")
