"""The report as JSON."""

from __future__ import annotations

import msgspec

from livedbg.report.document import ReportDocument
from livedbg.text.json_text import json_bytes
from livedbg.text.typed import ready


def to_json(report: ReportDocument, *, pretty: bool = False) -> bytes:
    """The report as one line of JSON, or indented by two; without a newline at the end."""
    return json_bytes(report, pretty=pretty)


def from_json(data: bytes) -> ReportDocument:
    """A report that `to_json` made.

    Raises:
        msgspec.DecodeError: not JSON, or not a report.
    """
    return msgspec.json.decode(data, type=ready(ReportDocument))
