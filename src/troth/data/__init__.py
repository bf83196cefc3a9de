"""Data on their way to the clients, in this order.

`load` finds a data set (`datasets`), partitions it into clients (`partitions`) and
splits each client into training, validation and test (`split`, `leakage`); `corrupt`
changes labels and inputs (`corruptions`); `preprocess` standardizes features
(`features`) and puts the result on the device. `user_files` reads what a user brings;
`catalogue` says which data sets are here.
"""
