"""One network: built, validated, flattened and differentiated.

`build` makes it (`models`), `validate` tries whether it can be lifted, `task` gives it
a loss (`losses`) on a flat vector (`flat`, with masks of what is frozen). `layers`,
`batchnorm`, `convolution` and `kernels` make it fast; `weights` and `last_layer` choose
parameters.
"""
