"""MLflow: runs in a local database or on a tracking server."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from troth.types import Refusal, Tracked

_MOST = {"metrics": 1000, "params": 100}  # MLflow's limits of entries per request
_KEY, _VALUE = 250, 6000  # MLflow's limits of characters of a name and of a value
_TAG = "troth_run"
_QUICK = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # fail soon if there is no server
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""Settings of MLflow, unless the environment sets them."""


def mlflow(
    run: Tracked, parent: Any, *, uri: str = "", experiment: str = "troth"
) -> "_Recorded":
    """Record a run in MLflow; a grid is the parent run of its runs.

    If the run was recorded before, the earlier record is deleted. Install MLflow by
    `pip install 'troth[mlflow]'`.

    Args:
        run: The run or grid to record.
        parent: Tracker of the grid that contains the run, or `None`.
        uri: Address of the tracking server or database. "" means the environment
            variable MLFLOW_TRACKING_URI, or else `mlflow.db` in the current folder.
        experiment: Name of the MLflow experiment; it is created if it does not exist.
    """
    for name, value in _QUICK.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise Refusal(
            "mlflow is not installed; install it with: pip install 'troth[mlflow]'"
        ) from None
    client = MlflowClient(uri or None)
    group = _experiment(client, experiment)
    for old in client.search_runs([group], f"tags.{_TAG} = '{run.id}'"):
        client.delete_run(old.info.run_id)
    tags = {_TAG: run.id, "mlflow.source.name": "troth"}
    if parent is not None:
        tags["mlflow.parentRunId"] = parent.id
    made = client.create_run(group, tags=tags, run_name=run.name)
    where = f"{client.tracking_uri}, experiment '{experiment}'"
    recorded = _Recorded(client, made.info.run_id, where)
    recorded.settings(run.settings)
    return recorded


def _experiment(client: Any, name: str) -> str:
    """Return the id of an experiment; create the experiment if it does not exist."""
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name))
        except Exception:  # another process may have created it
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)


class _Recorded:
    """The tracker of one run in MLflow."""

    def __init__(self, client: Any, id_: str, where: str) -> None:
        self.id, self._client, self.where = id_, client, where

    def settings(self, settings: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        given = [Param(_named(k), v[:_VALUE]) for k, v in settings.items()]
        self._send("params", given)

    def log(self, rounds: Mapping[int, Mapping[str, float]]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._send(
            "metrics",
            [
                Metric(_named(name), value, now, step)
                for step, values in rounds.items()
                for name, value in values.items()
            ],
        )

    def _send(self, what: str, entries: Sequence[Any]) -> None:
        most = _MOST[what]
        for k in range(0, len(entries), most):
            self._client.log_batch(self.id, **{what: entries[k : k + most]})

    def save(self, files: Sequence[Path]) -> None:
        for file in files:
            self._client.log_artifact(self.id, str(file))

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self.id, "FINISHED" if finished else "KILLED")


def _named(name: str) -> str:
    """Replace characters that MLflow does not allow in names."""
    return re.sub(r"[^\w\-. /:]", "_", name)[:_KEY]
