"""Analyses of a finished run.

`certify` proves radii, `audit` looks for shortcuts by means of `transferability`, and
`advise` estimates the best λ by the theory of Ditto.
"""
