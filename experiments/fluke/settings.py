"""Settings that both sides train.

The module imports nothing, because fluke has an environment of its own. Keys are
Troth's; `theirs.py` has the name of each in fluke.
"""

SEEDS = (0, 1, 2)
EXAMPLES = 7500  # of MNIST's training images, drawn by the seed
PARTITION = {
    "name": "dirichlet",
    "clients": 20,
    "alpha": 0.3,
    "min_size": 20,
    "split": [0.8, 0.0, 0.2],
}
HIDDEN = 64
TRAIN = {"rounds": 10, "epochs": 1, "batch": 32, "lr": 0.1, "precision": "float64"}
METHODS = {
    "ditto": {"personalizer": {"lam": 1.0}},
    "apfl": {"personalizer": {"alpha": 0.5}},
    "pfedme": {"personalizer": {"lam": 5.0, "inner": 5}, "server": {"lr": 0.8}},
    "fedrep": {"personalizer": {"epochs": 2, "last": 1}},
}
TITLES = {"ditto": "Ditto", "apfl": "APFL", "pfedme": "pFedMe", "fedrep": "FedRep"}
