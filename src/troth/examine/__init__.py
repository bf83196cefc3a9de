"""Analyses of a finished run.

`certify` proves within which radius a model's predictions stay the same. `audit` tests
whether clients' own models rely on shortcuts, and uses `transferability`. `advise`
estimates the best λ of the personalizer Ditto.
"""
