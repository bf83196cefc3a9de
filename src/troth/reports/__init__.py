"""One page for people: what some runs came to, and a trust card for every client."""

from troth.reports.page import Report, html, report

__all__ = ["Report", "html", "report"]
