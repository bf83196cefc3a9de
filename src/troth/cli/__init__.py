"""The command line: the only room that prints.

`app` starts it, `commands/` has one file per command, `tables` lays out what people
see, `progress` draws the bars.
"""
