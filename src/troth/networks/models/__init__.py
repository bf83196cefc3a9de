"""Models: functions `name(shape, classes, *, options)` that return a `nn.Module`.

`shape` is the shape of one example. Models do not normalize their inputs; the layer
`troth.networks.layers.Normalize` in front of them does. They draw initial weights from
torch's default generator, which the caller seeds. A model may define `loss(outputs,
y)`, which returns one value per example, and `penalty()`, which is added to the mean
loss. Otherwise the loss is that of `[train]`, and there is no penalty.
"""
