"""Reports: one sample as JSON (schema livedbg.report/1), text or Markdown."""

from __future__ import annotations

from livedbg.report.brief import brief
from livedbg.report.build import build, report_of
from livedbg.report.document import SCHEMA, ReportDocument
from livedbg.report.json import from_json, to_json
from livedbg.report.markdown import to_markdown
from livedbg.report.text import to_text

__all__ = ["SCHEMA", "ReportDocument", "brief", "build", "from_json", "report_of", "to_json", "to_markdown", "to_text"]
