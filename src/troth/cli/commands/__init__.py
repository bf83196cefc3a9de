"""The commands of `troth`: one file per command, a function of its name.

They parse, call and print. What is said of a run goes to stderr, what was asked for to
stdout. They import what they need when they run: help must come at once, and torch does
not.
"""

ORDER = (
    *("new", "run", "resume", "data", "list", "cite", "schema"),
    *("predict", "personalize", "certify", "audit", "advise", "poison"),
    *("report", "ui", "reproduce"),
    *("server", "client", "bench"),
)
"""As help shows them; a command that is not named here comes after these."""
