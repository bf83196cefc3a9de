"""The server and its pages: it lists, reports, only reads, and only for its user."""

import functools
import http.client
import json
import os
import re
import shutil
import socket
import time
import urllib.parse

import pytest

from troth import files
from troth.reports.live import Server
from troth.reports.live.pages import Unknown, dumped
from troth.types import Refusal


@pytest.fixture
def root(tmp_path, examined):
    """Two runs, a grid of one, and something that is nobody's business."""
    place = tmp_path / "runs"
    shutil.copytree(examined / "clean", place / "clean")
    shutil.copytree(examined / "attacked" / "personalizer=local", place / "g" / "local")
    (place / "g" / "grid.toml").write_text("[grid]\nseed = [0]\n")
    (tmp_path / "secret.txt").write_text("secret")
    shutil.copytree(examined / "clean", tmp_path / "outside")
    os.symlink(tmp_path / "outside", place / "link")
    return place


@pytest.fixture
def get(root, serving):
    with serving(root) as server:
        yield functools.partial(fetch, server)


def fetch(server, path, method="GET", **headers):
    host, port = server.server_address[:2]
    link = http.client.HTTPConnection(str(host), int(port), timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    link.request(method, path, headers=named)
    answer = link.getresponse()
    text = answer.read().decode()
    link.close()
    return answer.status, text, answer.headers


def test_the_list(get, root):
    code, text, headers = get("/")
    assert code == 200 and headers["Content-Type"].startswith("text/html")
    assert headers["Cache-Control"] == "no-store"
    setup = re.search(r'id="setup">(.*)</script>', text)
    assert setup is not None
    answer = json.loads(get("/api/runs")[1])
    runs = answer["runs"]
    assert json.loads(setup[1])["list"] == answer
    again = json.loads(get(f"/api/runs?known={answer['version']}")[1])
    assert again == {"version": answer["version"], "runs": None}
    assert [run["id"] for run in runs] == ["clean", "g/local"]
    summary = json.loads((root / "clean" / "summary.json").read_text())
    assert runs[0]["mean"] == f"{summary['personal']['accuracy_mean']:.3f}"
    assert runs[0]["state"] == "finished" and runs[0]["aggregator"] == "multi_krum"
    assert runs[1]["personalizer"] == "local" and runs[1]["attack"] == (
        "model_replacement"
    )


def test_reports(get):
    code, text, _ = get("/report?run=clean")
    assert code == 200 and "Report of run “clean”" in text and 'href="/"' in text
    code, text, _ = get("/report?run=clean&run=g/local&run=clean")
    assert code == 200 and "Report of 2 runs" in text


OUTSIDE = """
    /../secret.txt /secret.txt /runs/../../secret.txt /%2e%2e/secret.txt
    /report?run=../secret.txt /report?run=/etc/passwd /report?run=link
    /report?run=../outside /report?run=g/../clean /report?run=clean/
    /report /report?run= /api/live?run=../outside /api/live /api/ /live?run=clean
    /api/settings?run=link /api/clients?run=../outside /api/clients
    /clean/summary.json /favicon.ico /report?run=%00 //etc/passwd
""".split()  # noqa: SIM905


def test_nothing_else_can_be_read(get):
    many = "/report?" + "&".join(f"run=r{i}" for i in range(101))
    for path in (*OUTSIDE, many):
        code, text, _ = get(path)
        assert code == 404 and text.count("\n") == 1, path
        assert "secret" not in text.replace(repr("../secret.txt"), ""), path


def test_it_only_reads(get, root):
    before = sorted((p, p.stat().st_mtime_ns) for p in root.rglob("*"))
    apis = [f"/api/{kind}?run=clean" for kind in ("live", "settings", "clients")]
    for path in ("/", "/report?run=clean", "/api/runs", *apis):
        assert get(path)[0] == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert get("/report?run=clean", method)[0] == 501
    assert get("/", "HEAD")[:2] == (200, "")
    assert sorted((p, p.stat().st_mtime_ns) for p in root.rglob("*")) == before


def test_this_machine_s_names_lead_here_and_no_other_s(get):
    for host in ("evil.example:8137", "localhost.evil.example", "10.0.0.1"):
        assert get("/", Host=host)[0] == 403
    for host in ("localhost:1", "127.0.0.1", "127.0.0.9:5", "[::1]:5"):
        assert get("/api/runs", Host=host)[0] == 200


def test_beyond_this_machine_a_token_is_asked_for(root, serving):
    with Server(root, host="localhost", port=0) as server:
        assert server.token == "" and "token" not in server.url
    with serving(root, host="0.0.0.0") as server:
        assert re.search(r"\?token=[0-9a-f]{32}$", server.url)
        for path in ("/", "/api/runs", "/report?run=clean", "/nothing"):
            for more in ("", "?token=", "?token=0123", f"?token={server.token}0"):
                joined = path + (more.replace("?", "&") if "?" in path else more)
                code, text, _ = fetch(server, joined)
                assert code == 403 and "clean" not in text
        assert fetch(server, "/", Cookie="troth=zzz; troth")[0] == 403
        code, _, headers = fetch(server, f"/?token={server.token}")
        assert code == 303 and headers["Location"] == "/"
        cookie = headers["Set-Cookie"].split(";")[0]
        assert "HttpOnly" in headers["Set-Cookie"]
        assert fetch(server, "/", Cookie=cookie)[0] == 200
        assert fetch(server, f"/api/runs?token={server.token}")[0] == 200


def test_refusals(root, tmp_path):
    with pytest.raises(Refusal, match="is not a folder; give the one with your runs"):
        Server(tmp_path / "nowhere")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refusal, match=f"port {port} of 127.0.0.1 is in use; give"):
            Server(root, port=port)
    with pytest.raises(Refusal, match="cannot be listened on"):
        Server(root, host="203.0.113.9", port=0)
    with pytest.raises(Refusal, match="cannot be listened on"):
        Server(root, port=99999)


