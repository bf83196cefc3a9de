"""How a command ends that does not end well."""

from __future__ import annotations

import sys

BAD, STOPPED = 2, 130
"""Exit codes: bad input; stopped by the user."""


def complain(text: str, code: int = BAD) -> int:
    """One line on stderr; returns the exit code."""
    print(f"troth: {' '.join(text.split())}", file=sys.stderr)
    return code
