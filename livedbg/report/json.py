"""The report as JSON."""

from __future__ import annotations

import msgspec

from livedbg.report.document import ReportDocument

__all__ = ["from_json", "to_json"]


def to_json(report: ReportDocument, *, pretty: bool = False) -> bytes:
    """The report as one line of JSON, or indented by two; without a newline at the end."""
    encoded = msgspec.json.encode(report)
    return msgspec.json.format(encoded, indent=2) if pretty else encoded


def from_json(data: bytes) -> ReportDocument:
    """A report that `to_json` made.

    Raises:
        msgspec.DecodeError: not JSON, or not a report.
    """
    return msgspec.json.decode(data, type=ReportDocument)
