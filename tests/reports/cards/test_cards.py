"""Cards against the files they are made from."""

import json
import shlex
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import troth
from troth import files, lookup
from troth.certificates import bounds
from troth.certificates.record import fingerprint
from troth.reports import cards
from troth.runs import inspect


def document(*paths):
    made = cards.document(inspect.opened(paths))
    validator = jsonschema.Draft202012Validator(cards.schema())
    validator.validate(json.loads(json.dumps(made, allow_nan=False)))
    return made


def card(made, client, run=""):
    return [c for c in made["cards"] if c["client"] == client and run in c["run"]][0]


def values(one, rule):
    """What stands in the places of that sentence."""
    (found,) = [s["values"] for s in one["sentences"] if s["rule"] == rule]
    return found


def rules(one):
    return {s["rule"] for s in one["sentences"]}


def test_the_schema_has_the_version_and_refuses_what_is_no_card(told, tmp_path):
    schema = cards.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].endswith(cards.VERSION)
    made = document(told(tmp_path / "x", [0.5, 1.0]))
    for wrong in (made["cards"][0] | {"value": "0.5"}, {"client": 0}):
        made["cards"][0] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(made, schema)


def test_numbers_are_those_of_the_files(examined):
    """Every card of every run, against clients.csv, audit.csv and the certificates."""
    made = document(examined / "attacked", examined / "clean")
    assert len(made["cards"]) == 4 * 12 and all(r["finished"] for r in made["runs"])
    folders = {run["label"]: Path(run["folder"]) for run in made["runs"]}
    for one in made["cards"]:
        table = files.read_csv(folders[one["run"]] / "clients.csv")
        t = {name: column[one["client"]] for name, column in table.items()}
        read = (one["value"], one["shared"], one["valid"], one["hostile"])
        read += (one["data"]["train"], one["rounds"]["clipped"])
        own = (t["accuracy"], t["shared_accuracy"], t["valid_accuracy"], t["malicious"])
        assert read == (*own, t["train"], t["clipped"])
        if "lam" in t:
            assert one["chosen"] == {"lam": t["lam"]}
            assert values(one, "lam.chosen") == [f"{t['lam']:.4g}"]
        if not one["hostile"]:
            known = [f"{t['valid']:.0f}", f"{t['valid_accuracy']:.3f}"]
            assert values(one, "served.valid") == known
    audit = files.read_csv(folders["personalizer=ditto+lam=auto"] / "audit.csv")
    for i, k in enumerate(audit["client"]):
        mine = card(made, int(k), "ditto")["shortcuts"]
        for name in ("change", "change_low"):
            assert mine[name] == audit[name][i]


def test_ranks_by_hand(told, tmp_path):
    accuracy, bad = [0.9, 0.7, 0.9, 1.0, np.nan], [0, 0, 0, 1, 0]
    made = document(told(tmp_path / "x", accuracy, hostile=bad, test=[10] * 4 + [0]))
    found = [(card(made, k)["rank"], card(made, k)["of"]) for k in range(5)]
    assert found == [(1, 3), (3, 3), (1, 3), (None, 3), (None, 3)]
    low, high = card(made, 0)["interval"]  # Clopper and Pearson of 9 out of 10
    assert (round(low, 4), round(high, 4)) == (0.5550, 0.9975)
    served = " ".join(values(card(made, 0), "served.own"))
    assert served == "Accuracy 0.900 10 0.555 0.997 1 3 0.833"
    assert "served.hostile" in rules(card(made, 3))
    assert values(card(made, 4), "served.untested") == ["accuracy"]


def test_gains(told, tmp_path):
    own = told(tmp_path / "own", [0.9, 0.7], shared=[0.5, 0.8])
    local = told(tmp_path / "alone", [0.8, 0.8], personalizer="local")
    one = card(document(own, local), 0, "own")
    assert values(one, "gain.shared") == ["+0.400", "0.500"]
    assert values(one, "gain.local") == ["+0.100", "“alone”", "0.800"]
    assert one["local"] == 0.8
    other = card(document(own), 1)
    place = tmp_path / "own-local"
    (asks,) = values(other, "gain.local_missing")
    words = shlex.split(asks)
    assert words[:2] == ["troth", "run"]
    assert words[-3:] == ["personalizer=local", "--out", str(place)]
    assert values(other, "gain.both") == [f"troth report {own} {place}"]
    assert other["valid"] is None and "served.valid" not in rules(other)


def test_a_new_run_does_not_go_into_the_grid(examined):
    grid, name = examined / "attacked", "personalizer=ditto+lam=auto"
    one = card(document(grid / name), 1)
    place = examined / "attacked-no-attack" / name
    assert values(one, "poisoning.no_twin")[0].endswith(f" --out {place}")
    assert values(one, "poisoning.both") == [f"troth report {grid} {place}"]


