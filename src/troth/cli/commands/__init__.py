"""The commands of `troth`: one file per command, with a function of the same name.

A command parses its options, calls the library and prints: results to stdout, progress
and notices to stderr. Slow imports are inside the functions, so that `--help` does not
wait for torch.
"""

ORDER = (
    *("new", "run", "resume", "show", "data", "list", "cite", "schema"),
    *("predict", "personalize", "certify", "audit", "advise", "poison"),
    *("report", "ui", "track", "reproduce"),
    *("server", "client", "bench", "check"),
)
"""Order of the commands in `troth --help`; commands that are not named here follow."""
