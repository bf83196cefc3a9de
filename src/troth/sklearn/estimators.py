"""A classifier and a regressor that train a personal model for every client."""

import copy
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import nn

from troth import api
from troth.types import TEST, TRAIN

Method = str | Mapping[str, Any]
"""Name of a method, or a dictionary with its `name` and options."""

_OWN = (
    "grid",
    "data",
    "partition",
    "model",
    "personalizer",
    "aggregator",
    "features",
    "seed",
)
"""Sections of an experiment that arguments of the estimators set."""
_ROWS = 4096  # number of examples that are predicted at once


class _Federated(BaseEstimator):
    """Base class of both estimators."""

    __metadata_request__fit = {"groups": True}
    __metadata_request__predict = {"groups": True}
    __metadata_request__score = {"groups": True}

    _rate = 0.1  # default learning rate

    def __init__(
        self,
        personalizer: Method = "none",
        *,
        model: Any = "linear",
        aggregator: Method = "mean",
        rounds: int = 100,
        lr: float | None = None,
        features: Method = "auto",
        valid: float = 0.0,
        experiment: Mapping[str, Any] | None = None,
        settings: Sequence[str] = (),
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.personalizer = personalizer
        self.model = model
        self.aggregator = aggregator
        self.rounds = rounds
        self.lr = lr
        self.features = features
        self.valid = valid
        self.experiment = experiment
        self.settings = settings
        self.random_state = random_state
        self.device = device

    def _fit(self, x: np.ndarray, y: np.ndarray, groups: Any) -> None:
        """Train on labels 0 … classes − 1, or on the targets of a regression."""
        owner = np.zeros(len(y), np.int64)
        self.groups_ = owner[:1]
        if groups is not None:
            self.groups_, owner = np.unique(_listed(groups, y), return_inverse=True)
        _, first = np.unique(owner, return_index=True)
        # Every client must have a test example, although its scores are not used.
        order = np.append(np.arange(len(y)), first)
        split = np.where(np.arange(len(order)) < len(y), TRAIN, TEST).astype(np.int8)
        data = {"x": x[order], "y": y[order], "owner": owner[order], "split": split}
        named = isinstance(self.model, str | Mapping)
        with tempfile.TemporaryDirectory() as folder:
            (run,) = api.run(
                self._experiment(),
                data=data,
                model=None if named else self.model,
                settings=self.settings,
                out=Path(folder) / "run",
                device=self.device,
            )
            own = run.experiment.personalizer.name != "none"
            prepared = run.experiment.features.name == "own"
            clients = range(len(self.groups_)) if own or prepared else ()
            self.models_ = {k: run.model(k).double() for k in clients}
            if not prepared:
                self.shared_: nn.Module | None = run.shared().double()
            else:  # inputs are prepared by the statistics of each client
                self.shared_ = run.shared(0).double() if len(clients) == 1 else None

    def _experiment(self) -> dict[str, Any]:
        """Return the experiment as a dictionary of sections."""
        tree = copy.deepcopy(dict(self.experiment or {}))
        for section in _OWN:
            if section in tree:
                raise ValueError(
                    f"experiment has the section '{section}', which arguments of this "
                    "estimator set (a grid: GridSearchCV); remove it"
                )
        features = self.features
        if features == "auto":
            features = "federated" if len(self.groups_) > 1 else "own"
        rate = self._rate if self.lr is None else self.lr
        tree["train"] = {"lr": rate, **tree.get("train", {}), "rounds": self.rounds}
        tree["evaluate"] = {"every": self.rounds, **tree.get("evaluate", {})}
        tree.setdefault("engine", {"how": "vmap"})  # others round differently
        if isinstance(self.model, str | Mapping):
            tree["model"] = self.model
        part = {"name": "natural", "split": "given", "valid": self.valid}
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return tree | {
            "partition": {**part, "leakage": "allow"},
            "personalizer": self.personalizer,
            "aggregator": self.aggregator,
            "features": features,
            "seed": seed,
        }

    def _outputs(self, x: Any, groups: Any) -> np.ndarray:
        """Return the outputs [m, k] for m examples, each by its client's model."""
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=np.float64)
        one = len(self.groups_) == 1 and groups is None
        client = np.full(len(x), 0 if one else -1)
        if groups is not None:
            names = _listed(groups, x)
            place = np.searchsorted(self.groups_, names).clip(max=len(self.groups_) - 1)
            client = np.where(self.groups_[place] == names, place, -1)
        found = None
        for k in np.unique(client):
            rows = np.flatnonzero(client == k)
            outputs = self._predicted(int(k), x[rows])
            if found is None:
                found = np.empty((len(x), outputs.shape[1]))
            found[rows] = outputs
        assert found is not None
        return found

    def _predicted(self, k: int, x: np.ndarray) -> np.ndarray:
        model = self.models_.get(k, self.shared_)
        if model is None:
            raise ValueError(
                "features = 'own' prepares the inputs of each client by statistics of "
                "that client; give groups= that were given to fit"
            )
        with torch.no_grad():
            parts = [
                model(torch.from_numpy(x[k : k + _ROWS]))
                for k in range(0, len(x), _ROWS)
            ]
        return torch.cat(parts).numpy()


