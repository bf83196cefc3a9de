"""Random change of inputs in training (`train.augment`): x and keys → x."""
