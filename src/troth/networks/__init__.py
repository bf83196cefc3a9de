"""The network of one client, its loss and its gradient.

`build` makes the network (one of `models`), and `validate` tests whether vmap can
compute it for many clients at once. `flat` arranges its parameters as one vector, and
makes masks of parts of the vector. `task` combines network and loss (one of `losses`)
into functions of this vector. `layers`, `batchnorm`, `convolution` and `kernels` have
fast layers. `in_memory` handles networks that a caller passes as objects. `weights` and
`target_model` read files, and `last_layer` estimates every client's optimal last layer.
"""
