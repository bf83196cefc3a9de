"""The experiment file: its schema, how it is read and how a grid unfolds.

`schema` has one class per section (`deployment` that of the sites), whose values
`checks` holds in range; `reader` checks a TOML file or a dict against it, `grid` makes
one experiment per combination and `toml` writes one.
"""
