"""The chain: a gradient attack → a model attack → a few poisoned examples.

Plain functions, no federation inside. What a hostile user reports against personalized
federated learning (`counter_gradient`) is turned into a model that reports it honestly
(`model_attack`), and that into data from which the model is learned: one example of a
linear regression (`single_example`), examples near the indifference subspace of a
linear classifier (`data_attack`), or of the last layer of a deep network
(`embeddings`). `docs/explanation/derivations/poison.md` derives every line.

λ is this library's: R = λ·½‖ρ − θ‖² for `l2sq`, so that the paper's λ‖ρ − θ‖² is twice
its λ here; `l2` and `smooth_l2` are the same in both.
"""

from troth.poison._given import Examples
from troth.poison.data import (
    Summary,
    data_attack,
    examples_needed,
    labelled,
    probabilities,
    save,
    summary,
    weight_needed,
    whole_numbers,
)
from troth.poison.inputs import (
    Head,
    Subspace,
    before,
    boxed_inputs,
    clipped_inputs,
    embeddings,
    head_of,
    indifference,
    indifferent_inputs,
)
from troth.poison.model import boundary_distance, model_attack
from troth.poison.single import (
    Optimum,
    coupled_optimum,
    honest_pull,
    single_example,
    spread,
)

__all__ = [
    "Examples",
    "Head",
    "Optimum",
    "Subspace",
    "Summary",
    "before",
    "boundary_distance",
    "boxed_inputs",
    "clipped_inputs",
    "coupled_optimum",
    "data_attack",
    "embeddings",
    "examples_needed",
    "head_of",
    "honest_pull",
    "indifference",
    "indifferent_inputs",
    "labelled",
    "model_attack",
    "probabilities",
    "save",
    "single_example",
    "spread",
    "summary",
    "weight_needed",
    "whole_numbers",
]
