"""The command line: the only room that prints.

`app` starts it, `commands/` has one file per command, `tables` and `outcome` lay out
what people see, `progress` draws the bars.
"""
