"""Deformations, which move an image's pixels: images and parameters → images."""
