"""The present state of a running simulator, read from its memory without a stop."""
