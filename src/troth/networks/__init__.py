"""One network: built, validated, flattened and differentiated.

`build` makes it (`models`), `validate` tries whether it can be lifted, `task` gives it
a loss (`losses`, `objective`) on a flat vector (`flat`). `layers`, `batchnorm`,
`convolution` and `kernels` make it fast; `weights`, `masks` and `last_layer` choose
parameters.
"""
