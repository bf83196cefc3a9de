"""The round, written once, and whole federations.

`rounds` is the loop; `samplers` say who is asked, `availability` who answers,
`newcomers` what clients get that never took part; `stacked` trains several federations
as one matrix.
"""
