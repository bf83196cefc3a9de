"""Runs in a browser while they go on: a server that only reads, for this machine."""

from troth.reports.live.server import Server

__all__ = ["Server"]
