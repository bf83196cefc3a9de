"""The command line `troth`, the only package that prints.

`app` starts the command line. `commands/` has one file per command. `tables` formats
results, and `progress` shows progress.
"""
