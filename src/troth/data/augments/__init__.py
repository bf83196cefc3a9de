"""Random changes of training inputs (`train.augment`): inputs and keys → inputs."""
