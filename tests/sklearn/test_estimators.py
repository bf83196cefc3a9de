"""The estimators: scikit-learn's own checks, groups, pipelines and validation."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import troth
from troth.sklearn import FederatedClassifier, FederatedRegressor

LOOP = {"how": "loop"}  # the fastest for so few steps
FEW = {"rounds": 15, "experiment": {"train": {"batch": 8}, "engine": LOOP}}


@pytest.fixture(scope="module")
def data():
    """Three clients; the labels of the last one are those of the others, turned."""
    rng = np.random.default_rng(0)
    x, owner = rng.normal(size=(150, 3)), np.repeat(["ant", "bee", "cow"], 50)
    y = np.where((x[:, 0] > 0) != (owner == "cow"), "yes", "no")
    mixed = rng.permutation(150)
    return x[mixed], y[mixed], owner[mixed]


@pytest.mark.slow("scikit-learn's own checks of two estimators")
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [FederatedClassifier(rounds=50), FederatedRegressor()],
    expected_failed_checks=lambda estimator: {},  # none: every check passes
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_each_group_has_the_model_of_its_client(data, tmp_path):
    """Predictions are those of a run on the same data."""
    x, y, owner = data
    fitted = FederatedClassifier("ditto", features="none", **FEW).fit(
        x, y, groups=owner
    )
    assert [*fitted.groups_] == ["ant", "bee", "cow"] and [*fitted.classes_] == [
        "no",
        "yes",
    ]
    codes, first = (
        np.unique(owner, return_inverse=True)[1],
        [int(np.flatnonzero(owner == name)[0]) for name in fitted.groups_],
    )
    order = np.append(np.arange(len(x)), first)
    given = {"x": x[order].astype("f4"), "y": (y == "yes")[order].astype(int)}
    given |= {"owner": codes[order], "split": np.repeat([0, 2], [len(x), 3])}
    part = {"name": "natural", "split": "given", "leakage": "allow"}
    tree = {"partition": part, "personalizer": "ditto", "engine": LOOP}
    tree |= {"train": {"rounds": 15, "batch": 8, "lr": 0.1}}
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    (run,) = troth.run(tree | {"seed": seed}, data=given, out=tmp_path / "run")
    predicted = fitted.predict(x, groups=owner)
    for k, name in enumerate(fitted.groups_):
        mine = run.predict(k, x[owner == name].astype("f4"))
        assert [*(predicted[owner == name] == "yes")] == [*(mine == 1)]
    assert fitted.score(x, y, groups=owner) > 0.8 > fitted.score(x, y) + 0.1


def test_new_groups_and_no_groups_use_the_shared_model(data):
    x, y, owner = data
    fitted = FederatedClassifier("ditto", **FEW).fit(x, y, groups=owner)
    shared = fitted.predict_proba(x)
    strange = np.where(owner == "ant", "aaa", np.where(owner == "bee", "zzz", owner))
    mixed = fitted.predict_proba(x, groups=strange)
    known = strange == "cow"
    assert (mixed[~known] == shared[~known]).all()
    assert (mixed[known] == fitted.predict_proba(x, groups=owner)[known]).all()
    assert np.allclose(mixed.sum(axis=1), 1) and (mixed[known] != shared[known]).any()


def test_without_groups_there_is_one_client(data):
    x, y, owner = data
    rows = owner != "cow"
    fitted = FederatedClassifier(**FEW).fit(x[rows], y[rows])
    assert len(fitted.groups_) == 1 and fitted.score(x[rows], y[rows]) > 0.9


def test_a_regressor_per_group(data):
    x, _, owner = data
    y = x[:, 1] * np.where(owner == "cow", -2.0, 2.0)
    fitted = FederatedRegressor("local", rounds=60, experiment={"engine": LOOP}).fit(
        x, y, groups=owner
    )
    assert fitted.score(x, y, groups=owner) > 0.95 > fitted.score(x, y)
    assert fitted.predict(x, groups=owner).shape == (150,)


def test_clone_pickle_and_the_same_again(data):
    x, y, owner = data
    one = FederatedClassifier({"name": "ditto", "lam": 0.5}, random_state=3, **FEW)
    again = clone(one).fit(x, y, groups=owner)
    expected = one.fit(x, y, groups=owner).predict_proba(x, groups=owner)
    assert (again.predict_proba(x, groups=owner) == expected).all()
    loaded = pickle.loads(pickle.dumps(one))
    assert (loaded.predict_proba(x, groups=owner) == expected).all()
    other = clone(one).set_params(random_state=4).fit(x, y, groups=owner)
    assert (other.predict_proba(x, groups=owner) != expected).any()


def test_a_pipeline_and_cross_validation_by_groups(data):
    x, y, owner = data
    one = FederatedClassifier("local", features="none", **FEW)
    pipeline = make_pipeline(StandardScaler(), one)
    pipeline.fit(x, y, federatedclassifier__groups=owner)
    assert (pipeline.predict(x, groups=owner) == y).mean() > 0.9
    with sklearn.config_context(enable_metadata_routing=True):
        folds = StratifiedKFold(2)  # every client in every fold
        scores = cross_val_score(pipeline, x, y, cv=folds, params={"groups": owner})
        assert scores.min() > 0.85
        unseen = cross_val_score(one, x, y, cv=GroupKFold(3), params={"groups": owner})
        assert unseen.min() < 0.5  # a new client gets the shared model


class Net(nn.Module):
    """A small network of one's own."""

    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x):
        return self.layers(x)


def test_networks_of_ones_own(data):
    x, y, owner = data
    for model in (Net(), Net, {"name": "mlp", "widths": [8]}):
        one = clone(FederatedClassifier("local", model=model, lr=0.3, **FEW))
        assert one.fit(x, y, groups=owner).score(x, y, groups=owner) > 0.85


def test_refusals(data):
    x, y, owner = data
    with pytest.raises(ValueError, match="has the section 'grid'.*GridSearchCV"):
        FederatedClassifier(experiment={"grid": {"seed": [0]}}).fit(x, y)
    with pytest.raises(ValueError, match="has the section 'partition'.*remove it"):
        FederatedClassifier(experiment={"partition": "iid"}).fit(x, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FederatedClassifier().fit(x, y, groups=owner[:9])
    with pytest.raises(ValueError, match="all examples have one class, yes"):
        FederatedClassifier().fit(x, np.full(150, "yes"))
    with pytest.raises(ValueError, match="there is no personalizer 'dito'"):
        FederatedClassifier("dito").fit(x, y)
    own = FederatedClassifier(features="own", **FEW).fit(x, y, groups=owner)
    assert own.score(x, y, groups=owner) > 0.5
    with pytest.raises(ValueError, match="give groups= that were given to fit"):
        own.predict(x)
