"""Show runs in a browser while they train, by a read-only server on this machine."""

from troth.reports.live.server import Server

__all__ = ["Server"]
