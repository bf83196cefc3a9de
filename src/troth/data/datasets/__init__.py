"""Where data come from: one file a data set, a function that returns `Arrays`."""
