"""The page without a browser: its numbers are the files', its texts are texts."""

import base64
import gzip
import json
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from troth import files, reports
from troth.evaluation.paired import paired
from troth.reports import _figures, _tables, _words, cards
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
        if tag == "td":
            self._cell = dict(attrs)
            self.cells.append((self._cell, ""))

    def handle_endtag(self, tag):
        self._cell = None if tag == "td" else self._cell

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


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without pictures, which take most of the time."""
    monkeypatch.setattr(_figures, "pictures", lambda *_: defaultdict(list))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Where the page of all four runs lies, with `page.cards.json` beside it."""
    return tmp_path_factory.mktemp("whole") / "page.html"


@pytest.fixture(scope="module")
def whole(examined, page):
    return made(page, examined / "attacked", examined / "clean")


def test_every_number_is_the_one_in_its_file(whole):
    keyed = [(attrs, text) for attrs, text in whole[0].cells if "data-key" in attrs]
    assert len(keyed) == 4 * 12
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


def test_the_summary_in_words(examined, whole):
    words, ditto = whole[0].words, "attacked/personalizer=ditto+lam=auto"
    under, without = (
        compare.number(json.loads(text)["personal"]["accuracy_mean"])
        for text in (
            (examined / name / "summary.json").read_text() for name in (ditto, "clean")
        )
    )
    t = files.read_csv(examined / "clean" / "clients.csv")
    bad = t["malicious"] == 1
    fell = [f"{t['clipped'][who].sum():.0f}" for who in (bad, ~bad)]
    marked = ", ".join(f"{k}" for k in np.flatnonzero(bad))
    on = ", ".join(f"{k}" for k in np.flatnonzero(~bad & (t["clipped"] > 0)))
    times = [t[k][who].sum() for who in (bad, ~bad) for k in ("chosen", "asked")]
    for said in (
        "Runs: 4. Finished: 4.",
        f"Under attack “ditto,lam=auto” has mean accuracy {under}. Without the attack "
        f"(“clean”) it is {without}, a change of ",
        f"Updates that the server of “clean” clipped: {fell[0]} of malicious clients "
        f"(clients {marked}) and {fell[1]} of benign clients (clients {on}).",
        "Updates that the server of “clean” chose: {:.0f} of {:.0f} from malicious "
        "clients and {:.0f} of {:.0f} from benign clients.".format(*times),
        f"Malicious in the experiment: 3 of 12 clients (clients {marked}). What they",
        "of 9 audited clients",
    ):
        assert said in words
    assert "No run here" not in words


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
        texts[at + 8] == "1"
        and "With one seed, a comparison is about" in whole[0].words
    )
    assert texts[at + 2 : at + 8] == wanted
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
    """The sentences of the summary, as tuples of a rule and its values."""
    runs = inspect.opened(places)
    return [each for part in _words.summary(runs, cards.decks(runs)) for each in part]


def test_nobody_was_detected(told, tmp_path):
    given = {"hostile": [0, 1, 0, 1], "corruption": "auto"}
    accuracy = [0.5, 0.1, 0.9, 0.2]
    one = told(tmp_path / "one", accuracy, **given)
    given |= {"personalizer": "local", "dropped": [0, 2, 0, 0]}
    found = summary(one, told(tmp_path / "two", accuracy, **given))
    assert "clients 1, 3" in next(each for each in found if each[0] == "page.marked")
    assert ("page.undetected", "“one”") in found
    fell = ("“two”", "2", "dropped", "client 1", "0", "no client")
    assert ("page.verdicts", *fell) in found
    given |= {"corruption": "none"}  # an attack does not change who trains alone
    found = summary(tmp_path / "two", told(tmp_path / "clean", accuracy, **given))
    assert ("page.apart", "“two”", "accuracy", "0.700", "“clean”", "0.700") in found


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


def test_missing_parts_say_how_to_get_them(told, tmp_path, undrawn):
    """By commands that break between their words alone."""
    place = told(tmp_path / "a b", [0.5, 1.0])
    page, _, _ = made(tmp_path / "x.html", place)
    how = "--transform pixel --sigma 0.25"
    for asks in (f"troth certify '{place}' {how}", f"troth audit '{place}'"):
        assert page.words.count(asks) == 2  # in words, and where they are missing
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
    assert tags.count("script") == 3 and "img" not in tags
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
    # curves; clients of two federations; frontier; pairs; verdicts of 4; proven; audit
    assert source.count("<svg") == 1 + 2 + 1 + 1 + 4 + 1 + 1
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
    assert "page.unfinished" not in dict(each[:2] for each in found)
    lines = journal.read_text().splitlines(keepends=True)
    asks = f"troth resume {place}"
    for text, rounds in (("".join(lines[:3]) + "{", "3"), ("", "0")):
        journal.write_text(text)
        assert ("page.unfinished", "“half”", rounds, "4", asks) in summary(place)
    for name in ("rounds.jsonl", "clients.csv"):
        (place / name).unlink()
    assert ("page.unfinished", "“half”", "0", "4", asks) in summary(place)


def test_broken_files_never_stop_it(told, tmp_path, undrawn):
    whole, broken = told(tmp_path / "a", [0.5, 0.9]), told(tmp_path / "b", [0.5, 1.0])
    (broken / "experiment.toml").write_bytes(b"\xff\xfe\x00")
    page, data, _ = made(tmp_path / "x.html", whole, broken)
    assert len(data["decks"]) >= 1 and "experiment.toml" in page.words


def test_where_it_is_written(told, tmp_path, undrawn):
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
    """Other seeds are other clients; not all of them are put into words."""
    places = [told(tmp_path / f"r{i}", [0.5, 0.9], seed=i) for i in range(7)]
    assert ("page.worlds", "7", "6") in summary(*places)
