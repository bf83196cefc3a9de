"""The page without a browser: its numbers are the files', its texts are texts."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from troth import disk, display, dossier, folder, reports
from troth.comparison import paired
from troth.reports import _words
from troth.types import Refusal

EVIL = "<img src=x onerror=alert(1)>"
WORSE = '"><svg onload=alert(2)>&amp;{{ 7*7 }}{0}$x_'


class Page(HTMLParser):
    """Tags with attributes, and the text of every cell."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self._cell: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "td":
            self._cell = dict(attrs)
            self.cells.append((self._cell, ""))

    def handle_endtag(self, tag: str) -> None:
        self._cell = None if tag == "td" else self._cell

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._cell is not None:
            attrs, text = self.cells[-1]
            self.cells[-1] = (attrs, text + data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.texts).split())


def made(out: Path, *paths: Path) -> tuple[Page, dict[str, Any], str]:
    """The page, what its script reads, and its source."""
    found = reports.report(paths, out)
    text = found.page.read_text("utf-8")
    return Page(text), unpacked(text), text


Made = tuple[Page, dict[str, Any], str]


@pytest.fixture(scope="module")
def whole(examined: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The page of all four runs; `x.cards.json` lies beside it."""
    out = tmp_path_factory.mktemp("whole") / "x.html"
    return made(out, examined / "attacked", examined / "clean")


def unpacked(text: str) -> dict[str, Any]:
    (packed,) = re.findall(r'id="data">([^<]*)</script>', text)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def test_every_number_is_the_one_in_its_file(whole: Made) -> None:
    page, _, _ = whole
    seen = 0
    for attrs, text in page.cells:
        if "data-key" not in attrs:
            continue
        value: Any = json.loads(Path(str(attrs["data-file"])).read_text())
        for part in str(attrs["data-key"]).split("."):
            value = value[part]
        whole = isinstance(value, int)
        form = "seconds" if attrs["data-key"] == "seconds" else ""
        wanted = str(value) if whole else display.number(value)
        assert text == (f"{value:.1f}" if form else wanted)
        seen += 1
    assert seen == 4 * 11


def test_the_table_of_clients_is_clients_csv(examined: Path, whole: Made) -> None:
    _, data, _ = whole
    deck = data["decks"][0]
    table = deck["table"]
    assert [len(column) for column in table["columns"]] == [12] * len(table["heads"])
    seen = 0
    for source, column in zip(table["from"], table["columns"], strict=True):
        if "/" not in source:
            continue
        file, _, name = source.partition(":")
        values = folder.read_csv(examined / "attacked" / file)[name]
        exact = [display.number(float(v)) for v in values]
        whole = [str(int(v)) for v in values]
        assert column == (exact if "accuracy" in name else whole)
        seen += 1
    assert seen >= 3 + 5


def test_sentences_of_the_script_are_those_of_the_json(
    whole: Made, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, data, _ = whole
    (beside,) = tmp_path_factory.getbasetemp().glob("whole0/x.cards.json")
    said = json.loads(beside.read_text())["cards"]
    rules = data["rules"]

    def words(each: list[Any]) -> str:
        return _words.text((rules[each[0]][0], *each[1:]))

    found = []
    for deck in data["decks"]:
        for i in range(len(deck["choices"])):
            for every in deck["cards"]:
                found.append([words(each) for each in (*deck["choices"][i], *every[i])])
    assert found == [[s["text"] for s in card["sentences"]] for card in said]


def test_the_summary_in_words(examined: Path, whole: Made) -> None:
    page, _, _ = whole
    s = {
        name: json.loads((examined / name / "summary.json").read_text())["personal"]
        for name in ("clean", "attacked/personalizer=ditto+lam=auto")
    }
    under, without = (
        display.number(each["accuracy_mean"])
        for each in (s["attacked/personalizer=ditto+lam=auto"], s["clean"])
    )
    assert "Runs: 4. Finished: 4." in page.words
    assert f"{under}, and {without} where nobody attacks (clean)." in page.words
    clipped = folder.read_csv(examined / "clean" / "clients.csv")
    good = int(clipped["clipped"][clipped["malicious"] == 0].sum())
    assert f"and {good} of benign clients were clipped." in page.words
    assert "of 9 audited clients" in page.words and "No run here" not in page.words


def test_pairs_are_those_of_the_clients(examined: Path, whole: Made) -> None:
    place = examined / "attacked"
    one, two = (
        folder.read_csv(place / f"personalizer={name}" / "clients.csv")
        for name in ("none", "local")
    )
    benign = one["malicious"] == 0
    found = paired(one["accuracy"][benign], two["accuracy"][benign])
    texts = [text for _, text in whole[0].cells]
    at = texts.index("local − no personalizer")
    numbers = (found.mean_difference, found.low, found.high)
    wanted = [display.signed(value, "accuracy") for value in numbers]
    wanted += [str(v) for v in (found.better, found.worse, found.equal)]
    assert texts[at + 2 : at + 8] == wanted


def test_missing_parts_say_how_to_get_them(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "a b", [0.5, 1.0])
    page, _, _ = made(tmp_path / "x.html", place)
    for kind in ("certify", "audit"):
        assert f"troth {kind} '{place}'" in page.words


@pytest.mark.parametrize("name", [EVIL, WORSE, "a'b", "{{ 1/0 }}", "<!--", "</title>"])
def test_names_are_texts(told: Any, tmp_path: Path, name: str) -> None:
    """A run's folder may be called anything; so may parts that somebody else wrote."""
    place = told(tmp_path / name.replace("/", "∕"), [0.5, 1.0])
    other = told(tmp_path / "other", [0.5, 0.7])
    text = (other / "experiment.toml").read_text()
    evil = "</script><script>alert(3)</script>"
    (other / "experiment.toml").write_text(text.replace('"digits"', f"'{evil}'"))
    page, data, source = made(tmp_path / "x.html", place, other)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2 and "img" not in tags
    assert not [a for _, a in page.tags if any(k.startswith("on") for k in a)]
    assert "alert(3)</script>" not in source
    assert name.replace("/", "∕") in page.words or name in ("</title>",)
    assert data["decks"]


def test_nothing_is_asked_of_the_network(whole: Made) -> None:
    page, _, source = whole
    for tag, attrs in page.tags:
        for key in ("src", "href", "xlink:href", "action", "srcset"):
            value = attrs.get(key) or "#"
            assert value.startswith(("#", "data:")), (tag, value)
    policy = next(a for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert str(policy["content"]).startswith("default-src 'none'")
    assert "@import" not in source and "fetch(" not in source


def test_ids_are_unique(whole: Made) -> None:
    page, _, source = whole
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len({*ids})
    used = {*re.findall(r"url\(#([\w-]+)\)", source)}
    used |= {*re.findall(r'href="#([\w-]+)"', source)}
    assert used <= {*ids}


def test_the_same_files_give_the_same_page(examined: Path, tmp_path: Path) -> None:
    a, b = (made(tmp_path / f"{n}.html", examined / "clean")[2] for n in "xy")
    assert a.replace("x.cards.json", "y.cards.json") == b


def test_half_written_runs_are_reported_as_such(examined: Path, tmp_path: Path) -> None:
    place = tmp_path / "half"
    shutil.copytree(examined / "clean", place)
    (place / "summary.json").unlink()
    lines = (place / "rounds.jsonl").read_text().splitlines(keepends=True)
    (place / "rounds.jsonl").write_text("".join(lines[:3]) + "{")
    page, data, _ = made(tmp_path / "x.html", place)
    assert "half is not finished: its journal holds 3 of 8 rounds." in page.words
    assert f"troth resume {place}" in page.words and "3 of 8 rounds" in page.words
    assert data["decks"] == []


def test_a_run_that_goes_on_is_not_to_be_resumed(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "a", [0.5, 0.9])
    (place / "summary.json").unlink()
    with (place / "rounds.jsonl").open("ab") as journal:
        assert disk.hold(journal)
        page, _, _ = made(tmp_path / "x.html", place)
    assert "a is going on: its journal holds 4 of 4 rounds." in page.words
    assert "troth resume" not in page.words


@pytest.mark.parametrize("name", ["experiment.toml", "summary.json", "clients.csv"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]"])
def test_broken_files_never_stop_it(
    told: Any, tmp_path: Path, name: str, content: bytes
) -> None:
    whole, place = told(tmp_path / "a", [0.5, 0.9]), told(tmp_path / "b", [0.5, 1.0])
    (place / name).write_bytes(content)
    page, data, _ = made(tmp_path / "x.html", whole, place)
    assert len(data["decks"]) >= 1
    assert name in page.words


def test_a_run_that_has_only_begun(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "a", [0.5, 0.9])
    for name in ("rounds.jsonl", "summary.json", "clients.csv"):
        (place / name).unlink()
    page, _, _ = made(tmp_path / "x.html", place)
    assert "its journal holds 0 of 4 rounds" in page.words


def test_where_it_is_written(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "a", [0.5, 0.9])
    found = reports.report([place])
    assert found.page == place / "report.html"
    assert found.cards == place / "report.cards.json" and found.cards.exists()
    assert reports.report([place], tmp_path).page == tmp_path / "report.html"
    with pytest.raises(Refusal, match="cannot be written"):
        reports.report([place], place / "clients.csv" / "x.html")
    with pytest.raises(Refusal, match="no run to report"):
        reports.report([])


def test_many_runs(told: Any, tmp_path: Path) -> None:
    """Other seeds are other clients; not all of them are put into words."""
    places = [told(tmp_path / f"r{i}", [0.5, 0.9], seed=i) for i in range(7)]
    page, data, _ = made(tmp_path / "x.html", *places)
    assert len(data["decks"]) == 7
    assert "The runs are about 7 federations" in page.words
    assert len(dossier.opened(places)) == 7