HOSTILE = {"hostile": [0, 0, 1], "attack": "sign_flip", "corruption": "auto"}
RANDOM = "they train on random labels (corruption auto, which here is random_labels)"
SENT = "they send the negative of their update (attack sign_flip)"


def test_who_never_met_the_federation_is_not_under_attack(told, tmp_path):
    accuracy = [0.5, 0.9, 0.2]
    own = told(tmp_path / "own", accuracy, **HOSTILE)
    alone = told(tmp_path / "alone", accuracy, personalizer="local", **HOSTILE)
    made = document(own, alone)
    ways = ["1", "3", f"{RANDOM}, and {SENT}"]
    under = values(card(made, 1, "own"), "poisoning.under")
    assert under == [*ways, "aggregator mean", "accuracy", "0.900"]
    one = card(made, 1, "alone")
    assert values(one, "poisoning.apart") == [*ways, "accuracy", "0.900"]
    asked = {"under", "no_twin", "try", "one"}
    assert not rules(one) & {f"poisoning.{name}" for name in asked}
    bad = card(made, 2, "alone")  # its own labels are the wrong ones
    assert "poisoning.under" in rules(bad)
    assert values(bad, "poisoning.one") == ["2"]


DITTO = {"personalizer": {"name": "ditto", "lam": 0.1}}
QUIET = HOSTILE | {"attack": "none"}
COPIED = HOSTILE | {"attack": "mimic", "corruption": "none"}
DROPPED = HOSTILE | {"dropped": [1, 0, 3]}
TURNED = "they train on flipped labels (corruption auto, which here is flip_labels)"
MIMIC = lookup.about("attack", "mimic").summary.rstrip(".")
SENTENCES = [
    (DITTO, 1, "lam.set", 0, "0.1"),
    ({}, 1, "rounds.every", slice(3), ["3", "4", "3"]),
    (HOSTILE, 2, "rounds.undetected", slice(0), []),
    (DROPPED, 2, "rounds.verdicts", 0, "3 dropped"),
    (QUIET | {"classes": 2}, 0, "poisoning.under", 2, TURNED),
    (QUIET, 0, "poisoning.under", 2, RANDOM),
    (COPIED, 0, "poisoning.under", 2, f"they do this: {MIMIC} (attack mimic)"),
]


def test_sentences(told, tmp_path):
    for i, (given, client, rule, at, expected) in enumerate(SENTENCES):
        made = document(told(tmp_path / f"x{i}", [0.5, 0.9, 0.2], **given))
        assert values(card(made, client), rule)[at] == expected
        for other in (0, client) if "dropped" in given else (0,):
            assert "rounds.undetected" not in rules(card(made, other))
    place = told(tmp_path / "drawn", [0.5, 1.0])
    file = place / "experiment.toml"
    file.write_text(file.read_text().replace("cohort = 0", "cohort = 1"))
    assert values(card(document(place), 1), "rounds.asked") == ["3", "4", "1", "2"]


def test_a_run_without_personalizer_and_other_seeds_are_other_clients(told, tmp_path):
    a = told(tmp_path / "a", [0.9, 0.7], personalizer="none")
    b = told(tmp_path / "b", [0.1, 0.1], personalizer="local", seed=1)
    made = document(a, b)
    one = card(made, 0, "a")
    assert not one["own_model"] and "served.shared" in rules(one)
    assert "shortcuts.shared" in rules(one) and not rules(one) & {"gain.shared"}
    assert one["use"] == {"decided_by": "only", "run": "a", "model": "shared"}
    assert one["local"] is None and card(made, 0, "b")["use"]["run"] == "b"


def test_the_hash_is_that_of_the_model(examined):
    made = document(examined / "attacked")
    for name in ("personalizer=none", "personalizer=ditto+lam=auto"):
        run = troth.load(examined / "attacked" / name)
        for k in (0, 5):
            assert card(made, k, name)["parameters"] == fingerprint(run.model(k))


