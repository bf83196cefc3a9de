"""The same experiment on a real federation, by Flower (extra `troth[flower]`)."""
