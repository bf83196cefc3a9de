"""Runs in a browser while they train: a read-only server for this machine."""

from troth.reports.live.server import Server

__all__ = ["Server"]
