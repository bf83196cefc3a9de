"""A run: it is trained, saved, resumed, read and compared.

`train` trains one run into a folder, and `train_many` trains the runs of a grid.
`checkpoint` and `results` write the files of a run. `load` opens them as tables and
models, and `inspect` reads them for pages and plots. `compare` compares methods over
seeds and clients, and `table` writes the table of a grid. `personalize` makes a model
for a client that arrives after training. `bench` measures the engine.
"""
