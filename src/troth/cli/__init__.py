"""The command line: the only room that prints.

`app` starts it, `commands/` has one file per command, `tables` lays out results and
`progress` draws the bars.
"""
