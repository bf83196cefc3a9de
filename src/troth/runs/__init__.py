"""Runs: train an experiment into a folder, resume, read and compare.

`train` trains one run, and `train_many` trains the runs of a grid together.
`checkpoint` and `results` write the files of a run. `load` opens them as tables and
models, and `inspect` reads them for reports and plots. `compare` compares methods over
seeds and clients, and `table` writes the table of a grid. `personalize` makes a model
for a client that joins after training. `track` sends a run to trackers such as MLflow.
`given` handles data and networks that are Python objects. `check` shows how fast a
network is, and `bench` measures the engine.
"""
