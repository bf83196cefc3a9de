"""Load data, divide them among clients, and prepare them for training.

The modules are used in this order:

- `load` reads a data set (`datasets`) and divides it among clients (`partitions`).
- `split` divides each client's examples into training, validation and test data, and
  `leakage` checks the result.
- `corrupt` changes labels and inputs of malicious clients (`corruptions`).
- `preprocess` standardizes features (`features`) and moves the result to the device.

`user_files` reads the data of new clients and of sites, and `catalogue` lists the
available data sets.
"""
