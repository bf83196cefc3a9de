"""One client: what it does in a round, written for a single flat vector.

`client` makes it of a solver and a personalizer. The other folders are kinds of parts.
"""