class FederatedClassifier(ClassifierMixin, _Federated):
    """Train a classifier for every client of a federation.

    Each group of examples is a client. If `fit` gets no groups, all examples belong to
    one client. Examples of a group that `fit` has seen are predicted by the model of
    that client. Examples of a new group, or without a group, are predicted by the
    shared model.

    With scikit-learn's metadata routing, pipelines and cross-validation pass `groups`
    to this estimator; a call of `set_fit_request` is not needed.

    Args:
        personalizer: Method by which a client gets a personal model: a name, such as
            "ditto", or a dictionary with its `name` and options. With "none", all
            clients share one model. `troth list personalizer` prints all names.
        model: Network: a name, such as "linear" or "mlp", a dictionary with `name` and
            options, a `torch.nn.Module`, or a class or function that returns one.
        aggregator: Method by which the server combines the clients' updates: a name, or
            a dictionary with its `name` and options.
        rounds: Number of rounds. In a round, a client trains for one epoch, unless
            `experiment` sets another length.
        lr: Learning rate; `None` means 0.1.
        features: How inputs are standardized: "none", "own" (by the statistics of each
            client), "federated" (by the statistics of all clients), or a dictionary
            with `name` and options. "auto" means "own" for a single client, otherwise
            "federated".
        valid: Fraction of each client's examples that is used for validation. Some
            personalizers need it to choose options.
        experiment: Further sections of an experiment, such as {"train": {"cohort": 5},
            "adversary": {"fraction": 0.2}}.
        settings: Changes to the experiment, such as ["train.batch=16"].
        random_state: Seed of all random numbers.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps"; `None` means the setting of
            the experiment.

    Attributes:
        groups_: Groups in sorted order; groups_[k] is client k.
        shared_: Shared model, a `torch.nn.Module`; `None` if features are "own" and
            there are several clients.
        models_: Client → its personal model; empty if all clients share one model.
        classes_: Labels in sorted order.

    >>> import numpy as np
    >>> from troth.sklearn import FederatedClassifier
    >>> rng = np.random.default_rng(0)
    >>> x, owner = rng.normal(size=(120, 2)), np.repeat(["a", "b"], 60)
    >>> y = np.where((x[:, 0] > 0) == (owner == "a"), "yes", "no")
    >>> fitted = FederatedClassifier("local", rounds=20).fit(x, y, groups=owner)
    >>> bool(fitted.score(x, y, groups=owner) > 0.9 > fitted.score(x, y))
    True

    Read on: `docs/how-to/scikit-learn.md`.
    """

    __metadata_request__predict_proba = {"groups": True}

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train a federation.

        Args:
            X: [m, d] inputs.
            y: [m] labels.
            groups: [m] client of each example; `None` means a single client.
        """
        X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(
                f"all examples have one class, {self.classes_[0]}; a classifier needs "
                "examples of at least two"
            )
        self._fit(X, labels.astype(np.int64), groups)
        return self

    def predict_proba(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return the probability [m, classes] of every class.

        The probabilities are the softmax of the model's outputs. If the model has a
        single output for two classes, they follow from the logistic function of this
        output.
        """
        outputs = self._outputs(X, groups)
        if outputs.shape[1] == 1:
            outputs = np.hstack([np.zeros_like(outputs), outputs])
        return np.asarray(softmax(outputs, axis=1))

    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return the most probable label [m] of every example."""
        chosen = self.predict_proba(X, groups).argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def score(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the accuracy over all examples."""
        predicted = self.predict(X, groups)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class FederatedRegressor(RegressorMixin, _Federated):
    """Train a regression for every client of a federation, by squared error.

    Each group of examples is a client, as in `FederatedClassifier`. The targets are not
    scaled.

    Args:
        personalizer: Method by which a client gets a personal model: a name, such as
            "ditto", or a dictionary with its `name` and options. With "none", all
            clients share one model. `troth list personalizer` prints all names.
        model: Network: a name, such as "linear" or "mlp", a dictionary with `name` and
            options, a `torch.nn.Module`, or a class or function that returns one.
        aggregator: Method by which the server combines the clients' updates: a name, or
            a dictionary with its `name` and options.
        rounds: Number of rounds. In a round, a client trains for one epoch, unless
            `experiment` sets another length.
        lr: Learning rate; `None` means 0.02.
        features: How inputs are standardized: "none", "own" (by the statistics of each
            client), "federated" (by the statistics of all clients), or a dictionary
            with `name` and options. "auto" means "own" for a single client, otherwise
            "federated".
        valid: Fraction of each client's examples that is used for validation. Some
            personalizers need it to choose options.
        experiment: Further sections of an experiment, such as {"train": {"cohort": 5},
            "adversary": {"fraction": 0.2}}.
        settings: Changes to the experiment, such as ["train.batch=16"].
        random_state: Seed of all random numbers.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps"; `None` means the setting of
            the experiment.

    Attributes:
        groups_: Groups in sorted order; groups_[k] is client k.
        shared_: Shared model, a `torch.nn.Module`; `None` if features are "own" and
            there are several clients.
        models_: Client → its personal model; empty if all clients share one model.

    >>> import numpy as np
    >>> from troth.sklearn import FederatedRegressor
    >>> rng = np.random.default_rng(0)
    >>> x, owner = rng.normal(size=(120, 2)), np.repeat([1, 2], 60)
    >>> y = x[:, 0] * np.where(owner == 1, 3.0, -3.0)
    >>> fitted = FederatedRegressor("local", rounds=50).fit(x, y, groups=owner)
    >>> bool(fitted.score(x, y, groups=owner) > 0.9 > fitted.score(x, y))
    True

    Read on: `docs/how-to/scikit-learn.md`.
    """

    _rate = 0.02

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train a federation.

        Args:
            X: [m, d] inputs.
            y: [m] targets.
            groups: [m] client of each example; `None` means a single client.
        """
        X, y = validate_data(
            self, X, y, dtype=np.float32, y_numeric=True, ensure_min_samples=2
        )
        self._fit(X, np.asarray(y, np.float64), groups)
        return self

    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return the predicted value [m] of every example."""
        return self._outputs(X, groups)[:, 0]

    def score(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the coefficient of determination R² over all examples."""
        predicted = self.predict(X, groups)
        return float(r2_score(y, predicted, sample_weight=sample_weight))


def _listed(groups: Any, like: Any) -> np.ndarray:
    """Return the groups; raise ValueError if there is not one group per example."""
    found: np.ndarray = column_or_1d(groups)
    check_consistent_length(found, like)
    return found
