import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional
from typer.testing import CliRunner

import troth
from troth import files
from troth.cli import app
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.types import Refusal

F64 = torch.float64
LOG = math.log
NAMES = ("hot", "wet", "dark")


def pair(labels=4):
    draw = torch.Generator().manual_seed(0)
    f = 3 * torch.randn(60, labels, generator=draw, dtype=F64)
    return f, torch.randint(0, 2, (60, labels), generator=draw)


def test_by_hand():
    # Probabilities 3/4 and 1/2: has the first and lacks the second, or lacks both.
    f = torch.tensor([[LOG(3), 0.0], [LOG(3), 0.0]], dtype=F64)
    found = multi_label(f, torch.tensor([[1, 0], [0, 0]]))
    means = [(LOG(4 / 3) + LOG(2)) / 2, (LOG(4) + LOG(2)) / 2]
    assert found.tolist() == pytest.approx(means)
    y = torch.tensor([[1, 0, 1]])  # all right and sure, and all wrong
    sure = (2.0 * y - 1) * 1e4
    assert (multi_label(sure, y).item(), multi_label(-sure, y).item()) == (0, 1e4)


def test_it_is_torchs_averaged_over_the_labels():
    f, y = pair()
    theirs = functional.binary_cross_entropy_with_logits(f, y.to(F64), reduction="none")
    torch.testing.assert_close(multi_label(f, y), theirs.mean(1))
    with pytest.raises(Refusal, match=r"a row of 0 and 1 .* \[60, 4\] .* \[60, 3\]"):
        multi_label(f, y[:, :3])
    f, y = pair(1)  # a margin of two classes
    torch.testing.assert_close(multi_label(f, y), cross_entropy(f, y[:, 0]))


# From the file to the prediction


@pytest.fixture
def data(tmp_path):
    """Three labels that a plane each tells apart, in an .npz file and in a table."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(240, 4)).astype(np.float32)
    y = (x @ draw.normal(size=(4, 3)) > 0).astype(np.int64)
    np.savez(tmp_path / "data.npz", x=x, y=y, owner=np.arange(240) % 6)
    rows = [["a", "b", "c", "d", *NAMES], *map(list, np.hstack([x, y]).tolist())]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "data.csv").write_text(text)
    return tmp_path


def experiment(data, kind="npz", **sections):
    more = {"label": [*NAMES]} if kind == "csv" else {}
    tree = {
        "data": {"name": kind, "path": str(data / f"data.{kind}"), **more},
        "partition": {"name": "iid", "clients": 6},
        "train": {"rounds": 20, "steps": 5, "batch": 10, "lr": 1.0},
        "engine": {"how": "vmap", "chunk": 3, "device": "cpu"},
    }
    return tree | {key: tree.get(key, {}) | more for key, more in sections.items()}


def test_npz_to_predictions(data):
    tree = experiment(data, personalizer={"name": "ditto", "lam": 0.5})
    [run] = troth.run(tree, out=data / "run")
    facts = run.experiment.resolved
    assert facts["multi_label"] is True and facts["classes"] == 3
    for kind in ("personal", "shared"):
        found = run.summary[kind]
        columns = ("accuracy", "exact", "balanced_accuracy", "auroc", "loss")
        assert all(math.isfinite(found[f"{column}_mean"]) for column in columns)
        assert found["accuracy_mean"] > 0.85  # it learns, and coins would have 0.5
        assert found["exact_mean"] <= found["accuracy_mean"]
    columns = ("accuracy", "exact", "shared_accuracy", "shared_auroc")
    assert all(len(run.clients[column]) == 6 for column in columns)
    with np.load(data / "data.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    found = run.predict(2, x)
    with torch.no_grad():
        outputs = run.model(2)(torch.from_numpy(x))
    assert np.array_equal(found, (outputs > 0).long())
    assert found.shape == (240, 3) and (found == y).mean() > 0.85


FILE = """
data = {{ name = "csv", path = "{}", label = {} }}
partition = {{ clients = 6 }}
train = {{ rounds = 3, steps = 2 }}
engine = {{ how = "loop" }}
"""


def test_csv_on_the_command_line(data):
    file, out = data / "e.toml", data / "run"
    file.write_text(FILE.format(data / "data.csv", [*NAMES]))

    def said(*given, code=0):
        result = CliRunner().invoke(app.app, [str(word) for word in given])
        assert result.exit_code == code, result.output
        return result

    result = said("run", file, "--out", out, "--json")
    assert "Accuracy of the clients' own models" in result.stderr
    [entry] = json.loads(result.stdout)["runs"]
    assert entry["experiment"]["resolved"]["labels"] == [*NAMES]
    assert {"exact_mean", "auroc_mean"} <= entry["summary"]["personal"].keys()
    what = ("predict", out, "--client", 0, "--data")
    with np.load(data / "data.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    found, result = troth.load(out).predict(0, x), said(*what, data / "data.npz")
    rows = [list(map(int, line.split())) for line in result.stdout.splitlines()]
    assert rows == found.tolist()
    right = (found == y).mean()
    assert f"accuracy {right:.3f} on 240 examples" in result.stderr
    told = json.loads(said(*what, data / "data.npz", "--json").stdout)
    assert told["predictions"] == rows and told["accuracy"] == pytest.approx(right)
    said(*what, data / "data.npz", "--out", data / "p.csv")
    table = files.read_csv(data / "p.csv")
    assert [*table] == ["example", *(f"prediction {name}" for name in NAMES)]
    assert table["prediction wet"].tolist() == found[:, 1].tolist()
    np.savez(data / "other.npz", x=x, y=y[:, 0])
    result = said(*what, data / "other.npz", code=2)
    assert "y has shape (240,) and the predictions have (240, 3)" in result.stderr


@pytest.mark.parametrize(
    ("sections", "labels", "words"),
    [
        ({"model": {"name": "svm"}}, 3, "model 'svm' separates 2 classes"),
        ({"model": {"name": "svm"}}, 2, "1 output does not fit 2 labels per example"),
        ({"train": {"loss": "cross_entropy"}}, 3, "'cross_entropy' needs one output p"),
        ({"train": {"loss": "huber"}}, 3, "'huber' needs one output and one target"),
        (
            {"partition": {"name": "classes"}},
            3,
            "needs data with labels and these have",
        ),
        ({"partition": {"name": "dirichlet"}}, 3, "needs data with labels and these h"),
    ],
)
def test_what_has_no_use_for_several_labels(data, sections, labels, words):
    with np.load(data / "data.npz") as arrays:
        held = dict(arrays)
    np.savez(data / "data.npz", **held | {"y": held["y"][:, :labels]})
    with pytest.raises(Refusal, match=words):
        troth.run(experiment(data, **sections), out=data / "run")
    assert not (data / "run").exists()
