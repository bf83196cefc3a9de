"""Deformations of images, such as rotations: images and parameters → images."""
