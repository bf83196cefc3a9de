"""The experiment file: its schema, its reader, and the expansion of a grid.

`schema` has one class per section, except for `[deployment]`, whose class is in
`deployment`. `checks` raises errors for values out of range. `reader` checks a TOML
file or a dict against the schema. `grid` makes one experiment per combination of
values. `template` writes a new experiment file, and `json_schema` describes the file
for editors. `toml` reads and writes TOML text.
"""