def test_a_certificate_by_hand(examined):
    """Of the radius that three of six examples have or exceed."""
    made = document(examined / "attacked")
    place = examined / "attacked" / "personalizer=ditto+lam=auto"
    lines = [x.split(",") for x in (place / "certificates.csv").read_text().split()]
    client = int(lines[1][1])
    mine = [line for line in lines if line[:2] == ["personal", str(client)]]
    radii = sorted(float(x[5]) if x[3] == x[4] else 0.0 for x in mine)[::-1]
    one = card(made, client, "ditto")
    (found,) = one["certificates"]
    assert found["examples"] == len(mine) == 6 and found["confidence"] == 0.999
    assert found["radius_of_half"] == radii[2]
    assert np.isclose(found["mean_radius"], np.mean(radii))
    (said,) = [s for s in one["sentences"] if "certificate" in s["rule"]]
    assert said["rule"] in ("certificate.half", "certificate.fewer")
    proven = sum(r > 0 for r in radii)
    ends = bounds.lower(proven, 6, 0.025), bounds.upper(proven, 6, 0.025)
    assert (found["proven_low"], found["proven_high"]) == ends
    assert said["values"][-2:] == [f"{end:.0%}" for end in ends]
    shown = float(said["values"][3 if radii[2] > 0 else 6])
    assert shown <= (radii[2] if radii[2] > 0 else np.mean(radii))  # rounded down


def test_a_certificate_of_other_parameters(examined, tmp_path):
    place = tmp_path / "run"
    shutil.copytree(examined / "attacked" / "personalizer=ditto+lam=auto", place)
    file = place / "certificates.csv"
    client = int(file.read_text().splitlines()[1].split(",")[1])
    old = card(document(place), client)
    assert "certificate.stale" not in rules(old)
    file.write_text(file.read_text().replace(old["parameters"], "0" * 64))
    asks = f"troth certify {place} --transform pixel --sigma 0.25 --client {client}"
    stale = values(card(document(place), client), "certificate.stale")
    assert stale == ["0" * 12, old["parameters"][:12], str(file), asks]


def test_the_command_for_a_proof_is_whole(told, tmp_path):
    place = told(tmp_path / "x", [0.5, 1.0])
    one = card(document(place), 1)
    asks = f"troth certify {place} --transform pixel --sigma 0.25 --client 1"
    assert values(one, "certificate.missing") == [asks]
    assert values(one, "shortcuts.missing") == [f"troth audit {place} --client 1"]


def test_poisoning_beside_the_run_where_nobody_attacks(examined):
    made = document(examined / "attacked", examined / "clean")
    one, other = card(made, 1, "ditto"), card(made, 1, "clean")
    (beside,) = one["poisoning"]["beside"]
    assert (beside["attacked"], beside["clean"]) == (one["value"], other["value"])
    w, w0 = (
        files.load(examined / place / "shared.safetensors")[0]
        for place in ("attacked/personalizer=ditto+lam=auto", "clean")
    )
    far = sum(float((w[k].double() - w0[k].double()).square().sum()) for k in w) ** 0.5
    assert np.isclose(beside["moved"], far)
    assert values(one, "poisoning.moved")[0] == f"{far:.4g}"
    assert [b["run"] for b in other["poisoning"]["beside"]] == [one["run"]]
    assert "poisoning.no_twin" in rules(card(made, 1, "none"))


def test_an_unfinished_run_has_no_card(told, tmp_path):
    place = told(tmp_path / "x", [0.5, 1.0])
    (place / "summary.json").unlink()
    made = document(place)
    assert made["cards"] == [] and not made["runs"][0]["finished"]
    assert made["runs"][0]["rounds"] == 4


def test_an_error_is_better_when_it_is_lower(tmp_path):
    tree = {
        "data": {"name": "linear_regression"},
        "partition": {"name": "natural"},
        "model": "linear",
        "train": {"rounds": 2, "lr": 0.01},
        "engine": {"how": "vmap", "chunk": 4, "device": "cpu"},
        "personalizer": "finetune",
    }
    troth.run(tree, out=tmp_path / "x")
    first = min(document(tmp_path / "x")["cards"], key=lambda c: c["value"])
    assert (first["rank"], first["metric"], first["interval"]) == (1, "error", None)
    assert {"certificate.never", "shortcuts.never", "served.plain"} <= rules(first)
    assert first["valid"] is not None and "served.valid" in rules(first)
    asks = shlex.split(values(first, "poisoning.try")[0])
    assert asks[-3:] == ["attack=sign_flip", "--out", str(tmp_path / "x-attacked")]
    settings = [word for word in asks if "=" in word and "/" not in word]
    troth.run(tree, settings=settings, out=tmp_path / "y")
    one = card(document(tmp_path / "x", tmp_path / "y"), 0, "x")
    assert one["poisoning"]["beside"][0]["run"] == "y"


def test_models_that_were_not_saved(told, tmp_path):
    place = told(tmp_path / "x", [0.5, 1.0])
    (place / files.PERSONAL).unlink()
    one = card(document(place), 1)
    assert one["parameters"] is None and "provenance.unsaved" in rules(one)
    for rule in ("certificate.unsaved", "shortcuts.unsaved"):
        asks = f"--set output.personal=true --out {tmp_path / 'x-kept'}"
        assert values(one, rule)[0].endswith(asks)
