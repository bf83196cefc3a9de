"""Report runs as one HTML page with a trust card for every client."""

from troth.reports.page import Report, html, report

__all__ = ["Report", "html", "report"]
