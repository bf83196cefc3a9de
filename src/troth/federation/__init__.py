"""The round, written once, and whole federations.

`rounds` is the loop; `sampling` says who is there and who is asked (`samplers`),
`newcomers` what clients get that never took part; `stacked` trains several federations
as one matrix.
"""
