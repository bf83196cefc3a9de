"""What becomes of the learning rate over the rounds (`train.schedule`)."""
