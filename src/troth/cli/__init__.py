"""The command line, the only package that prints.

`app` starts the command line. `commands/` has one file per command. `tables` lays out
results, and `progress` shows progress.
"""
