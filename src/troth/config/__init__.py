"""The experiment file: its schema, its reader, and the expansion of a grid.

`schema` has one class per section, except for `[deployment]`, whose class is in
`deployment`. `checks` refuses values out of range. `reader` checks a TOML file or a
dict against the schema. `grid` makes one experiment per combination of values. `toml`
reads and writes TOML text.
"""
