"""Panels of the terminal app: each draws a snapshot and sends intents."""
