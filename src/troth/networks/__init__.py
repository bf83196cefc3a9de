"""Build, validate, flatten and differentiate one network.

`build` makes the network (one of `models`), and `validate` tests whether vmap can lift
it over clients. `flat` lays its numbers out as one vector, with masks of its parts.
`task` adds a loss (one of `losses`) as a function of this vector. `layers`,
`batchnorm`, `convolution` and `kernels` hold fast layers; `weights` and `target_model`
read files, and `last_layer` estimates every client's last layer.
"""
