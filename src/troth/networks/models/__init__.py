"""Networks: `name(shape, classes, *, options)` → an `nn.Module`; shape is an example's.

Normalization is not theirs (`troth.networks.layers.Normalize` stands before them), nor
is randomness: they draw from torch's default generator, which their caller seeds. A
model may define `loss(outputs, y)`, one value per example, and `penalty()`, which is
added; without them `troth.networks.task` takes cross-entropy, or ½(f − y)² for
regression.
"""
