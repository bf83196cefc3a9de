"""Networks: `name(shape, classes, *, options)` → an `nn.Module`; shape is an example's.

Models do not normalize their inputs (`troth.networks.layers.Normalize` does so in front
of them). They draw initial weights from torch's default generator, which the caller
seeds. A model may define `loss(outputs, y)`, which returns one value per example, and
`penalty()`, which is added to the mean loss. Without them, `troth.networks.task` uses
cross-entropy, or ½(f − y)² for regression.
"""
