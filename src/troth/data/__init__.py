"""Modules that bring data to the clients, in order of use.

- `load` reads a data set (`datasets`) and partitions it into clients (`partitions`).
- `split` divides each client's examples into training, validation and test data, and
  `leakage` checks the result.
- `corrupt` changes the labels and inputs of malicious clients (`corruptions`).
- `preprocess` standardizes features (`features`) and moves the result to the device.

`user_files` reads a user's own data, and `catalogue` lists the available data sets.
"""
