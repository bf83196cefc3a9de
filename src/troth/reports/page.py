"""Write one self-contained HTML page about runs, and its trust cards as JSON."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

import troth
from troth import files
from troth.plot._style import SERIES, places, settle
from troth.reports import _charts, _front, _pdf, _rows, _tables, _words, cards
from troth.reports.cards import Deck, Sentence
from troth.reports.cards._choice import Chooser
from troth.reports.cards._reading import RULES, audit, certify, name, quoted
from troth.runs import compare, inspect
from troth.runs.inspect import Dossier
from troth.types import Refusal

NAME = "report.html"
PARTS = {
    "live": "In progress",
    "answer": "Answer",
    "client": "One client",
    "rounds": "Rounds",
    "clients": "All clients",
    "compared": "Methods compared",
    "rules": "Defenses",
    "proven": "Certificates",
    "relied": "Shortcuts",
    "settings": "Settings that differ",
    "origins": "Files",
}
"""The parts of a page in order: id → heading."""
_WORLDS = 24  # federations with a picture of their clients, at most
_COMMAND = ("troth ", "troth.", "import troth;")  # start of a command to copy


class Report(NamedTuple):
    """The files that `report` wrote, and the runs in them."""

    page: Path
    cards: Path
    runs: list[Dossier]
    pdf: Path | None = None


def report(
    paths: Sequence[str | Path],
    out: str | Path | None = None,
    card: int | None = None,
    pdf: bool = False,
) -> Report:
    """Write an HTML page about runs, and their trust cards as JSON next to it.

    Args:
        paths: Folders of runs, of grids or of attack chains.
        out: The page; None: `report.html` in the first folder, or `card-7.html` if
            `card` is 7. The file of the cards is in the same folder and ends in
            `.cards.json` instead of `.html`.
        card: A client. The page then has only this client's trust card, on one screen
            and one sheet of paper per federation.
        pdf: Whether to write the page as PDF too, by a Chromium of this machine.

    Returns:
        The files, and the runs with what was read from their files.

    Raises:
        Refusal: A folder is not a run, there is no such client, a file cannot be
            written, or there is no Chromium for `pdf`.

    >>> import tempfile, troth
    >>> folder = tempfile.TemporaryDirectory()
    >>> partition = {"name": "iid", "clients": 4}
    >>> [one] = troth.run({"partition": partition, "train": {"rounds": 1}},
    ...                   settings=["engine.how=loop"], out=f"{folder.name}/run")
    >>> made = troth.report([one.path])
    >>> made.page.name, made.cards.name
    ('report.html', 'report.cards.json')
    >>> troth.report([one.path], card=3).page.name
    'card-3.html'
    >>> folder.cleanup()

    Read on: `docs/how-to/report.md`.
    """
    if not paths:
        raise Refusal("there is no run to report; give at least one folder")
    runs = inspect.opened(paths)
    file = NAME if card is None else f"card-{card}.html"
    page = Path(out) if out is not None else Path(paths[0]) / file
    page = page / file if page.is_dir() else page
    beside = page.with_suffix(".cards.json")
    made = cards.decks(runs)
    found = cards.document(runs, made)
    if card is None:
        text = html(runs, made, beside.name)
    else:
        text = _one(made, card)
        found["cards"] = [one for one in found["cards"] if one["client"] == card]
    with files.refused(page, "give another file with --out"):
        page.parent.mkdir(parents=True, exist_ok=True)
    files.write(page, text)
    files.write(beside, json.dumps(found) + "\n")
    return Report(page, beside, runs, _pdf.pdf(page) if pdf else None)


def _one(made: list[Deck], client: int) -> str:
    """Return a page with the cards of one client."""
    there = [deck for deck in made if client in deck.ids]
    if not there:
        most = max((deck.ids[-1] for deck in made), default=-1)
        known = f"clients are 0 to {most}" if made else "no run is finished"
        raise Refusal(f"there is no card of client {client}; {known}")
    content: dict[str, Any] = {"title": f"Trust card of client {client}", "live": []}
    content |= {"data": packed(there, client), "count": len(there)}
    return rendered("card.html.j2", content, ["base.js", "card.js"])


def html(
    runs: Sequence[Dossier],
    made: list[Deck],
    beside: str = "",
    live: Sequence[str] = (),
    home: str = "",
) -> str:
    """Return the page as text.

    Args:
        runs: Runs, from `inspect.opened`.
        made: The cards of the runs.
        beside: Name of the file with the cards as JSON; "": there is none.
        live: Ids of runs whose progress the page's script requests from the server;
            empty: the page is not live.
        home: Address of the list of runs; "": there is none.
    """
    _color(runs)
    compared = _tables.compared(runs, made)
    pairs, seeds = _tables.pairs(compared), _tables.seeds(compared)
    pictures, notes = _charts.pictures(runs), _words.notes(runs, made)
    changed = _tables.settings(runs)
    title = f"run {quoted(runs[0])}" if len(runs) == 1 else f"{len(runs)} runs"
    first = next((run for run in reversed(runs) if run.finished), runs[-1])
    there: dict[str, Any] = {"live": live, "client": made, "clients": made}
    there |= {"rounds": pictures["rounds"], "settings": changed.rows}
    data = " and ".join(dict.fromkeys(run.part("data") for run in runs if run.sections))
    content: dict[str, Any] = {
        "parts": {id_: head for id_, head in PARTS.items() if there.get(id_, True)},
        "runs": runs,
        "live": [*live],
        "home": home,
        "title": f"Report of {title}",
        "about": data,
        "alerts": [_spans(sentence) for sentence in _words.alerts(runs)],
        "notes": {k: [_spans(one) for one in part] for k, part in notes.items()},
        "worlds": [_world(deck, i, runs) for i, deck in enumerate(made)],
        "sheet": _tables.runs(runs),
        "changed": changed,
        "defenses": _tables.defenses(runs),
        "pairs": pairs,
        "seeds": seeds,
        "caution": compare.caution(compared),
        "origins": _tables.origins(runs),
        "pictures": pictures,
        "asks": {"certify": certify(first), "audit": audit(first)},
        "beside": beside,
        "data": _compressed(packed(made)),
    }
    scripts = ["base.js", *(["live.js"] if live else []), "card.js", "report.js"]
    return rendered("page.html.j2", content, scripts)


def _color(runs: Sequence[Dossier]) -> None:
    """Give each model one color in all pictures.

    If there are more runs than colors, runs with the same personalizer share one.
    """
    kinds = {str(run.sections.get("personalizer")): run for run in runs}
    if len(runs) <= len(SERIES):
        return settle(runs)
    order = places([run.part("personalizer") for run in kinds.values()])
    at = dict(zip(kinds, order, strict=True))
    for run in runs:
        run.kept["place"] = at[str(run.sections.get("personalizer"))]
    return None


def _world(deck: Deck, i: int, runs: Sequence[Dossier]) -> dict[str, Any]:
    """Return what the first screen shows of one federation."""
    drawn = i < _WORLDS and Chooser(deck.runs).models
    return {
        "title": _words.shared(deck.runs),
        "answer": [_spans(sentence) for sentence in _front.answer(deck)],
        "why": [_spans(sentence) for sentence in _front.why(deck)],
        "clients": [_spans(sentence) for sentence in _words.clients(deck)],
        "tiles": _front.tiles(deck, runs),
        "story": _charts.strips(deck) if drawn else "",
    }


def rendered(template: str, content: dict[str, Any], scripts: Sequence[str]) -> str:
    """Fill a template, and put the style sheet and these scripts into the page."""
    texts = [_shipped(file) for file in scripts]
    more: dict[str, Any] = {"version": troth.__version__}
    more |= {"scripts": [Markup(text) for text in texts]}
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    allowed = [f"sha256-{base64.b64encode(digest).decode()}" for digest in digests]
    more |= {"hashes": allowed}  # the page's policy allows no other script
    more["style"] = Markup(_shipped("style.css"))
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_shipped),
        autoescape=True,  # escapes all but our own SVG, style and scripts
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render({**content, **more})


def _shipped(file: str) -> str:
    return resources.files("troth.reports").joinpath(file).read_text("utf-8")


def _spans(sentence: Sentence) -> list[tuple[str, bool]]:
    """Split a sentence into pieces, each with a flag: True for a command to copy."""
    found = []
    for i, piece in enumerate(re.split(r"\{(\d+)\}", RULES[sentence[0]])):
        text = sentence[1 + int(piece)] if i % 2 else piece
        found.append((text, bool(i % 2) and text.startswith(_COMMAND)))
    return found


def packed(made: Sequence[Deck], client: int | None = None) -> dict[str, Any]:
    """Return what the page's script shows: all cards, or those of one client."""
    number = {rule: i for i, rule in enumerate(RULES)}

    def short(sentences: Sequence[Sentence]) -> list[list[Any]]:
        return [[number[one[0]], *one[1:]] for one in sentences]

    def row(one: _rows.Row) -> list[Any]:
        head, text, says, *more = _rows.short(one)
        return [head, text, *short([says]), *more]

    def deck(one: Deck) -> dict[str, Any]:
        who = [i for i, k in enumerate(one.ids) if client in (None, k)]
        rows = [[_rows.rows(card) for card in cards] for cards in one.cards]
        table = _tables.clients(one)
        table["columns"] = [[c[i] for i in who] for c in table["columns"]]
        return {
            "runs": [name(run) for run in one.runs],
            "data": one.runs[0].part("data"),
            "table": table,
            "owners": [one.owners[i] for i in who] if one.owners else [],
            "answer": short(_front.answer(one)),
            "choices": [short(one.choices[i].sentences) for i in who],
            "first": [_suggested(one, i) for i in who],
            "cards": [[short(each[i].sentences) for i in who] for each in one.cards],
            "rows": [[[*map(row, each[i])] for i in who] for each in rows],
            "axes": [_rows.axes(*each) for each in zip(one.runs, rows, strict=True)],
        }

    rules = [[*item] for item in RULES.items()]
    return {"rules": rules, "decks": [*map(deck, made)]}


def _compressed(data: dict[str, Any]) -> str:
    raw = json.dumps(data, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(raw, mtime=0)).decode()


def _suggested(deck: Deck, i: int) -> int:
    """Return the index of the run with the suggested model."""
    model = deck.choices[i].model
    return 0 if model is None else [run is model.run for run in deck.runs].index(True)
