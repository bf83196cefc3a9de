"""One thread for all tests: the models are tiny, and threads would only wait.

No test goes to the internet; those about downloads have a server of their own.
"""

import contextlib
import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import tempfile
import threading
import time
import urllib.parse

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TROTH_OFFLINE"] = "1"

import torch

from troth.types import Refusal

torch.set_num_threads(1)
_plans = tempfile.TemporaryDirectory()  # measured plans of this session alone
os.environ["TROTH_PLANS"] = _plans.name


def pytest_collection_modifyitems(items):
    """Refuse a `slow` mark that does not say why, in one text."""
    for item in items:
        for mark in item.iter_markers("slow"):
            why = mark.args[0] if len(mark.args) == 1 and not mark.kwargs else None
            if not isinstance(why, str) or not why.strip():
                raise pytest.UsageError(
                    f"{item.nodeid} is marked slow and does not say why; write "
                    '@pytest.mark.slow("the reason")'
                )


class Server(http.server.ThreadingHTTPServer):
    """Offers files, and misbehaves as it is told.

    `tricks` are taken one a request: ("cut", k) sends k bytes of the body and closes,
    ("status", code, headers), ("hang", seconds), ("bare",) sends no length. `pace` is
    seconds between blocks of 1,000 bytes.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.pace = 0.0
        self.tricks = []
        self.seen = []

    def url(self, name, content=None):
        """The address of a file; with content, it is offered from now on."""
        if content is not None:
            self.files[f"/{name}"] = content
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        trick = self.server.tricks.pop(0) if self.server.tricks else ("",)
        if trick[0] == "hang":
            time.sleep(trick[1])
        if trick[0] == "status":
            return self.answer(trick[1], b"sorry", trick[2])
        path = urllib.parse.urlsplit(self.path).path  # a proxy is given all of it
        content = self.server.files.get(path)
        if content is None:
            return self.answer(404, b"no such file", {})
        self.answer(200, content, {}, trick)

    def do_CONNECT(self):
        code = self.server.tricks.pop()[1] if self.server.tricks else 501
        self.answer(code, b"", {})

    def answer(self, code, body, head, trick=("",)):
        self.send_response(code)
        for key, value in head.items():
            self.send_header(key, value)
        if trick[0] != "bare":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if trick[0] == "cut":
            body = body[: trick[1]]
        with contextlib.suppress(OSError):
            for i in range(0, len(body), 1000):
                self.wfile.write(body[i : i + 1000])
                time.sleep(self.server.pace)

    def log_message(self, *ignored):
        """Say nothing."""


@pytest.fixture
def server(monkeypatch):
    """A web server on this machine; downloads are allowed, and quick to try again."""
    from troth.data.datasets import _fetch

    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("TROTH_OFFLINE")
    monkeypatch.setattr(_fetch, "PAUSE", 0.001)
    monkeypatch.setattr(_fetch, "TIMEOUT", 5.0)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def told():
    """Makes the folder of a finished run from its clients' accuracies."""
    return beside("told").written


def beside(name):
    """A module that lies beside this file."""
    place = pathlib.Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A real Chromium; tests that need it skip where there is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs chromium and chromedriver")
    made = beside("chromium").Browser(str(tmp_path_factory.mktemp("chromium")))
    yield made
    made.close()


@pytest.fixture(scope="session")
def axe():
    """axe-core: $TROTH_AXE, or node_modules beside the tests; skips without."""
    modules = pathlib.Path(__file__).parents[1] / "node_modules"
    file = os.environ.get("TROTH_AXE", modules / "axe-core" / "axe.min.js")
    if not pathlib.Path(file).exists():
        pytest.skip("needs axe-core: npm install axe-core, or TROTH_AXE")
    return pathlib.Path(file).read_text("utf-8")


@pytest.fixture(scope="session")
def examined(tmp_path_factory):
    """A folder of real runs: under attack three ways, and one where nobody attacks.

    `attacked` is a grid of no personalizer, local and ditto with a λ of its own, with
    rules that clip and choose; its ditto run is certified and audited. `clean` is that
    run without the attack.
    """
    import troth
    from troth.certificates.smoothing import Smoothing
    from troth.examine import audit, certify

    root = tmp_path_factory.mktemp("examined")
    tree = {
        "data": "digits",
        "partition": {"name": "classes", "clients": 12, "per_client": 5},
        "model": {"name": "mlp", "widths": [16]},
        "train": {"rounds": 8, "cohort": 6, "steps": 3, "batch": 16, "lr": 0.2},
        "evaluate": {"every": 2},
        "adversary": {"fraction": 0.25},
        "attack": "model_replacement",
        "filter": [{"name": "clip"}],
        "aggregator": "multi_krum",
        "engine": {"how": "vmap", "chunk": 6, "device": "cpu"},
    }
    own = {"name": "ditto", "lam": "auto"}
    grid = {"personalizer": ["none", "local", own]}
    *_, run = troth.run({**tree, "grid": grid}, out=root / "attacked")
    quiet = {"attack": "none", "corruption": "none", "personalizer": own}
    troth.run({**tree, **quiet}, out=root / "clean")
    smoothing = Smoothing(sigma=0.25, n=200, n0=20, tile=100)
    certify.certify(run, smoothing, clients="4", examples=6, device="cpu")
    audit.audit(run, eps=0.1, device="cpu")
    return root


@pytest.fixture(scope="session")
def contents():
    """Reads the bytes of a run's files; of the summary, all but the time it took."""
    from troth import files

    names = (
        files.EXPERIMENT,
        files.ROUNDS,
        files.CLIENTS,
        files.SHARED,
        files.PERSONAL,
    )

    def read(path):
        summary = json.loads((path / files.SUMMARY).read_text())
        assert summary.pop("seconds") > 0 and summary.pop("setup_seconds") > 0
        return {name: (path / name).read_bytes() for name in names}, summary

    return read


@pytest.fixture(scope="session")
def killed():
    """Trains an experiment until it is killed after some rounds; its first report."""
    import troth

    class Killed(Exception):
        pass

    def train(tree, done, out):
        seen = []

        def kill(progress):
            seen.append(progress)
            if progress.done == done:
                raise Killed

        with pytest.raises(Killed):
            troth.run(tree, out=out, watch=kill)
        return seen[0]

    return train


@pytest.fixture
def record():
    """A recorder of graphs that needs no GPU.

    As of a CUDA graph, outputs have a fixed place; what is an input stays that.
    """

    def recorded(graph, held):
        out = [t if any(t is h for h in held) else t.clone() for t in graph(*held)]

        def again():
            for old, new in zip(out, graph(*held), strict=True):
                if old is not new:
                    old.copy_(new)

        return out, again

    return recorded


@pytest.fixture(scope="session")
def refuses():
    """Calls what must refuse, and gives the sentence: one short line."""

    def refused(words, call, /, *args, **options):
        with pytest.raises(Refusal, match=words) as caught:
            call(*args, **options)
        said = str(caught.value)
        assert "\n" not in said and len(said) < 1000
        return said

    return refused
