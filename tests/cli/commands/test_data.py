import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from troth import lookup
from troth.data.datasets import mnist
from troth.data.datasets._files import Remote

A, B = bytes(5000), b"b" * 3000


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def offered(server, monkeypatch):
    """`mnist` is two small files that a server on this machine offers."""
    urls = server.url("x/a", A), server.url("x/b", B)
    digests = {"a": md5(A), "b": md5(B)}
    source = mnist.SOURCE._replace(
        files=("a", "b"),
        remotes=tuple(Remote(url, digests[url[-1]]) for url in urls),
        digests=digests,
    )
    monkeypatch.setattr(mnist, "SOURCE", source)
    return server


def test_one_row_per_data_set(troth):
    result = troth("data")
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert {*lookup.names("data")} <= {*lines}
    assert "made here" in lines["digits"] and "your file" in lines["npz"]
    assert "CC BY-SA 3.0" in lines["mnist"] and " – " in lines["mnist"]
    found = json.loads(troth("data", "--json").stdout)["data"]
    assert [each["name"] for each in found] == lookup.names("data")
    rows = {each["name"]: each for each in found}
    assert rows["digits"]["here"] and not rows["mnist"]["here"]
    assert rows["mnist"]["place"] is None and rows["npz"]["licence"] is None


def test_what_is_said_of_one_that_is_not_here(troth, tmp_path):
    result = troth("data", "mnist", "--data-dir", tmp_path / "d")
    assert result.exit_code == 0
    for words in (
        "mnist: MNIST: 60,000 + 10,000",
        mnist.SOURCE.page,
        "license    CC BY-SA 3.0",
        "here       no",
        "train-images-idx3-ubyte.gz",
        f"searched   {tmp_path / 'd' / 'mnist'}\n           {tmp_path / 'd'}\n",
        "/usr/share/dataset-mnist",
        "get it     troth data mnist --get (11.6 MB)",
        "@article{lecun1998gradient,",
    ):
        assert words in result.stdout


def test_what_no_program_can_get_says_what_to_do(troth, refused):
    text = troth("data", "celeba").stdout
    assert "get it     " in text and "--get" not in text
    said = refused("data", "celeba", "--get")
    assert "data 'celeba' cannot be downloaded: " in said
    assert "needs no files" in troth("data", "digits").stdout
    text = troth("data", "npz").stdout
    assert "reads a file of yours" in text and "data.path" in text


def test_get_check_and_what_is_there_then(troth, offered, tmp_path):
    result = troth("data", "mnist", "--get")
    place = tmp_path / "cache" / "troth" / "mnist"
    assert result.exit_code == 0 and result.stdout == ""
    assert result.stderr.endswith(f"mnist is in {place}\n")
    assert "a: 5.0 of 5.0 kB" in result.stderr and "b: 3.0 of 3.0 kB" in result.stderr
    text = troth("data", "mnist").stdout
    assert f"here       {place} (8.0 kB)" in text and "a (5.0 kB)\n" in text
    result = troth("data", "mnist", "--check")
    assert result.exit_code == 0 and result.stderr.count("as published") == 2
    (place / "a").write_bytes(B)
    result = troth("data", "mnist", "--check", "--json")
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert f"troth: {place / 'a'} is not the published file (it holds b" in last
    checked = json.loads(result.stdout)["checked"]["mnist"]
    assert checked["b"] == "ok" and "not the published file" in checked["a"]
    result = troth("data", "mnist", "--get", "--json", "--quiet")  # mends it
    assert result.stderr == "" and (place / "a").read_bytes() == A
    assert json.loads(result.stdout)["got"] == str(place)


def test_check_of_all_that_is_here(troth, refused, offered, tmp_path):
    assert troth("data", "mnist", "--get", "--data-dir", "mine").exit_code == 0
    assert (tmp_path / "mine" / "mnist" / "a").read_bytes() == A
    troth("data", "mnist", "--get", "--quiet")
    found = json.loads(troth("data", "--check", "--json").stdout)["checked"]
    assert found == {"mnist": {"a": "ok", "b": "ok"}}
    assert "'cifar10' has no files here to" in refused("data", "cifar10", "--check")
    assert "'digits' has no files here to" in refused("data", "digits", "--check")


