"""audit.json -> one self-contained page that a data steward can read, print and keep."""

from sfumato.auditing.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
