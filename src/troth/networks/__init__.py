"""Build, validate, flatten and differentiate one network.

`build` makes it (`models`), `validate` tests whether it can be lifted, `task` gives it
a loss (`losses`) on a flat vector (`flat`, with masks of its parts). `layers`,
`batchnorm`, `convolution` and `kernels` make it fast; `weights`, `target_model` and
`last_layer` read files and choose parameters.
"""
