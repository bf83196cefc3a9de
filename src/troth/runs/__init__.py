"""A run: trained, saved, resumed, read and compared.

`train` trains one run into a folder and `train_many` a grid; `checkpoint` and `results`
write its files; `load` opens them as tables and models, `inspect` for pages and plots;
`compare` tests one run against another; `personalize` serves a client that comes later;
`bench` measures the engine.
"""
