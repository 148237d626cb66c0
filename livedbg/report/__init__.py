"""Reports: a snapshot and its diagnosis as JSON, text, Markdown."""
