"""IREE in a living process, read from its memory without a stop."""
