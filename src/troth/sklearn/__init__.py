"""Federated learning as estimators of scikit-learn.

`FederatedClassifier` and `FederatedRegressor` train a federation by `troth.run`. The
argument `groups` of `fit` says which client has which example. The estimators work in
pipelines, with `clone` and with `cross_val_score`.
"""

from troth.sklearn.estimators import FederatedClassifier, FederatedRegressor

__all__ = ["FederatedClassifier", "FederatedRegressor"]
