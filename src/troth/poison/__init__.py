"""Turn a gradient attack into a model attack, and that into poisoned examples.

In personalized federated learning, a regularizer R(ρ, θ) pulls the shared model ρ and a
user's model θ together. The attack `counter_gradient` sends false gradients to the
server, until ρ is at a target θ†. `model_attack` computes a model θ♠ whose honest
gradients have the same effect. The other functions make data from which θ♠ is learned:
one example of a linear regression (`single_example`), or many examples of a linear
classifier (`data_attack`), which may be the last layer of a deep network
(`embeddings`). The functions work on arrays, without a federation.

The paper is Farhadkhani et al. (2022), *An Equivalence Between Data Poisoning and
Byzantine Gradient Attacks*. `docs/explanation/derivations/poison.md` has the
derivations. For the regularizer `l2sq`, R = λ·½‖ρ − θ‖² here and λ‖ρ − θ‖² in the
paper, so the paper's λ is half of λ here. For `l2` and `smooth_l2` both are the same.
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
