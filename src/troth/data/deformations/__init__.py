"""Changes of where an image's pixels lie: images and parameters → images."""