def test_malicious_names(told, tmp_path, serving):
    name = '"><img src=x onerror=alert(1)>&lt;'
    told(tmp_path / name, [0.5, 1.0])
    with serving(tmp_path) as server:
        path = f"/report?run={urllib.parse.quote(name, safe='')}"
        for code, text, _ in (fetch(server, "/"), fetch(server, path)):
            assert code == 200 and "<img" not in text


def test_three_thousand_runs_in_a_second(told, tmp_path):
    """Of this thread's own time, the least of three: others may be at work here."""
    first = told(tmp_path / "g00" / "r000", [0.5, 1.0])
    for name in ("clients.csv", "rounds.jsonl", "personal.safetensors"):
        (first / name).unlink()
    for i in range(1, 3000):
        shutil.copytree(first, tmp_path / f"g{i % 100:02}" / f"r{i:04}")
    (tmp_path / "none").mkdir()
    with Server(tmp_path / "none", port=0) as server:
        assert server.pages.runs()["runs"] == []
    took = []
    for _ in range(3):  # each with nothing read before
        with Server(tmp_path, port=0) as server:
            began = time.thread_time()
            text = server.pages.index()
            took.append(time.thread_time() - began)
            assert text.count('"id":') == 3001  # and a column
    assert min(took) < 1


def test_states(told, tmp_path):
    place = told(tmp_path / "r", [0.5, 1.0])
    summary = (place / "summary.json").read_text()
    (place / "summary.json").unlink()
    with Server(tmp_path, port=0) as server:
        assert 'id="live"' in server.pages.report(["r"])
        (place / "summary.json").write_text(summary)  # it ends: cards, and no curves
        assert server.pages.live(["r"])[0]["state"] == "finished"
        assert 'id="live"' not in server.pages.report(["r"])
        (place / "summary.json").unlink()
        (run,) = server.pages.live(["r"])
        assert run["state"] == "killed" and run["total"] == 4
        assert run["words"].startswith("r: killed, 4 of 4 rounds; mean accuracy 0.750")
        assert run["words"].endswith(". To continue:")
        assert run["command"] == f"troth resume {place}"
        with (place / "rounds.jsonl").open("ab") as journal:
            assert files.hold(journal)
            (run,) = server.pages.live(["r"])
            assert run["state"] == "running" and run["command"] == ""
            journal.write(b'{"round": 4}\n{"round":')
            journal.flush()
            assert server.pages.runs()["runs"][0]["rounds"] == "5 of 4"
        assert server.pages.live(["r"])[0]["state"] == "killed"
        (place / "rounds.jsonl").write_text('{"round": 0}\n')  # resumed from before
        (run,) = server.pages.live(["r"])
        assert run["points"] == [] and run["words"].startswith("r: killed, 1 of 4")
        (place / "rounds.jsonl").write_text("nonsense\n" * 3)
        assert server.pages.live(["r"])[0]["points"] == []
        (place / "experiment.toml").write_bytes(b"\xff")
        assert "cannot be read" in server.pages.report(["r"])


