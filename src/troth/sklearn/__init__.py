"""Federated learning as estimators of scikit-learn.

`FederatedClassifier` and `FederatedRegressor` train with `troth.run`. The argument
`groups` of `fit` names the client that holds each example. They work in pipelines, with
`clone` and with `cross_val_score`.
"""

from troth.sklearn.estimators import FederatedClassifier, FederatedRegressor

__all__ = ["FederatedClassifier", "FederatedRegressor"]
