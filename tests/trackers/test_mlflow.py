"""MLflow's own client finds the values, settings and files of a run."""

import pytest

from troth.config.schema import Part
from troth.runs import track
from troth.trackers.mlflow import _named

pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # of what MLflow depends on


@pytest.fixture
def client(tmp_path, monkeypatch):
    """MLflow's client of a store in files, which is fast to make."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    from mlflow import MlflowClient

    return MlflowClient()


def test_values_read_back_are_ours(client, grid, expected, tmp_path):
    for _ in range(2):  # the second time replaces the first
        sent = track.track([grid[0].path.parent], Part("mlflow"))
    assert sent.places == (f"{client.tracking_uri}, experiment 'troth'",)
    group = client.get_experiment_by_name("troth").experiment_id
    found = {one.info.run_name: one for one in client.search_runs([group])}
    assert {*found} == {"many", "many/seed=0", "many/seed=1"}
    parent = found["many"].info.run_id
    for run in grid:
        one = found[f"many/{run.path.name}"]
        assert one.info.status == "FINISHED"
        assert one.data.tags["mlflow.parentRunId"] == parent
        assert one.data.params["train.rounds"] == "4"
        for name, values in expected(run).items():
            history = client.get_metric_history(one.info.run_id, name)
            assert {metric.step: metric.value for metric in history} == values
        for name in ("summary.json", "clients.csv", "experiment.toml"):
            saved = client.download_artifacts(one.info.run_id, name, str(tmp_path))
            with open(saved, "rb") as file:
                assert file.read() == (run.path / name).read_bytes()


def test_names_have_only_characters_that_mlflow_allows():
    assert _named("tests/männlich (50+)/x.y: z") == "tests/männlich _50__/x.y: z"