def test_words_say_who_took_part_and_why_a_run_ended(told, tmp_path):
    place = told(tmp_path / "r", [0.5, 1.0])
    (place / "summary.json").unlink()
    record = {"round": 4, "cohort": [0, 1, 5], "absent": [], "cut": [5]}
    record |= {"dropped": {"drop_invalid": [1], "odd": "<b>"}, "clipped": [None]}
    with (place / "rounds.jsonl").open("a") as journal:
        journal.write(json.dumps(record) + "\n")
    ended = {"state": "failed", "why": "OSError: <img src=x>"}
    (place / "ended.json").write_text(json.dumps(ended))
    with Server(tmp_path, port=0) as server:
        (run,) = server.pages.live(["r"])
    assert run["words"].endswith(
        ". Round 5: cohort: clients 0, 1, 5; dropped by drop_invalid: client 1; "
        "cut: client 5. Error: OSError: <img src=x>. To continue:"
    )


def test_settings_that_differ_and_the_results_of_clients(told, tmp_path):
    """A setting of one method alone does not differ; a missing value is null."""
    own = {"name": "ditto", "lam": 0.5}
    told(tmp_path / "a", [0.5, float("nan")], personalizer=own, seed=1, hostile=[0, 1])
    told(tmp_path / "b", [0.25, 1.0], personalizer="local", seed=2)
    with Server(tmp_path, port=0) as server:
        found = server.pages.settings(["a", "b"])
        answer = json.loads(dumped(server.pages.clients(["a", "b"])))
        (tmp_path / "b" / "clients.csv").write_text("client\n0\n")
        with pytest.raises(Unknown, match="b has no clients.csv that can be read"):
            server.pages.clients(["b"])
    assert found["keys"] == ["seed", "personalizer.name"]
    assert found["runs"]["b"] == {"seed": "2", "personalizer.name": "local"}
    assert [one["values"] for one in answer] == [[0.5, None], [0.25, 1.0]]
    assert answer[0]["malicious"] == [False, True]


def test_files_that_troth_did_not_write_leave_the_list_whole(told, tmp_path):
    for i in range(3):
        told(tmp_path / f"r{i}", [0.5, 1.0])
        (tmp_path / f"r{i}" / "summary.json").unlink()
    odd = {"personal": {"accuracy_mean": "<b>"}, "shared": {"accuracy_mean": [1]}}
    line = json.dumps({"round": 3, "cohort": "x", "dropped": [1], "evaluation": odd})
    (tmp_path / "r0" / "rounds.jsonl").write_text(line + "\n")
    text = "[train]\nrounds = " + "9" * 5000 + "\n"
    (tmp_path / "r1" / "experiment.toml").write_text(text)
    (tmp_path / "r2" / "experiment.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "r2" / "clients.csv").write_text('"\x00')
    ids = [f"r{i}" for i in range(3)]
    with Server(tmp_path, port=0) as server:
        with (tmp_path / "r1" / "rounds.jsonl").open("ab") as held:
            assert files.hold(held)
            states = [run["state"] for run in server.pages.runs()["runs"]]
        assert states == ["killed", "running", "killed"]
        assert server.pages.live(ids)[0]["points"] == [[4, None, None]]
        assert {*server.pages.settings(ids)["runs"]} == {*ids}
        with pytest.raises(Unknown, match="r2 has no clients.csv that can be read"):
            server.pages.clients(["r2"])
