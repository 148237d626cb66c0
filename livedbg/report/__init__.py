"""Reports: one sample as JSON (schema livedbg.report/1), text or Markdown."""