def test_an_experiment_downloads_what_it_needs(troth, offered, tmp_path, monkeypatch):
    """The loader then refuses the made files, by name: they were downloaded."""
    digests = {**mnist.SOURCE.digests, "train-images-idx3-ubyte.gz": md5(A)}
    monkeypatch.setattr(mnist, "SOURCE", mnist.SOURCE._replace(digests=digests))
    result = troth("run", "--set", "data=mnist", "--set", "model=linear")
    place = tmp_path / "cache" / "troth" / "mnist"
    assert result.exit_code == 2 and (place / "a").read_bytes() == A
    assert "a: 5.0 of 5.0 kB" in result.stderr
    assert "train-images-idx3-ubyte.gz is not the published file" in result.stderr


def test_offline(refused, offered, monkeypatch):
    monkeypatch.setenv("TROTH_OFFLINE", "1")
    assert "TROTH_OFFLINE is set" in refused("data", "mnist", "--get")
    assert "and was not downloaded: TROTH_OFFLINE" in refused("data", "mnist", "--show")


@pytest.mark.slow("a real process that is stopped")
def test_ctrl_c_leaves_nothing_half_done(server, tmp_path):
    """A real process, stopped in the middle; the same command begins anew."""
    server.pace = 0.3  # so that a busy machine is in time to stop it
    content = bytes(range(250)) * 1000
    url = server.url("a", content)
    code = (
        "from troth.data.datasets import mnist\n"
        "from troth.data.datasets._files import Remote\n"
        f"remote = Remote({url!r}, {md5(content)!r})\n"
        "mnist.SOURCE = mnist.SOURCE._replace(\n"
        "    files=('a',), remotes=(remote,), digests={})\n"
        "from troth.cli.app import main; main()\n"
    )
    command = [sys.executable, "-c", code, "data", "mnist", "--get"]
    place = tmp_path / "cache" / "troth" / "mnist"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ)
    deadline = time.monotonic() + 300
    while not (part := place / "a.part").exists() or part.stat().st_size < 5000:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 130 and "Traceback" not in said
    assert said.splitlines()[-1].startswith("troth: stopped; complete files are kept")
    assert not part.exists() and not (place / "a").exists()
    server.pace = 0.0
    subprocess.run(command, check=True, env=os.environ, stderr=subprocess.DEVNULL)
    assert (place / "a").read_bytes() == content
    assert len(server.seen) == 2


def picture(path):
    with Image.open(path) as image:
        image.load()
        return image.size


def test_show(troth, tmp_path):
    result = troth("data", "digits", "--show", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    facts = [found[key] for key in ("shown", "picture", "examples", "clients")]
    assert facts == ["digits", "digits.png", 1797, 10]
    assert min(picture(tmp_path / "digits.png")) > 700
    assert "1,797 examples, 10 clients (iid), 10 classes" in result.stderr
    assert list(tmp_path.glob("*.part")) == []


def test_show_an_experiment_and_a_file_of_ones_own(troth, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('data = "digits"\npartition = {name = "classes", clients = 6}\n')
    result = troth("data", "--show", "--experiment", file, "--out", "e.png")
    assert "6 clients (classes)" in result.stderr, result.output
    picture(tmp_path / "e.png")
    np.savez("mine.npz", x=np.eye(6), y=np.arange(6.0), owner=np.arange(6) // 2)
    arguments = ["data", "npz", "--show", "--set", "data.path=mine.npz", "--quiet"]
    result = troth(*arguments, "--json")
    assert result.stderr == "" and json.loads(result.stdout)["clients"] == 3
    picture(tmp_path / "npz.png")


def test_refusals(refused, tmp_path):
    (tmp_path / "x.png").write_bytes(b"mine")  # no picture is written over another
    for arguments, words in [
        (["minst"], "there is no data 'minst' (did you mean 'mnist'?)"),
        (["--get"], "--get needs the name of a data set"),
        (["--show"], "--show needs the name of a data set"),
        (["digits", "--get"], "data 'digits' is not made of files"),
        (["digits", "--out", "x.png"], "--out only changes the picture"),
        (["digits", "--experiment", "x.toml"], "--experiment only changes the picture"),
        (["digits", "--show", "--out", "x.pdf"], "--out x.pdf must be a new file"),
        (["digits", "--show", "--out", "x.png"], "must be a new file"),
        (["digits", "--show", "--out", "no/x.png"], "no cannot be written to"),
        (["npz", "--show"], "data 'npz' needs the option 'path'"),
        (["digits", "--show", "--experiment", "none.toml"], "none.toml"),
    ]:
        assert words in refused("data", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]
    assert (tmp_path / "x.png").read_bytes() == b"mine"
