"""The commands of `troth`: one file per command, with a function of its name.

A command parses its options, calls the library and prints. Results for programs go to
stdout, everything for people to stderr. Heavy imports stand inside the functions, so
that `--help` does not wait for torch.
"""

ORDER = (
    *("new", "run", "resume", "data", "list", "cite", "schema"),
    *("predict", "personalize", "certify", "audit", "advise", "poison"),
    *("report", "ui", "reproduce"),
    *("server", "client", "bench"),
)
"""Order in `troth --help`; other commands follow."""
