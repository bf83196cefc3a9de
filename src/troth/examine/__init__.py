"""Questions asked of a finished run.

`certify` proves radii, `audit` looks for shortcuts by `transferability`, and `advise`
says which λ the theory has for these clients.
"""
