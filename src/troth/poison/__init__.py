"""The chain: a gradient attack → a model attack → a few poisoned examples.

Plain functions, no federation inside. What a malicious user reports against
personalized federated learning (`counter_gradient`) is turned into a model that reports
it honestly (`model_attack`), and that into data from which the model is learned: one
example of a linear regression (`single_example`), examples near the indifference
subspace of a linear classifier (`data_attack`), or of the last layer of a deep network
(`embeddings`). `docs/explanation/derivations/poison.md` derives every line.

λ is this library's: R = λ·½‖ρ − θ‖² for `l2sq`, so that the paper's λ‖ρ − θ‖² is twice
its λ here; `l2` and `smooth_l2` are the same in both.
"""

from troth.poison._given import Examples as Examples
from troth.poison.data import Summary as Summary
from troth.poison.data import data_attack as data_attack
from troth.poison.data import examples_needed as examples_needed
from troth.poison.data import labelled as labelled
from troth.poison.data import probabilities as probabilities
from troth.poison.data import save as save
from troth.poison.data import summary as summary
from troth.poison.data import weight_needed as weight_needed
from troth.poison.data import whole_numbers as whole_numbers
from troth.poison.inputs import Head as Head
from troth.poison.inputs import Subspace as Subspace
from troth.poison.inputs import before as before
from troth.poison.inputs import boxed_inputs as boxed_inputs
from troth.poison.inputs import clipped_inputs as clipped_inputs
from troth.poison.inputs import embeddings as embeddings
from troth.poison.inputs import head_of as head_of
from troth.poison.inputs import indifference as indifference
from troth.poison.inputs import indifferent_inputs as indifferent_inputs
from troth.poison.model import boundary_distance as boundary_distance
from troth.poison.model import model_attack as model_attack
from troth.poison.single import Optimum as Optimum
from troth.poison.single import coupled_optimum as coupled_optimum
from troth.poison.single import honest_pull as honest_pull
from troth.poison.single import single_example as single_example
from troth.poison.single import spread as spread
